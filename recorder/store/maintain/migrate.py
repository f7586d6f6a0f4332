"""The schema's revisions, and how a database gets the newest, whichever engine it is on.

Rules of this file:

* A database that is not recorder's, or is newer than this program, is refused before anything is
  written to it.
* An upgrade is one transaction under the write lock: all of it or nothing, even if other processes
  open the database meanwhile.
* Alembic takes longer to import than everything else here together: it is imported only when there
  is work for it.

What an engine adds (whose file it is, who may begin) is in its own `schema` module.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from recorder.errors import StoreError
from recorder.store.engine import schema_named
from recorder.store.schema import APPLICATION_ID as APPLICATION_ID
from recorder.store.schema import HEAD, READ_REVISION, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config

FIRST = "4"  # the oldest
UNRELEASED = ("0021", "1", "2", "3")  # of before the first release: their logs come over


def migrations() -> Path:
    """Return the folder of the migration scripts: in the package of an installed wheel, beside it
    in a checkout.
    """
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def require_known(name: object, revision: str | None) -> None:
    """Raise `StoreError` if the schema is of a newer recorder, or older than the last before the
    first release.
    """
    from alembic.script import ScriptDirectory

    if revision is None or revision in UNRELEASED:
        return
    if _BEFORE.fullmatch(revision):
        raise StoreError(
            f"The database {name} was made before the first release of recorder (its schema is {revision}): `export` "
            "its sessions as cassettes with the recorder that made it, and `import` them here."
        )
    scripts = ScriptDirectory.from_config(_config())
    if revision not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"The database {name} was made by a newer recorder (its schema is {revision}, this one knows {HEAD}): "
            "upgrade recorder, or give another path."
        )


_BEFORE = re.compile("00[0-9]{2}")


def recreate(connection: Connection) -> None:
    """Make the views and guards of this program, in place of those that a log has.

    They are not data: no revision has their text.
    """
    for statement in schema_named(connection.dialect.name).recreation():
        connection.exec_driver_sql(statement)


def run(connection: Connection) -> None:
    """Run the migrations that a database lacks, in the transaction of a connection."""
    from alembic import command

    if connection.dialect.has_table(connection, VERSION_TABLE):
        revision = connection.exec_driver_sql(READ_REVISION).scalar()
        if revision in UNRELEASED:
            schema_named(connection.dialect.name).bridge(connection)
            connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{FIRST}'")
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    return config
