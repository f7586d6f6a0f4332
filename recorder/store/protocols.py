"""The parts of an engine that make, read and write a log: what each must have, and how one is asked for.

`recorder.store.engine` has the parts that statements need, and the table of engines; `recorder.store.maintain.upkeep`
has the one that keeps a log. Everything raises the errors of recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy import URL, Connection, Table

from recorder.store.engine import (
    BUSY_TIMEOUT_S,
    DuckdbSource,
    Fetch,
    ReadPool,
    address_of,
    engine_name,
    errors_of,
    part,
)

if TYPE_CHECKING:
    from recorder.store.queries.query import Query
    from recorder.store.search import SearchIndex
    from recorder.store.sql import Statement, Step

Objects = Mapping[tuple[str, str], str]
"""The text of each object of a schema, by its kind and its name. Texts of the same meaning are the same."""

ReadSchema = Callable[[str], Iterable[Sequence[Any]]]
"""The rows of a statement without values."""


class Schema(Protocol):
    """The schema of a log: as it is declared, as it is there, and how it comes there."""

    grants: Sequence[str]
    """The statements that make the roles of writers and readers; none where a file's mode is all there is."""

    partitions: Mapping[str, Sequence[str]]
    """The statements that have partitions made of a month or a day from now on; none where there are no partitions."""

    may_add_sql: str | None
    """Selects a flag that is true if the user may add to the log. `None`: a file that can be opened can be written."""

    may_delete_sql: str | None
    """Selects flags which all are true if the user may delete from the log. `None`: who may write may delete."""

    def search(self) -> SearchIndex:
        """Return the statements of the full-text index."""

    def schema_reader(self, url: URL) -> AbstractContextManager[ReadSchema]:
        """Open a log for `schema_objects`. Raise `NotFoundError` or `StoreError` if none can be read here."""

    def schema_objects(self, read: ReadSchema) -> tuple[Objects, Objects]:
        """Return the objects of the schema of a log as they are declared, and as they are there."""

    def schema_statements(self) -> Sequence[str]:
        """Return the statements that create the declared schema in an empty database."""

    def bridge(self, connection: Connection) -> None:
        """Bring a log from the last schema before the first release to the first one."""

    def recreation(self) -> Sequence[str]:
        """Return the statements that make the views and guards of a log again, with whatever it has in their place."""

    def upgrade(self, url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S, answer_timeout_s: float = inf) -> None:
        """Bring a database to the newest schema; create what is missing, but never a database on a server."""

    def migration(self, url: URL) -> AbstractContextManager[Connection]:
        """Open a transaction that excludes other changes of the schema, for Alembic's command line."""


class Reading(Protocol):
    """Connections of an event loop, which only read. What they need takes a third of a start, so it is loaded alone."""

    def reader(self, url: URL) -> ReadPool:
        """Return a pool of connections. Who wants more than there are waits for one, however long."""

    async def revision(self, url: URL, fetch: Fetch) -> str | None:
        """Return the revision of the schema, `None` if there is none yet. Raise if the database is not recorder's."""


class Querying(Protocol):
    """Connections for SQL that is not recorder's own."""

    def query(self, url: URL) -> AbstractContextManager[Query]:
        """Open a connection for the user's own SQL, which can do nothing but read."""

    def duckdb_source(self, url: URL) -> DuckdbSource:
        """Return how DuckDB opens a database to read it."""


class Writer(Protocol):
    """A connection that writes to one kind of database."""

    engine: str  # as SQLAlchemy names its dialect
    connection: Connection

    def translated(self) -> AbstractContextManager[None]:
        """Turn what the driver raises inside into errors of recorder."""

    def transaction(self, alone: bool) -> AbstractContextManager[None]:
        """Commit what is written inside at its end, or nothing. `alone`: nobody else writes meanwhile."""

    def looking(self) -> AbstractContextManager[None]:
        """Only ask inside, for no long answer: a server need not be told where a transaction begins and ends."""

    def add(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> int:
        """Add rows of the log, events in order of their keys, and return the number of new ones.

        Rows that are there already are skipped. Raise `StoreConflictError` for one that contradicts the log.
        """

    def delete_session(self, session_id: str) -> None:
        """Delete a session, its exchanges and events from the log. It has a tombstone."""

    def run(self, statement: Statement, values: Any) -> None:
        """Run a statement with values by name, or for each of a list of them."""

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """Yield the rows of a statement as they are read."""

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        """Run statements one after another, and return the rows of each: a server gets all of them at once."""

    def checkpoint(self) -> None:
        """Move what was committed to where it stays. For idle moments."""

    def tidy(self) -> None:
        """Do the checkpoint that a reader was in the way of, if it is time. For idle moments."""

    def close(self) -> None: ...


class Writing(Protocol):
    """Connections that write, and locks."""

    def writer(self, url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> Writer:
        """Open the connection that adds to the log. A file answers always: the second limit is for servers."""

    def task_lock(self, url: URL, task: str) -> AbstractContextManager[None]:
        """Hold a lock among all programs that do `task` on a database; raise `StoreBusyError` at once if one holds it.

        It is gone with the process that holds it; on a server also with its connection, and is not taken again then.
        """

    def sweep(self, url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
        """Take out of the files what was deleted. Return whether no reader was in the way."""

    def sweep_catalog(self, url: URL) -> None:
        """Take out of a database what was deleted from the catalog in it. Nobody may have it open here."""


class ReadSource(NamedTuple):
    """What a `recorder.store.queries.reader.LogReader` asks: a log on an engine, or an archive."""

    dialect: str  # of the SQL
    name: str  # for people
    pool: ReadPool
    translated: Callable[[URL], AbstractContextManager[None]]
    search: Callable[[], SearchIndex]
    of_bodies: str  # the engine that finds the parts of a body


def schema_named(engine: str) -> Schema:
    schema: Schema = part(engine, "schema")
    return schema


def schema_of(url: URL) -> Schema:
    return schema_named(engine_name(url))


def reading_of(url: URL) -> Reading:
    reading: Reading = part(engine_name(url), "reading")
    return reading


def querying_of(url: URL) -> Querying:
    querying: Querying = part(engine_name(url), "querying")
    return querying


def writing_of(url: URL) -> Writing:
    writing: Writing = part(engine_name(url), "writing")
    return writing


def source_of(url: URL) -> ReadSource:
    engine = engine_name(url)
    name = address_of(url).display_name(url)
    return ReadSource(
        dialect=engine,
        name=name,
        pool=reading_of(url).reader(url),
        translated=errors_of(url).translated,
        search=lambda: schema_named(engine).search(),
        of_bodies=engine,
    )
