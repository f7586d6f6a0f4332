"""The engines: one folder for each kind of database that a log can be in, and the parts that each folder has.

Rules of this file:

* No other module asks which engine a URL is of, or imports the folder of an engine: it asks for a part, and calls a
  function of that.
* A part is a module of the folder whose functions are a protocol: `address`, `sql_forms` and `errors` here, `schema`,
  `reading`, `querying` and `writing` in `recorder.store.protocols`, `upkeep` in `recorder.store.maintain.upkeep`.
  Another engine is a folder with these modules beside `sqlite/` and `postgres/`, and one line in `_FOLDERS`.
  `recorder.store` names the two places outside where SQL still differs by engine.
* A part is loaded when it is asked for. An address loads no driver: a user of SQLite has no psycopg, and a list of
  sessions loads no writer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from sqlalchemy import URL, Dialect, Row
from sqlalchemy.sql import Executable

from recorder.errors import NotFoundError, UsageError
from recorder.program import load

BUSY_TIMEOUT_S = 5.0  # for another writer, or a lock
# For a server that says nothing at all: it was stopped, its disk hangs, or something on the way has forgotten it. Locks
# are given up before, and what else is asked takes milliseconds. As long as a network is waited for that is dead.
ANSWER_TIMEOUT_S = 30.0
START_TIMEOUT_S = 10.0  # the same when a recorder starts, as long as for a login: it can begin without its database
NEW_LOG_TIMEOUT_S = (
    60.0  # for the process that makes the tables of a new log: 0.2 s, but many times that on a busy machine
)
READERS = 4  # connections of one event loop: pages are short, few are wanted at once
WRITER_ROLE, READER_ROLE = "recorder_writer", "recorder_reader"  # the roles that `Schema.grants` makes

AnyRow = Row[*tuple[Any, ...]]

Fetch = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]
"""Return the rows of one statement."""


Progress = Callable[[int, int], None]
"""Takes the number of pages that are copied, and of all."""


class Backup(NamedTuple):
    """The number of exchanges in a copy that have ended, and how far each journal was in the log."""

    exchanges: int
    offsets: dict[str, tuple[int, int]]


class PlacesSql(NamedTuple):
    """The SQL that reads `:places`, a JSON array of objects with `x`, the id of an exchange, and `pos`, a position."""

    rows: str  # an item of FROM
    session_id: str  # the value `:session_id`, as an id
    exchange_id: str
    pos: str


class DuckdbSource(NamedTuple):
    """The extensions with which DuckDB reads a log, and the parts of its `ATTACH`."""

    extensions: tuple[str, ...]  # as in the names of their wheels
    type: str
    target: str  # it may have a password
    schema: str | None = None  # of the log's tables, where it is not the usual one


class ReadRows(Protocol):
    """The rows of a statement, in memory."""

    def all(self) -> Sequence[AnyRow]: ...

    def scalar_one(self) -> Any: ...


class ReadConnection(Protocol):
    """A connection in a transaction; `values` are by name."""

    async def execute(self, statement: Executable, values: Any = None, /) -> ReadRows: ...


class ReadPool(Protocol):
    """The connections of an engine for reading, for an event loop."""

    def connect(self) -> AbstractAsyncContextManager[ReadConnection]: ...

    async def dispose(self) -> None: ...


class Address(Protocol):
    """Where a database is, and what follows from that alone."""

    is_local: bool
    """All who record into one database have their journals on this machine: the locks of journals say who lives."""

    purged_from: str
    """The name of the place where purged bytes may remain while a reader is in a transaction."""

    purge_notice: str | None
    """The sentence that a user reads after a purge, if bytes remain where recorder cannot reach."""

    def normalize(self, url: URL) -> URL:
        """Return the one form of a URL of this engine. Raise `UsageError` if it names no database."""

    def display_name(self, url: URL) -> str:
        """Return a database's path, or its place on a server. Never a password."""

    def path(self, url: URL) -> Path:
        """Return the path of the database file. Raise `UsageError` if the database is not a file."""

    def journal_root(self, url: URL) -> Path:
        """Return the folder of the journals on this machine whose events go into a database."""

    def verified_path(self, url: URL) -> Path:
        """Return the file on this machine with the time of the last verification of a database."""

    def files(self, url: URL) -> Sequence[Path]:
        """Return the files of a database on this machine, the database itself first; none if it is on a server."""

    def is_missing(self, url: URL) -> bool:
        """Return whether it is certain, without connecting, that there is no database yet."""

    def require(self, url: URL) -> None:
        """Raise `NotFoundError` if the database `is_missing`, `StoreError` if its path is of something else."""

    def is_same(self, url: URL, other: URL) -> bool:
        """Return whether two URLs of this engine are known, without connecting, to be of one database."""


class SqlForms(Protocol):
    """SQL in which an engine differs from others."""

    places: PlacesSql

    contains_sql: str
    """The condition that a text, or some bytes, `{whole}` contains `{part}`."""

    clock_ns_sql: str
    """The time by the clock of the server, in nanoseconds since the epoch; NULL in a file, which has no clock."""

    silence_ns_sql: str
    """The nanoseconds since `{heard}`, a time by that clock, less those in which the server was away."""

    identity_sql: str | None
    """Selects a row that no other database has, however its URL is written. `None`: `is_same` knows without it."""

    scratch_schemas: tuple[str, str]
    """The schema of the scratch tables, and that of the log, on a `scratch_connection`."""

    def dialect(self, paramstyle: str) -> Dialect:
        """Return SQLAlchemy's dialect, which compiles statements. Values are by name if `paramstyle` is empty."""


class Errors(Protocol):
    """What the errors of a driver mean."""

    def translated(self, url: URL) -> AbstractContextManager[None]:
        """Turn what the driver and SQLAlchemy raise inside into the errors of recorder."""

    def is_of_statement(self, error: BaseException) -> bool:
        """Return whether an error of the driver concerns the statement, not the database's condition."""


Part = Literal["address", "sql_forms", "errors", "schema", "reading", "querying", "writing", "upkeep"]

_FOLDERS = {"sqlite": "recorder.store.sqlite", "postgresql": "recorder.store.postgres"}
_OTHER_NAMES = {"postgres": "postgresql"}  # as libpq and most hosts of databases write a URL


@cache
def part(engine: str, name: Part) -> Any:
    """Return a part of an engine. Raise `UsageError` if recorder has no such engine."""
    engine = _OTHER_NAMES.get(engine, engine)
    if engine not in _FOLDERS:
        raise no_such_engine(engine)
    return load(f"{_FOLDERS[engine]}.{name}")


def engine_name(url: URL) -> str:
    """Return the name of a URL's engine: that of its dialect in SQLAlchemy, and its key in mappings by engine."""
    name = url.get_backend_name()
    return _OTHER_NAMES.get(name, name)


def address_named(engine: str) -> Address:
    address: Address = part(engine, "address")
    return address


def address_of(url: URL) -> Address:
    return address_named(engine_name(url))


def sql_forms(engine: str) -> SqlForms:
    forms: SqlForms = part(engine, "sql_forms")
    return forms


def errors_of(url: URL) -> Errors:
    errors: Errors = part(engine_name(url), "errors")
    return errors


def no_such_engine(name: str) -> UsageError:
    """Return the error for a database in which no log can be."""
    return UsageError(
        f"recorder cannot record into {name}: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE."
    )


def nothing_in(url: URL) -> NotFoundError:
    """Return the error for a log in which nothing was recorded yet."""
    return NotFoundError(
        f"There is no database {address_of(url).display_name(url)} yet: nothing has been recorded there."
    )
