"""How Alembic reaches the database: on the connection that `recorder.store.maintain.migrate` hands
it, or by a URL of its own.

On the command line the URL is `-x db=URL-OR-PATH`, else `RECORDER_DB`, else the default database.
"""

import os
import warnings

from alembic import context
from sqlalchemy import Connection

from recorder.store import schema
from recorder.store.engine import schema_of
from recorder.store.location import chosen_url
from recorder.store.search import INDEX_NAMES
from recorder.store.sqlite.tables import STORED, compact


def _is_ours(name: str | None, kind: str, parents: object) -> bool:
    """Full-text search keeps tables of its own, which no metadata declares."""
    return kind != "table" or not str(name).startswith(INDEX_NAMES)


def _is_table(declared: object, name: str | None, kind: str, *_: object) -> bool:
    """In a file, what stands for the log's largest tables are views."""
    return kind != "table" or name not in STORED


# Alembic cannot compare an index that begins with an expression: tests do.
warnings.filterwarnings("ignore", message=".*expression-based index")


def run(connection: Connection) -> None:
    is_file = connection.dialect.name == "sqlite"
    context.configure(
        connection=connection,
        target_metadata=[schema.metadata, compact] if is_file else schema.metadata,
        version_table=schema.VERSION_TABLE,
        include_name=_is_ours,
        include_object=_is_table if is_file else None,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    database = context.get_x_argument(as_dictionary=True).get("db") or os.environ.get("RECORDER_DB")
    url = chosen_url(database)
    with schema_of(url).migration(url) as connection:
        run(connection)
