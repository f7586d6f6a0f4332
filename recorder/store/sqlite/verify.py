"""The connections that prove a database file.

Scratch tables are in a separate database, in memory or a temporary file, to which the log is
attached for reading.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, Table
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateTable

from recorder.errors import StoreError
from recorder.model.text import counted
from recorder.store.engine import BUSY_TIMEOUT_S
from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.search import INDEXES, Indexed
from recorder.store.sql import Statement
from recorder.store.sqlite import address
from recorder.store.sqlite import connection as of_file
from recorder.store.sqlite.connection import Recipe, apply, file_uri, translated
from recorder.store.sqlite.schema import SEARCH_TABLES, open_log

_DAMAGE = Statement("PRAGMA integrity_check(20)")
_ORPHANS = Statement("""SELECT count(*) FROM (SELECT DISTINCT exchange FROM stored_events)
WHERE exchange NOT IN (SELECT number FROM stored_exchanges)""")

SCRATCH: Recipe = {"trusted_schema": 0, "cell_size_check": 1}


def _no_search(index: Indexed) -> tuple[str, str]:
    """Return the statements for a view in the place of an index, which takes its rows and keeps
    none.
    """
    columns = ", ".join(f"'' AS {name}" for name in (index.name, *index.columns.split(", ")))
    return (
        f"CREATE TEMP VIEW {index.name} AS SELECT 0 AS rowid, {columns}",
        f"CREATE TEMP TRIGGER {index.name}_insert INSTEAD OF INSERT ON {index.name} BEGIN SELECT 1; END",
    )


@contextmanager
def verify_connection(url: URL) -> Iterator[SqliteVerifyConnection]:
    address.require(url)
    path = address.path(url)
    with open_log(path) as connection:
        yield SqliteVerifyConnection(path, connection)


@contextmanager
def scratch_connection(url: URL, tables: Sequence[Table]) -> Iterator[SqliteVerifyConnection]:
    """The scratch tables are in the schema `main`, and the log is attached as the schema `log`."""
    path = address.path(url)
    with translated(path):
        connection = sqlite3.connect("", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S)
    with closing(connection):
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        with translated(path):
            apply(connection, SCRATCH)
            for table in tables:
                connection.execute(str(CreateTable(table).compile(dialect=dialect.dialect())))
            for index in INDEXES:
                for statement in _no_search(index):
                    connection.execute(statement)
            connection.execute("ATTACH ? AS log", (f"{file_uri(path)}?mode=ro",))
        yield SqliteVerifyConnection(path, connection)


class SqliteVerifyConnection(VerifyConnection):
    driver, begin = of_file, "BEGIN"

    def damage(self) -> list[str]:
        """Return what `PRAGMA integrity_check` finds, which reads all of the file and compares
        indexes with tables.
        """
        try:
            found = [str(message) for (message,) in self.ask(_DAMAGE, {})]
        except StoreError as error:
            return [str(error)]
        return [] if found == ["ok"] else found

    def orphans(self) -> list[str]:
        [(count,)] = self.ask(_ORPHANS, {})
        if not count:
            return []
        return [
            f"{counted(count, 'exchange')} removed: the events are still there, and no view shows them"
        ]

    def search_damage(self) -> list[str]:
        return [
            index.damage
            for index, create in zip(INDEXES, SEARCH_TABLES, strict=True)
            if not _has_its_words(self._place, index, create)
        ]


def _has_its_words(path: Path, index: Indexed, create: str) -> bool:
    """Return whether FTS5 finds an index to be of its rows.

    Its check is written as an insert, for which it takes the lock of writers. So it is made of a
    copy of what the index has, in a temporary database that reads the rows of the log.
    """
    with (
        translated(path),
        closing(sqlite3.connect("", uri=True, isolation_level=None)) as connection,
    ):
        apply(connection, SCRATCH)
        connection.execute("ATTACH ? AS log", (f"{file_uri(path)}?mode=ro",))
        connection.execute("BEGIN")
        name, table = index.name, index.projection.table
        connection.execute(create.replace("VIRTUAL TABLE ", "VIRTUAL TABLE temp.", 1))
        connection.execute(
            f"CREATE TEMP VIEW {table} AS SELECT rowid AS rowid, {index.columns} FROM log.{table}"
        )
        try:
            # Of the copy, FTS5 has read the version by now.
            versions = f"SELECT v FROM temp.{name}_config WHERE k = 'version' EXCEPT SELECT v FROM log.{name}_config"
            if connection.execute(f"{versions} WHERE k = 'version'").fetchall():
                return False
            for part in ("data", "docsize", "idx"):
                connection.execute(f"DELETE FROM temp.{name}_{part}")
                connection.execute(
                    f"INSERT INTO temp.{name}_{part} SELECT * FROM log.{name}_{part}"
                )
            connection.execute(
                f"INSERT INTO temp.{name} ({name}, rank) VALUES ('integrity-check', 1)"
            )
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF in (
                sqlite3.SQLITE_CORRUPT,
                sqlite3.SQLITE_ERROR,
                sqlite3.SQLITE_NOMEM,
            ):
                return False
            raise
        return True
