"""The connection that proves a database file. The scratch tables are in a database of their own, in memory or a
temporary file, to which the log is attached for reading only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Table
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateTable

from recorder.errors import StoreError
from recorder.store import migrate
from recorder.store.location import database_path
from recorder.store.schema import SEARCH
from recorder.store.sql import Statement
from recorder.store.sqlite.connection import BUSY_TIMEOUT_S, READER, Recipe, apply, file_uri, translated

SCRATCH: Recipe = {"trusted_schema": 0, "cell_size_check": 1}

_NO_SEARCH = (
    f"CREATE TEMP VIEW {SEARCH} AS SELECT 0 AS rowid, '' AS {SEARCH}, '' AS text, '' AS refusal, '' AS summary_text, "
    "'' AS arguments",
    f"CREATE TEMP TRIGGER no_search INSTEAD OF INSERT ON {SEARCH} BEGIN SELECT 1; END",
)


@contextmanager
def opened(url: URL) -> Iterator[SqliteReader]:
    """Raises `StoreError` if it is not a log that can be read here."""
    path = database_path(url)
    if migrate.is_empty(path):
        migrate.require_head(path, None)
    with _connected(f"{file_uri(path)}?mode=ro", path, READER) as connection:
        with translated(path):
            row = connection.execute(migrate.READ_REVISION).fetchone()
        migrate.require_head(path, row[0] if row else None)
        yield SqliteReader(path, connection)


@contextmanager
def scratch(url: URL, tables: Sequence[Table]) -> Iterator[SqliteReader]:
    """The log is the schema `log`, what is made stands in `main`. What is written to the full-text index is dropped."""
    path = database_path(url)
    with _connected("", path, SCRATCH) as connection:
        with translated(path):
            for table in tables:
                connection.execute(str(CreateTable(table).compile(dialect=dialect.dialect())))
            for statement in _NO_SEARCH:
                connection.execute(statement)
            connection.execute("ATTACH ? AS log", (f"{file_uri(path)}?mode=ro",))
        yield SqliteReader(path, connection)


@contextmanager
def _connected(name: str, path: Path, recipe: Recipe) -> Iterator[sqlite3.Connection]:
    with translated(path):
        connection = sqlite3.connect(name, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S)
    with closing(connection):
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        with translated(path):
            apply(connection, recipe)
        yield connection


class SqliteReader:
    """A `recorder.store.verify.connection.Reader`."""

    engine = "sqlite"

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with translated(self._path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        with translated(self._path), closing(self._connection.execute(statement.text(self.engine), values)) as rows:
            yield from rows

    def run(self, statement: Statement, values: Any) -> None:
        with translated(self._path):
            if isinstance(values, list):
                self._connection.executemany(statement.text(self.engine), values)
            else:
                self._connection.execute(statement.text(self.engine), values)

    def damage(self) -> list[str]:
        """Reads all of the file."""
        try:
            with translated(self._path):
                found = [str(row[0]) for row in self._connection.execute("PRAGMA quick_check(20)")]
        except StoreError as error:
            return [str(error)]
        return [] if found == ["ok"] else found
