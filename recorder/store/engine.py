"""The engines: one folder for each kind of database that a log can be in, and the parts that each
folder has.

Rules of this file:

* No other module asks which engine a URL is of, or imports the folder of an engine: it asks for a
  part, and calls a function of that.
* A part is a module of the folder whose functions are a protocol: all of them are here but `verify`
  and `upkeep`, which are in `recorder.store.maintain.upkeep`. Another engine is a folder with these
  modules beside `sqlite/` and `postgres/`, and one line in `_FOLDERS`. `recorder.store` names the
  places outside where SQL still differs by engine.
* A part is loaded when it is asked for. An address loads no driver: a user of SQLite has no
  psycopg, and a list of sessions loads no writer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from sqlalchemy import URL, Connection, Row, Table
from sqlalchemy.sql import Executable

from recorder.errors import NotFoundError, UsageError
from recorder.program import load

if TYPE_CHECKING:
    from recorder.store.queries.query import Query
    from recorder.store.search import SearchIndex
    from recorder.store.sql import Statement, Step

BUSY_TIMEOUT_S = 5.0  # for another writer, or a lock
# For a server that says nothing at all: it was stopped, its disk hangs, or something on the way has
# forgotten it. Locks are given up before, and what else is asked takes milliseconds. As long as a
# network is waited for that is dead.
ANSWER_TIMEOUT_S = 30.0
# the same when a recorder starts, as long as for a login: it can begin without its database
START_TIMEOUT_S = 10.0
NEW_LOG_TIMEOUT_S = (
    # for the process that makes the tables of a new log: 0.2 s, but many times that on a busy
    # machine
    60.0
)
READERS = 4  # connections of one event loop: pages are short, few are wanted at once
# The roles that `Schema.grants` makes. The last one reads what is its own.
WRITER_ROLE, READER_ROLE, OWN_READER_ROLE = (
    "recorder_writer",
    "recorder_reader",
    "recorder_own_reader",
)

AnyRow = Row[*tuple[Any, ...]]

Fetch = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]
"""Return the rows of one statement."""


Progress = Callable[[int, int], None]
"""Takes the number of pages that are copied, and of all."""


class Backup(NamedTuple):
    """The number of exchanges in a copy that have ended, and how far each journal was in the log."""

    exchanges: int
    offsets: dict[str, tuple[int, int]]


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
    """All who record into one database have their journals on this machine: the locks of journals
    say who lives.
    """

    purged_from: str
    """The name of the place where purged bytes may remain while a reader is in a transaction."""

    purge_notice: str | None
    """The sentence that a user reads after a purge, if bytes remain where recorder cannot reach."""

    def normalize(self, url: URL) -> URL:
        """Return the one form of a URL of this engine.

        Raise `UsageError` if it names no database.
        """

    def display_name(self, url: URL) -> str:
        """Return a database's path, or its place on a server. Never a password."""

    def path(self, url: URL) -> Path:
        """Return the path of the database file.

        Raise `UsageError` if the database is not a file.
        """

    def journal_root(self, url: URL) -> Path:
        """Return the folder of the journals on this machine whose events go into a database."""

    def verified_path(self, url: URL) -> Path:
        """Return the file on this machine with the time of the last verification of a database."""

    def files(self, url: URL) -> Sequence[Path]:
        """Return the files of a database on this machine, the database itself first; none if it is
        on a server.
        """

    def is_missing(self, url: URL) -> bool:
        """Return whether it is certain, without connecting, that there is no database yet."""

    def require(self, url: URL) -> None:
        """Raise `NotFoundError` if the database `is_missing`, `StoreError` if its path is of
        something else.
        """

    def is_same(self, url: URL, other: URL) -> bool:
        """Return whether two URLs of this engine are known, without connecting, to be of one
        database.
        """


Objects = Mapping[tuple[str, str], str]
"""The text of each object of a schema, by its kind and its name. Texts of the same meaning are the
same.
"""

ReadSchema = Callable[[str], Iterable[Sequence[Any]]]
"""The rows of a statement without values."""


class Schema(Protocol):
    """The schema of a log: as it is declared, as it is there, and how it comes there."""

    grants: Sequence[str]
    """The statements that make the roles of writers and readers; none where a file's mode is all
    there is.
    """

    partitions: Mapping[str, Sequence[str]]
    """The statements that have partitions made of a month or a day from now on; none where there
    are no partitions.
    """

    may_add_sql: str | None
    """Selects a flag that is true if the user may add to the log. `None`: a file that can be opened
    can be written.
    """

    may_delete_sql: str | None
    """Selects flags which all are true if the user may delete from the log. `None`: who may write
    may delete.
    """

    search: SearchIndex

    def schema_reader(self, url: URL) -> AbstractContextManager[ReadSchema]:
        """Open a log for `schema_objects`.

        Raise `NotFoundError` or `StoreError` if none can be read here.
        """

    def schema_objects(self, read: ReadSchema) -> tuple[Objects, Objects]:
        """Return the objects of the schema of a log as they are declared, and as they are there."""

    def schema_statements(self) -> Sequence[str]:
        """Return the statements that create the declared schema in an empty database."""

    def bridge(self, connection: Connection) -> None:
        """Bring a log from the last schema before the first release to the first one."""

    def recreation(self) -> Sequence[str]:
        """Return the statements that make the views and guards of a log again, with whatever it has
        in their place.
        """

    def upgrade(
        self, url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf
    ) -> None:
        """Bring a database to the newest schema; create what is missing, but never a database on a
        server.
        """

    def migration(self, url: URL) -> AbstractContextManager[Connection]:
        """Open a transaction that excludes other changes of the schema, for Alembic's command line."""


