"""SQL of the user's own, on a connection that can do nothing but read.

Rules of this file:

* What a statement may do is a list of four things; whatever is not on it is refused before it runs. A connection that
  is merely opened for reading would still write: `ATTACH` and `VACUUM INTO` make files, `PRAGMA` undoes pragmas.
* One call, one statement. Its rows are read as they are wanted, however many there are.
* Whoever interrupts a statement stops it; nobody has to, if it computes on and on without giving a row.
"""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sqlalchemy import URL

from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.store import migrate
from recorder.store.location import database_path
from recorder.store.schema import REBUILD_IS_DUE
from recorder.store.sqlite.connection import BUSY_TIMEOUT_S, READER, apply, file_uri, translated

STEPS = 10_000  # of SQLite's machine between two looks at whether someone interrupts: well under a millisecond
TIMEOUT_S = 60.0  # without a row: the views answer in seconds from a log of any usual size
VALUE_BYTES = 256 * 2**20  # of a value that a statement makes: SQLite's own limit is 1 GB, of which it makes copies

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
# What SQLite itself does when `json_each` or the full-text table is first named. It changes nothing: an `UPDATE` of the
# schema that a user writes is refused all the same, and so would be by the two locks behind this one.
_OF_VIRTUAL_TABLES = {
    *((sqlite3.SQLITE_UPDATE, "sqlite_master", column) for column in ("type", "name", "tbl_name", "rootpage", "sql")),
    (sqlite3.SQLITE_PRAGMA, "data_version", None),
}
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
_READS = {"SELECT", "WITH", "VALUES", "EXPLAIN"}
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL)

Value = int | float | str | None
Row = tuple[Any, ...]


class Answer(NamedTuple):
    """The columns of a result, each name once, and its rows as they are read."""

    columns: list[str]
    rows: Iterator[Row]


class Asking(Protocol):
    """A database of any engine, open for questions."""

    def is_stale(self) -> bool:
        """Whether projections are still to be computed: what views say is not all that the log holds."""

    def ask(self, sql: str, values: Mapping[str, Value] | None = None, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run one statement."""


class Query:
    """A database, open for questions; `with Query.open(url) as query:`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._timeout_s, self._until_s = TIMEOUT_S, math.inf
        connection.set_progress_handler(self._is_late, STEPS)  # Python looks for signals when it calls it

    @classmethod
    @contextmanager
    def open(cls, url: URL) -> Iterator[Query]:
        """Raises `NotFoundError` if there is no such file, `StoreError` if it is not a log that can be read here."""
        path = database_path(url)
        if not path.exists():
            raise NotFoundError(f"There is no database {path} yet: nothing has been recorded there.")
        if migrate.is_empty(path):
            migrate.require_head(path, None)
        with translated(path):
            connection = sqlite3.connect(f"{file_uri(path)}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
        with closing(connection):
            migrate.require_head(path, _prepared(path, connection))
            yield cls(path, connection)

    def is_stale(self) -> bool:
        """Whether projections are still to be computed: what views say is not all that the log holds."""
        with translated(self.path):
            return bool(self._connection.execute(REBUILD_IS_DUE).fetchone()[0])

    def ask(self, sql: str, values: Mapping[str, Value] | None = None, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run one statement. Raises `RecorderError` with what SQLite has against it, here or while rows are read.

        It may compute for `timeout_s` before the first row and between two; what is done with a row takes its time.
        """
        self._timeout_s = timeout_s
        sql = sql.encode("utf-8", "replace").decode()  # an argument of a command line may be any bytes
        with self._explained(sql):
            cursor = self._connection.execute(sql, dict(values or {}))
        if cursor.description is None:
            raise UsageError("There is no SQL to run: `recorder query --list` names the views.")
        return Answer(distinct([column[0] for column in cursor.description]), self._rows(sql, cursor))

    def _rows(self, sql: str, cursor: sqlite3.Cursor) -> Iterator[Row]:
        while True:  # `yield from` would close the cursor, after its connection
            with self._explained(sql):
                row = cursor.fetchone()
            if row is None:
                return
            yield row

    def _is_late(self) -> bool:
        return time.monotonic() > self._until_s

    @contextmanager
    def _explained(self, sql: str) -> Iterator[None]:
        self._until_s = time.monotonic() + self._timeout_s
        try:
            yield
        except UnicodeDecodeError as error:  # the driver takes what SQLite says for UTF-8, but it may quote any bytes
            raise RecorderError(f"{error.object.decode('utf-8', 'replace').rstrip('.')}.") from error
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_INTERRUPT and self._is_late():
                raise RecorderError(
                    f"The statement gave no row for {self._timeout_s:g} s: --timeout gives it more."
                ) from error
            if code == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error
            if code in _OF_THE_STATEMENT:
                raise RecorderError(_explanation(sql, error, code)) from error
            with translated(self.path):
                raise


_OF_THE_STATEMENT = {None, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}


def first_word(sql: str) -> str:
    """The verb of a statement, in capital letters."""
    word = _FIRST_WORD.match(sql)
    return word[1].upper() if word else ""


def _explanation(sql: str, error: BaseException, code: int | None) -> str:
    verb = first_word(sql)
    text = str(error).rstrip(".")
    if code == sqlite3.SQLITE_AUTH or "not authorized" in text:
        return f"`recorder query` only reads: {text if verb in _READS else f'{verb} is refused'}."
    if text.startswith("no such table"):
        return f"{text}; `recorder query --list` names the views."
    if "supply a value for binding" in text:
        return f"{text}: give it with `-p NAME VALUE`."
    if text.startswith("Binding"):
        return "A `?` has no name: write `:name`, and give its value with `-p NAME VALUE`."
    return f"{text}."


def _prepared(path: Path, connection: sqlite3.Connection) -> str | None:
    """The revision of the schema, on a connection that from now on only reads."""
    connection.isolation_level = None
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    with translated(path):
        apply(connection, READER)
        row = connection.execute(migrate.READ_REVISION).fetchone()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_authorize)
    return row[0] if row else None


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _within: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if second in _REFUSED_FUNCTIONS else sqlite3.SQLITE_OK
    return (
        sqlite3.SQLITE_OK
        if action in _ALLOWED or (action, first, second) in _OF_VIRTUAL_TABLES
        else sqlite3.SQLITE_DENY
    )


def distinct(names: list[str]) -> list[str]:
    """Names as they are, but the second `text` as `text_2`."""
    distinct: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in distinct or (candidate != name and candidate in names):
            number += 1
            candidate = f"{name}_{number}"
        distinct.append(candidate)
    return distinct
