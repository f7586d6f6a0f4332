"""The connections that prove a log on PostgreSQL: they need the rights of a reader, and to make
temporary tables.

Whether pages and indexes of the server are whole is the server's own affair (data checksums,
`amcheck`): what is damaged there and gives other rows, or none, is found like everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from sqlalchemy import URL, Table

from recorder.errors import RecorderError
from recorder.store.engine import READER_ROLE
from recorder.store.location import database_name
from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.postgres import connection as of_server
from recorder.store.postgres.connection import open_reader
from recorder.store.postgres.ddl import SCHEMA, WORDS
from recorder.store.postgres.rights import SEES_ALL
from recorder.store.postgres.schema import open_log
from recorder.store.search import INDEX_NAMES, INDEXES, Indexed
from recorder.store.sql import Statement

_NO_SEARCH = (
    "CREATE TEMP VIEW {name} AS SELECT * FROM {schema}.{name}",
    "CREATE RULE no_words AS ON INSERT TO pg_temp.{name} DO INSTEAD NOTHING",
    "CREATE RULE no_loss AS ON DELETE TO pg_temp.{name} DO INSTEAD NOTHING",
)
"""The statements for a view in the place of an index, which takes its rows and keeps none."""


@contextmanager
def verify_connection(url: URL) -> Iterator[PostgresVerifyConnection]:
    with open_log(url, {}) as connection:
        yield PostgresVerifyConnection(url, connection)


@contextmanager
def scratch_connection(url: URL, tables: Sequence[Table]) -> Iterator[PostgresVerifyConnection]:
    """The scratch tables are in the schema `pg_temp`, the log is the schema `recorder`."""
    with open_reader(url, {"search_path": f"pg_temp, {SCHEMA}"}) as connection:
        if connection.execute(SEES_ALL.encode()).fetchone() == (False,):
            raise RecorderError(
                f"A log is verified as a whole, and this user sees only rows of its own in {database_name(url)}: "
                f"give a login that was granted {READER_ROLE}."
            )
        try:
            with connection.transaction():
                connection.execute(b"SET TRANSACTION READ WRITE")
                for table in tables:
                    made = (
                        f"CREATE TEMP TABLE {table.name} (LIKE {SCHEMA}.{table.name} INCLUDING ALL)"
                    )
                    connection.execute(made.encode())
                for name in INDEX_NAMES:
                    for statement in _NO_SEARCH:
                        connection.execute(statement.format(name=name, schema=SCHEMA).encode())
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ReadOnlySqlTransaction,
        ) as error:
            raise RecorderError(
                "What was computed is compared in temporary tables, which this user may not make in "
                f"{database_name(url)}: GRANT TEMPORARY ON DATABASE {url.database} to it."
            ) from error
        yield PostgresVerifyConnection(url, connection)


class PostgresVerifyConnection(VerifyConnection):
    driver = of_server
    # temporary tables may be written all the same
    begin = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def search_damage(self) -> list[str]:
        with self.transaction():
            answers = self.run_all([(Statement(_search_differs(index)), {}) for index in INDEXES])
        return [
            index.damage for index, [(differs,)] in zip(INDEXES, answers, strict=True) if differs
        ]


def _search_differs(index: Indexed) -> str:
    """Return the statement that selects whether an index has other rows, or other words, than its
    projection.
    """
    key = ", ".join(index.projection.key)
    of_rows = (
        f"SELECT {key}, {WORDS(index.columns)} AS words FROM {SCHEMA}.{index.projection.table}"
    )
    both = f"({of_rows}) AS t FULL JOIN {SCHEMA}.{index.name} AS s USING ({key})"
    return f"SELECT EXISTS (SELECT FROM {both} WHERE t.words IS DISTINCT FROM s.words)"