class Reading(Protocol):
    """Connections of an event loop, which only read.

    What they need takes a third of a start, so it is loaded alone.
    """

    def reader(self, url: URL) -> ReadPool:
        """Return a pool of connections.

        Who wants more than there are waits for one, however long.
        """

    def translated(self, url: URL) -> AbstractContextManager[None]:
        """Turn what the driver and SQLAlchemy raise inside into the errors of recorder."""

    async def revision(self, url: URL, fetch: Fetch) -> str | None:
        """Return the revision of the schema, `None` if there is none yet.

        Raise if the database is not recorder's.
        """

    def login_url(self, url: URL, login: str) -> URL:
        """Return the URL of a database for another login, without the password of the first.

        Raise `UsageError` if it is a file, which has no logins.
        """

    async def require_own_rows(self, url: URL, fetch: Fetch) -> None:
        """Raise `StoreError` unless `fetch` asks as the login of a URL, which sees rows of its own
        and can see no more.
        """


class Querying(Protocol):
    """Connections for SQL that is not recorder's own."""

    def query(self, url: URL) -> AbstractContextManager[Query]:
        """Open a connection for the user's own SQL, which can do nothing but read."""

    def duckdb_source(self, url: URL) -> DuckdbSource:
        """Return how DuckDB opens a database to read it."""


class Database(Protocol):
    """A log in a transaction."""

    @property
    def engine(self) -> str:
        """Return the name of its dialect (`engine_name`)."""

    def run(self, statement: Statement, values: Any) -> None:
        """Run a statement with values by name, or for each of a list of them."""

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """Yield the rows of a statement as they are read.

        To be closed if they are not read to the end.
        """

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        """Run statements one after another, and return the rows of each: a server gets all of them
        at once.
        """


class Writer(Database, Protocol):
    """A connection that writes to one kind of database."""

    connection: Connection

    def translated(self) -> AbstractContextManager[None]:
        """Turn what the driver raises inside into errors of recorder."""

    def transaction(self, alone: bool) -> AbstractContextManager[None]:
        """Commit what is written inside at its end, or nothing.

        `alone`: nobody else writes meanwhile.
        """

    def looking(self) -> AbstractContextManager[None]:
        """Only ask inside, for no long answer: a server need not be told where a transaction begins
        and ends.
        """

    def add(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> int:
        """Add rows of the log, events in order of their keys, and return the number of new ones.

        Rows that are there already are skipped. Raise `StoreConflictError` for one that contradicts
        the log.
        """

    def delete_session(self, session_id: str) -> None:
        """Delete a session, its exchanges and events from the log. It has a tombstone."""

    def checkpoint(self) -> None:
        """Move what was committed to where it stays. For idle moments."""

    def tidy(self) -> None:
        """Do the checkpoint that a reader was in the way of, if it is time. For idle moments."""

    def close(self) -> None: ...


class Writing(Protocol):
    """Connections that write, and locks."""

    def writer(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> Writer:
        """Open the connection that adds to the log.

        A file answers always: the second limit is for servers.
        """

    def is_of_statement(self, error: BaseException) -> bool:
        """Return whether an error of the driver concerns the statement, not the database's
        condition.
        """

    def task_lock(
        self, url: URL, task: str, timeout_s: float, refusal: str
    ) -> AbstractContextManager[None]:
        """Hold a lock among all programs that do `task` on a database.

        Raise `StoreBusyError` with the text `refusal` if another one holds it for so long. It is
        gone with the process that holds it, on a server some milliseconds later, when that notices;
        there it is also gone with its connection, and is not taken again then.
        """

    def sweep(self, url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
        """Take out of the files what was deleted. Return whether no reader was in the way."""

    def sweep_catalog(self, url: URL) -> None:
        """Take out of a database what was deleted from the catalog in it.

        Nobody may have it open here.
        """


class ReadSource(NamedTuple):
    """What a `recorder.store.queries.reader.LogReader` asks: a log on an engine, or an archive."""

    dialect: str  # of the SQL
    name: str  # for people
    pool: ReadPool
    translated: Callable[[URL], AbstractContextManager[None]]
    search: Callable[[], SearchIndex]
    of_bodies: str  # the engine that finds the parts of a body


Part = Literal["address", "schema", "reading", "query", "writer", "verify", "upkeep"]

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
    """Return the name of a URL's engine: that of its dialect in SQLAlchemy, and its key in mappings
    by engine.
    """
    name = url.get_backend_name()
    return _OTHER_NAMES.get(name, name)


def _part_of(name: Part, url: URL) -> Any:
    return part(engine_name(url), name)


address_named: Callable[[str], Address] = partial(part, name="address")
address_of: Callable[[URL], Address] = partial(_part_of, "address")
schema_named: Callable[[str], Schema] = partial(part, name="schema")
schema_of: Callable[[URL], Schema] = partial(_part_of, "schema")
reading_of: Callable[[URL], Reading] = partial(_part_of, "reading")
querying_of: Callable[[URL], Querying] = partial(_part_of, "query")
writing_of: Callable[[URL], Writing] = partial(_part_of, "writer")


def source_of(url: URL) -> ReadSource:
    engine, reading = engine_name(url), reading_of(url)
    return ReadSource(
        dialect=engine,
        name=address_of(url).display_name(url),
        pool=reading.reader(url),
        translated=reading.translated,
        search=lambda: schema_named(engine).search,
        of_bodies=engine,
    )


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
