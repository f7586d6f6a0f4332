"""SQL of the user's own, on a connection that can do nothing but read: a
`recorder.store.engine.Querying`.

Rules of this file:

* What a statement may do is a list of four things; whatever is not on it is refused before it runs.
  A connection that is merely opened for reading would still write: `ATTACH` and `VACUUM INTO` make
  files, `PRAGMA` undoes pragmas.
* One call, one statement. Its rows are read as they are wanted, however many there are.
* A statement that gives no row in time is interrupted, and so is one that somebody stops: between
  two steps of SQLite's machine. One step may take hours, so what somebody typed runs in a process
  of its own (`recorder.store.queries.query_process`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL

from recorder.errors import RecorderError, UsageError
from recorder.store.engine import DuckdbSource
from recorder.store.queries.query import NO_SQL, Row, Value, WatchedQuery, first_word
from recorder.store.schema import REBUILD_IS_DUE
from recorder.store.sqlite import address
from recorder.store.sqlite.connection import translated
from recorder.store.sqlite.schema import open_log

# of a value that a statement makes: SQLite's own limit is 1 GB, of which it makes copies
VALUE_BYTES = 256 * 2**20

_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# What SQLite itself does when `json_each` or the full-text table is first named. It changes
# nothing: an `UPDATE` of the schema that a user writes is refused all the same, and the two locks
# after this one would refuse it too.
_OF_VIRTUAL_TABLES = {
    *(
        (sqlite3.SQLITE_UPDATE, "sqlite_master", column)
        for column in ("type", "name", "tbl_name", "rootpage", "sql")
    ),
    (sqlite3.SQLITE_PRAGMA, "data_version", None),
}
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
# the pages of the file as they are, where SQLite was built with it: nobody's rows
_REFUSED_TABLES = {"sqlite_dbpage"}
_READS = {"SELECT", "WITH", "VALUES", "EXPLAIN"}


class SqliteQuery(WatchedQuery):
    """A `recorder.store.queries.query.Query` of a database file;
    `with SqliteQuery.open(url) as query:`.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.path = path
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, url: URL) -> Iterator[SqliteQuery]:
        """Raise `NotFoundError` if there is no such file, `StoreError` if it is not a log that can
        be read here.
        """
        address.require(url)
        with open_log(address.path(url)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(_authorize)
            query = cls(address.path(url), connection)
            try:
                yield query
            finally:
                query.let_go()

    def is_stale(self) -> bool:
        with translated(self.path):
            return bool(self._connection.execute(REBUILD_IS_DUE).fetchone()[0])

    def _interrupt(self) -> None:
        self._connection.interrupt()

    def _answer(self, sql: str, values: dict[str, Value], timeout_s: float) -> Generator[Row]:
        with self._explained(sql, timeout_s):
            cursor = self._connection.execute(sql, values)
        if cursor.description is None:
            raise UsageError(NO_SQL)
        yield tuple(column[0] for column in cursor.description)
        while True:
            with self._explained(sql, timeout_s):
                row = cursor.fetchone()
            if row is None:
                return
            yield row

    @contextmanager
    def _explained(self, sql: str, timeout_s: float) -> Iterator[None]:
        try:
            with self._in_time(timeout_s):
                yield
        except UnicodeDecodeError as error:
            # the driver takes what SQLite says for UTF-8, but it may quote any bytes
            raise RecorderError(
                f"{error.object.decode('utf-8', 'replace').rstrip('.')}."
            ) from error
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_INTERRUPT:
                raise self._interrupted(timeout_s) from error
            if code in _OF_THE_STATEMENT:
                raise RecorderError(_explanation(sql, error, code)) from error
            with translated(self.path):
                raise


query = SqliteQuery.open


def duckdb_source(url: URL) -> DuckdbSource:
    return DuckdbSource(("sqlite-scanner",), "sqlite", str(address.path(url)))


_OF_THE_STATEMENT = {
    None,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
}


def _explanation(sql: str, error: BaseException, code: int | None) -> str:
    verb = first_word(sql)
    text = str(error).rstrip(".")
    # of a view
    if code == sqlite3.SQLITE_AUTH or "not authorized" in text or "cannot modify" in text:
        return f"`recorder query` only reads: {text if verb in _READS else f'{verb} is refused'}."
    if text.startswith("no such table"):
        return f"{text}; `recorder query --list` names the views."
    if "supply a value for binding" in text:
        return f"{text}: give it with `-p NAME VALUE`."
    if text.startswith("Binding"):
        return "A `?` has no name: write `:name`, and give its value with `-p NAME VALUE`."
    return f"{text}."


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _within: str | None
) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if second in _REFUSED_FUNCTIONS else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first in _REFUSED_TABLES:
        return sqlite3.SQLITE_DENY
    return (
        sqlite3.SQLITE_OK
        if action in _ALLOWED or (action, first, second) in _OF_VIRTUAL_TABLES
        else sqlite3.SQLITE_DENY
    )
