"""Sessions of an archive as logs: the rows of one session in a temporary database, where its hashes are computed.

Rules of this file:

* What is read of one session comes from here, so it is read by the same statements as in a log, and quickly: an archive
  has no index, and a question to it costs as much as a session.
* The rows are as they were in the log, recipes of shared bodies included. The hash of an event follows from the one
  before; that of the last event is the one that was recorded. So whoever verifies the chain finds every difference
  there. Who reads a session in which it does not follow is told so, and reads it: most of it is as it was.
* A row that is in an archive twice, or that no log could have, makes the session unreadable.
* The databases are in a temporary folder. Of more than `SESSIONS`, or more than `LIMIT_BYTES`, the least recently used
  are removed; the session in use stays, however large it is.
"""

from __future__ import annotations

import logging
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from itertools import count, groupby, islice
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sqlalchemy import URL, Connection, create_engine, text

from recorder.errors import StoreConflictError, StoreError
from recorder.model.chain import hash_after, root
from recorder.model.events import Event, Exchange
from recorder.model.shared_body import SHARED
from recorder.model.text import counted
from recorder.store.bodies.rows import SharedRow, is_shared, sources_sql
from recorder.store.duckdb.connection import quoted
from recorder.store.ducklake.chain import root_of
from recorder.store.ducklake.connection import LAKE, lake, translated
from recorder.store.ducklake.schema import COPIED, MONTH, OF_CHAIN, month_of
from recorder.store.engine import engine_named, engine_of
from recorder.store.location import database_name, database_url
from recorder.store.maintain.migrate import APPLICATION_ID, HEAD, VERSION_TABLE
from recorder.store.schema import events, exchanges, metadata

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SESSIONS = 4  # two that are compared, and those that a viewer looks at besides
LIMIT_BYTES = 512 * 2**20  # of all files together: eight sessions of 100,000 events
ROWS = 1000  # inserted at once

Row = tuple[Any, ...]

_log = logging.getLogger(__name__)
_NOT_AS_RECORDED = (
    "Session %s in %s is not as it was recorded (%s with another last hash): `recorder verify` finds the places."
)
_EVENT = [column.name for column in events.c]
_EXCHANGE = [column.name for column in exchanges.c]
_METADATA = f"__ducklake_metadata_{LAKE}"
_FILLED = f"""SELECT DISTINCT t.table_name FROM {_METADATA}.ducklake_data_file AS f
JOIN {_METADATA}.ducklake_table AS t USING (table_id) WHERE f.end_snapshot IS NULL"""
_SET_HASH = "UPDATE events SET hash = ? WHERE session_id = ? AND exchange_id = ? AND pos = ?"
_IS_BODY = f"kind = 'request' AND type IN ('body', '{SHARED}')"


class SessionLog:
    """A session in a database of its own."""

    def __init__(self, path: Path) -> None:
        self.url = database_url(path)
        self.engine = create_engine(self.url)

    @property
    def size_bytes(self) -> int:
        return Path(self.url.database or "").stat().st_size

    def translated(self) -> AbstractContextManager[None]:
        """Turn what its driver raises inside into the errors of recorder."""
        return engine_of(self.url).translated(self.url)

    def close(self) -> None:
        self.engine.dispose()
        Path(self.url.database or "").unlink()


class ArchiveSessions:
    """An archive, open for one thread: its tables by DuckDB, and its sessions as logs. Everything is opened late."""

    def __init__(self, url: URL, command: str, *, warns: bool = True) -> None:
        """`command` is for the error if an extra is not installed. `warns` of a session that is not as recorded."""
        self._url, self._command, self._warns = url, command, warns
        self._rest = ExitStack()
        self._connection: DuckDBPyConnection | None = None
        self._folder: Path | None = None
        self._logs: OrderedDict[str, SessionLog] = OrderedDict()  # the last is the one that was used last
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._logs:
            self._logs.popitem()[1].close()
        self._rest.close()
        self._connection = self._folder = None

    @property
    def connection(self) -> DuckDBPyConnection:
        """Return the connection to the tables of all sessions. Raise if there is no archive that can be read."""
        if self._connection is None:
            with ExitStack() as opening:
                connection = opening.enter_context(lake(self._url, self._command))
                self._rest.push(opening.pop_all())
            self._connection = connection
        return self._connection

    def interrupt(self) -> None:
        """End the statement that runs, from another thread."""
        if self._connection is not None:
            self._connection.interrupt()

    def log(self, session_id: str) -> SessionLog:
        """Return a session as a log; an empty one if the archive does not have it."""
        if (known := self._logs.pop(session_id, None)) is None:
            known = self._loaded(session_id)
        self._logs[session_id] = known
        while len(self._logs) > 1 and self._is_full():
            self._logs.popitem(last=False)[1].close()
        return known

    def _is_full(self) -> bool:
        return len(self._logs) > SESSIONS or sum(log.size_bytes for log in self._logs.values()) > LIMIT_BYTES

    def _loaded(self, session_id: str) -> SessionLog:
        archive = self.connection
        if self._folder is None:
            self._folder = Path(self._rest.enter_context(tempfile.TemporaryDirectory(prefix="recorder-archive-")))
        log = SessionLog(self._folder / f"{next(self._numbers)}.db")
        try:
            with translated(self._url), log.translated(), log.engine.connect() as connection:
                _create(connection)
                with closing(archive.cursor()) as cursor:
                    loading = _Loading(cursor, connection, session_id)
                    loading.load()
                connection.commit()
        except (StoreConflictError, TypeError, ValueError) as error:
            log.close()
            raise StoreError(
                f"The archive {database_name(self._url)} has a row of session {session_id} twice, or one that no log "
                "has: its files were changed."
            ) from error
        except BaseException:
            log.close()
            raise
        if self._warns and loading.damaged:
            _log.warning(
                _NOT_AS_RECORDED, session_id, database_name(self._url), counted(len(loading.damaged), "exchange")
            )
        return log


