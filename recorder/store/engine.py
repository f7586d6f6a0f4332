"""The engines: one entry for each kind of database that a log can be in, with everything in which they differ.

Rules of this file:

* No other module asks which engine a URL is of, or imports the folder of an engine: it calls a method of
  `engine_of(url)`.
* Another engine is one folder beside `sqlite/` and `postgres/`, whose module `engine` has its entry as `ENGINE`, and
  one line in `_MODULES`. The attributes and abstract methods of `Engine` are what it must have. `recorder.store` names
  the two places outside where SQL still differs by engine.
* The module of an entry loads no driver. What an operation needs is imported by its method: a user of SQLite has no
  psycopg, and a list of sessions loads no writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy import URL, Connection, Dialect, Row, Table
from sqlalchemy.sql import Executable

from recorder.errors import NotFoundError, StoreBusyError, StoreConflictError, StoreError, StoreLostError, UsageError

if TYPE_CHECKING:
    from recorder.store.maintain.declared import Objects, ReadSchema
    from recorder.store.maintain.health import Check, CheckResult
    from recorder.store.maintain.log_probe import LogProbe
    from recorder.store.maintain.verify.connection import VerifyConnection
    from recorder.store.queries.query import Query
    from recorder.store.search import SearchIndex
    from recorder.store.write.writer import Writer

BUSY_TIMEOUT_S = 5.0  # for another writer, or a lock
# For a server that says nothing at all: it was stopped, its disk hangs, or something on the way has forgotten it. Locks
# are given up before, and what else is asked takes milliseconds. As long as a network is waited for that is dead.
ANSWER_TIMEOUT_S = 30.0
START_TIMEOUT_S = 10.0  # the same when a recorder starts, as long as for a login: it can begin without its database
NEW_LOG_TIMEOUT_S = (
    60.0  # for the process that makes the tables of a new log: 0.2 s, but many times that on a busy machine
)
READERS = 4  # connections of one event loop: pages are short, few are wanted at once
WRITER_ROLE, READER_ROLE = "recorder_writer", "recorder_reader"  # the roles that `Engine.grants` makes

_MODULES = {
    "sqlite": "recorder.store.sqlite.engine",
    "postgresql": "recorder.store.postgres.engine",
}
_OTHER_NAMES = {"postgres": "postgresql"}  # as libpq and most hosts of databases write a URL

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


class ReadSource(Protocol):
    """What a `recorder.store.queries.reader.LogReader` asks: an engine, or else an archive."""

    @property
    def name(self) -> str: ...

    @property
    def places(self) -> PlacesSql: ...

    def display_name(self, url: URL) -> str: ...

    def translated(self, url: URL) -> AbstractContextManager[None]: ...

    def search(self) -> SearchIndex: ...

    def reader(self, url: URL) -> ReadPool: ...


class Engine(ABC):
    """One kind of database. Its methods raise the errors of recorder."""

    name: str
    """The name of its dialect in SQLAlchemy, and its key in every mapping of texts by engine."""

    is_local: bool
    """All who record into one database have their journals on this machine: the locks of journals say who lives."""

    identity_sql: str | None = None
    """Selects a row that no other database has, however its URL is written. `None`: `is_same` knows without it."""

    grants: Sequence[str] = ()
    """The statements that make the roles of writers and readers; none where a file's mode is all there is."""

    partitions: Mapping[str, Sequence[str]] = {}
    """The statements that have partitions made of a month or a day from now on; none where there are no partitions."""

    places: PlacesSql

    contains_sql: str
    """The condition that a text, or some bytes, `{whole}` contains `{part}`."""

    clock_ns_sql: str = "NULL"
    """The time by the clock of the server, in nanoseconds since the epoch; NULL in a file, which has no clock."""

    silence_ns_sql: str = "NULL"
    """The nanoseconds since `{heard}`, a time by that clock, less those in which the server was away."""

    scratch_schemas: tuple[str, str]
    """The schema of the scratch tables, and that of the log, on a `scratch_connection`."""

    may_add_sql: str | None = None
    """Selects a flag that is true if the user may add to the log. `None`: a file that can be opened can be written."""

    may_delete_sql: str | None = None
    """Selects flags which all are true if the user may delete from the log. `None`: who may write may delete."""

    purged_from: str
    """The name of the place where purged bytes may remain while a reader is in a transaction."""

    purge_notice: str | None = None
    """The sentence that a user reads after a purge, if bytes remain where recorder cannot reach."""

    # -- where a database is

    @abstractmethod
    def normalize(self, url: URL) -> URL:
        """Return the one form of a URL of this engine. Raise `UsageError` if it names no database."""

    @abstractmethod
    def display_name(self, url: URL) -> str:
        """Return a database's path, or its place on a server. Never a password."""

    @abstractmethod
    def path(self, url: URL) -> Path:
        """Return the path of the database file. Raise `UsageError` if the database is no file."""

    @abstractmethod
    def journal_root(self, url: URL) -> Path:
        """Return the folder of the journals on this machine whose events go into a database."""

    @abstractmethod
    def verified_path(self, url: URL) -> Path:
        """Return the file on this machine with the time of the last verification of a database."""

    def files(self, url: URL) -> Sequence[Path]:
        """Return the files of a database on this machine, the database itself first; none if it is on a server."""
        return ()

    def is_missing(self, url: URL) -> bool:
        """Return whether it is certain, without connecting, that there is no database yet."""
        return False

    def require(self, url: URL) -> None:
        """Raise `NotFoundError` if the database `is_missing`, `StoreError` if its path is of something else."""
        if self.is_missing(url):
            raise nothing_in(url)

    def is_same(self, url: URL, other: URL) -> bool:
        """Return whether two URLs of this engine are known, without connecting, to be of one database."""
        return url == other

    # -- errors

    @abstractmethod
    def translated(self, url: URL) -> AbstractContextManager[None]:
        """Turn what the driver and SQLAlchemy raise inside into the errors of recorder."""

    def is_final(self, error: StoreError) -> bool:
        """Return whether it is of no use to repeat the transaction that raised this.

        Final are a conflict, a deleted database, and errors of the statement or its values. A lock, a full disk,
        missing rights, a server that is away: somebody mends those, and the journal waits.
        """
        if isinstance(error, StoreConflictError | StoreLostError):
            return True
        cause = getattr(error.__cause__, "orig", error.__cause__)
        return cause is not None and not isinstance(error, StoreBusyError) and self._is_of_statement(cause)

    @abstractmethod
    def _is_of_statement(self, error: BaseException) -> bool:
        """Return whether an error of the driver concerns the statement, not the database's condition."""

    # -- opening a database, one way for each purpose

    @abstractmethod
    def upgrade(self, url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
        """Bring a database to the newest schema; create what is missing, but never a database on a server."""

    @abstractmethod
    def migration(self, url: URL) -> AbstractContextManager[Connection]:
        """Open a transaction that excludes other changes of the schema, for Alembic's command line."""

    @abstractmethod
    def writer(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> Writer:
        """Open the connection that adds to the log. A file answers always: the second limit is for servers."""

    @abstractmethod
    def reader(self, url: URL) -> ReadPool:
        """Return a pool of connections that only read, for an event loop."""

    @abstractmethod
    async def revision(self, url: URL, fetch: Fetch) -> str | None:
        """Return the revision of the schema, `None` if there is none yet. Raise if the database is not recorder's."""

    @abstractmethod
    def verify_connection(self, url: URL) -> AbstractContextManager[VerifyConnection]:
        """Open a connection that proves a log. Raise `NotFoundError` or `StoreError` if there is none to read."""

    @abstractmethod
    def scratch_connection(self, url: URL, tables: Sequence[Table]) -> AbstractContextManager[VerifyConnection]:
        """Open one that can also write to empty tables of these names, which are dropped at the end.

        Raise `RecorderError` if they cannot be made.
        """

    @abstractmethod
    def query(self, url: URL) -> AbstractContextManager[Query]:
        """Open a connection for the user's own SQL, which can do nothing but read."""

    @abstractmethod
    def duckdb_source(self, url: URL) -> DuckdbSource:
        """Return how DuckDB opens a database to read it."""

    @abstractmethod
    def task_lock(self, url: URL, task: str) -> AbstractContextManager[None]:
        """Hold a lock among all programs that do `task` on a database; raise `StoreBusyError` at once if one holds it.

        It is gone with the process that holds it; on a server also with its connection, and is not taken again then.
        """

    # -- SQL in which it differs from others

    @abstractmethod
    def dialect(self, paramstyle: str) -> Dialect:
        """Return SQLAlchemy's dialect, which compiles statements. Values are by name if `paramstyle` is empty."""

    @abstractmethod
    def search(self) -> SearchIndex:
        """Return the statements of the full-text index."""

    @abstractmethod
    def schema_reader(self, url: URL) -> AbstractContextManager[ReadSchema]:
        """Open a log for `schema_objects`. Raise `NotFoundError` or `StoreError` if none can be read here."""

    @abstractmethod
    def schema_objects(self, read: ReadSchema) -> tuple[Objects, Objects]:
        """Return the objects of the schema of a log as they are declared, and as they are there."""

    @abstractmethod
    def schema_statements(self) -> Sequence[str]:
        """Return the statements that create the declared schema in an empty database."""

    @abstractmethod
    def bridge(self, connection: Connection) -> None:
        """Bring a log from the last schema before the first release to the first one."""

    @abstractmethod
    def recreation(self) -> Sequence[str]:
        """Return the statements that make the views and guards of a log again, with whatever it has in their place."""

    # -- upkeep

    @abstractmethod
    def sweep(self, url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
        """Take out of the files what was deleted. Return whether no reader was in the way."""

    @abstractmethod
    def sweep_catalog(self, url: URL) -> None:
        """Take out of a database what was deleted from the catalog in it. Nobody may have it open here."""

    @abstractmethod
    def log_probe(self, url: URL) -> LogProbe:
        """Return what reads the sums of ended exchanges for the metrics of a recorder."""

    @abstractmethod
    def checks(self, url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
        """Yield the state of a log for `recorder doctor`, up to the first failure that prevents the others.

        It changes nothing. `more` are checks of the caller by name, which use the same connection.
        """

    def library_checks(self) -> Iterator[CheckResult]:
        """Yield the state of the library on this machine that the engine needs, if recorder depends on its version."""
        return iter(())

    def file_checks(self, url: URL) -> Iterator[CheckResult]:
        """Yield the state of files that only this engine has beside a database."""
        return iter(())

    @abstractmethod
    def back_up(self, url: URL, target: Path, progress: Progress, *, force: bool) -> Backup:
        """Copy a database to a file. Raise `UsageError` where that is the task of another program."""


@cache
def engine_named(name: str) -> Engine:
    """Return the entry with this `Engine.name`. Raise `UsageError` if recorder has no such engine."""
    name = _OTHER_NAMES.get(name, name)
    if name not in _MODULES:
        raise no_such_engine(name)
    engine: Engine = import_module(_MODULES[name]).ENGINE
    return engine


def no_such_engine(name: str) -> UsageError:
    """Return the error for a database in which no log can be."""
    return UsageError(
        f"recorder cannot record into {name}: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE."
    )


def engine_of(url: URL) -> Engine:
    """Return the entry for a URL. Raise `UsageError` if recorder has no such engine."""
    return engine_named(url.get_backend_name())


def nothing_in(url: URL) -> NotFoundError:
    """Return the error for a log in which nothing was recorded yet."""
    return NotFoundError(
        f"There is no database {engine_of(url).display_name(url)} yet: nothing has been recorded there."
    )