def _create(connection: Connection) -> None:
    """Make an empty log, which takes any rows: those of an archive that was changed are for `recorder verify`."""
    for pragma in ("journal_mode = OFF", "synchronous = OFF", f"application_id = {APPLICATION_ID}"):
        connection.exec_driver_sql(f"PRAGMA {pragma}")
    metadata.create_all(connection)
    for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    connection.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
    connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')")


class _Chain(NamedTuple):
    """The hash that the first event of an exchange is chained to, and that of the last one as it was recorded."""

    previous: bytes
    last: bytes | None


class _Loading:
    """The rows of one session, on their way from an archive to a log, in one transaction of the archive."""

    def __init__(self, archive: DuckDBPyConnection, log: Connection, session_id: str) -> None:
        """`archive` is for nothing else."""
        self._archive, self._log, self._id = archive, log, session_id
        self._sources = text(sources_sql(engine_named(log.dialect.name)))
        self._chains: dict[str, _Chain] = {}
        self.damaged: list[str] = []  # the exchanges whose last hash does not follow from their events

    def load(self) -> None:
        self._archive.execute(f"USE {LAKE}")
        self._archive.execute("BEGIN")
        filled = {name for (name,) in self._archive.execute(_FILLED).fetchall()}
        for table in COPIED:
            if table.name in filled - {events.name}:  # a table without files takes DuckLake longer than one with some
                names = [name for name in table.columns if name not in (MONTH, *OF_CHAIN)]
                self._insert(table.name, names, self._rows(table.name, names))
        for row in self._rows(exchanges.name, [*_EXCHANGE, *OF_CHAIN]):
            self._chains[row[1]] = _Chain(root_of(row[-1], Exchange(*row[:-2])), row[-2])
        # First the rows that recipes need, which any exchange may have. Their hashes follow.
        bodies = self._rows(events.name, _EVENT[:-1], f"WHERE {_IS_BODY} ORDER BY exchange_id, pos")
        self._insert(events.name, _EVENT, ((*row, b"") for row in bodies))
        every = self._rows(events.name, _EVENT[:-1], "ORDER BY exchange_id, pos")
        empty = {exchange_id for exchange_id, chain in self._chains.items() if chain.last is not None}
        for exchange_id, rows in groupby(every, key=itemgetter(1)):
            empty.discard(exchange_id)
            self._load_exchange(rows)
        self.damaged += sorted(empty)

    def _load_exchange(self, rows: Iterator[Row]) -> None:
        """Add the events of one exchange, with their hashes: the last one is that of the exchange, if it has one."""
        waiting = next(rows)
        # One whose row was removed has the root of its ids.
        chain = self._chains.get(waiting[1]) or _Chain(root(self._id, waiting[1]), None)
        hashed = chain.previous

        def complete() -> Iterator[Row]:
            nonlocal waiting, hashed
            for row in rows:
                hashed = hash_after(hashed, self._event(waiting), waiting[2])
                yield (*waiting, hashed)
                waiting = row
            hashed = hash_after(hashed, self._event(waiting), waiting[2])
            if chain.last not in (None, hashed):
                self.damaged.append(waiting[1])
            yield (*waiting, chain.last or hashed)

        whole = complete()
        while page := list(islice(whole, ROWS)):
            self._insert(events.name, _EVENT, [row for row in page if not _is_body(row)])
            if bodies := [(row[-1], *row[:3]) for row in page if _is_body(row)]:
                self._log.exec_driver_sql(_SET_HASH, bodies)

    def _event(self, row: Row) -> Event:
        """Return the event of a row; one that cannot be put together has its raw recipe, which no hash fits."""
        row = (*row, b"")
        if not is_shared(row):
            return Event(*row)
        try:
            shared = SharedRow(row)
            return shared.event(self._log.execute(self._sources, dict(shared.parameters)).tuples())
        except ValueError:
            return Event(*row)

    def _rows(self, table: str, names: Sequence[str], more: str = "") -> Iterator[Row]:
        columns = ", ".join(f'"{name}"' for name in names)
        # Values by parameter would load pandas, wherever that is installed.
        key = f"session_id = {quoted(self._id)} AND {MONTH} = {quoted(month_of(self._id))}"
        result = self._archive.execute(f"SELECT {columns} FROM (SELECT * FROM {table} WHERE {key}) AS rows {more}")
        while page := result.fetchmany(ROWS):
            yield from page

    def _insert(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        columns, values = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        iterator = iter(rows)
        while page := list(islice(iterator, ROWS)):
            self._log.exec_driver_sql(f"INSERT INTO {table} ({columns}) VALUES ({values})", page)


def _is_body(row: Row) -> bool:
    return row[3] == "request" and row[5] in ("body", SHARED)
