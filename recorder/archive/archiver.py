"""The archiver: sessions that have ended go from a log into an archive.

Rules of this file:

* A session is deleted from the log when its rows were read back from the archive and are those of
  the log, by a transaction that looks once more at the last hashes. Until then it is in both: never
  in neither.
* Batches are transactions of the archive. Whoever writes to it holds the lock of its catalog for
  one: several archivers take turns, and each looks at what is there.
* A crash leaves sessions in both, or files that no snapshot has. The next run deletes from the log
  what the archive has already, replaces what has grown since, and deletes those files.
* A session with findings stays in the log, and is named.
* A log is read through its own driver, never through DuckDB: then one process may read a file, and
  delete from it. So its rows go to a temporary file of SQLite first, the pack, and DuckDB reads
  that.
* A session is read at one moment, row by row. DuckDB gets a piece at a time: it holds what it sorts
  and writes some ten times over.
* The tables of a pack are those of the archive, and an event has its hash besides: so it also
  proves what the archive gives back, whatever the order of its rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import msgspec
from msgspec.structs import astuple
from sqlalchemy import URL, create_engine
from sqlalchemy.pool import NullPool

from recorder.archive import upkeep
from recorder.archive.lake import LAKE, PACK, catalog_lock, data_path, lake, transaction, translated
from recorder.archive.place import database_name, database_of
from recorder.archive.registry import register
from recorder.archive.schema import ARCHIVED as ARCHIVED_SESSIONS
from recorder.archive.schema import (
    MONTH,
    OF_CHAIN,
    OF_SESSIONS,
    PACKED,
    LakeTable,
    create,
    id_list,
    month_of,
    months_of,
    revision,
)
from recorder.archive.unpack import RootKind, root_kind, unpack
from recorder.archive.upkeep import FIRST_FILES, delete_sessions, private, those_in
from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.model.events import Event, Exchange
from recorder.store.engine import address_of
from recorder.store.location import database_url
from recorder.store.maintain.extents import last_hashes
from recorder.store.maintain.purge.delete import Archived, purge, require_owner
from recorder.store.maintain.purge.tombstone import ARCHIVED
from recorder.store.maintain.upkeep import VerifyConnection, opened
from recorder.store.maintain.verify.log import (
    LogFinding,
    LogVerifier,
    Writer,
    all_of,
    differing_keys,
)
from recorder.store.queries.retention import SessionSize
from recorder.store.schema import STALE, events, exchanges, sessions, tombstones
from recorder.store.sql import Statement
from recorder.store.write.writer import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PIECE_BYTES = 8 * 2**20  # of rows that DuckDB sorts and writes at once
ROW_BYTES = 64  # of a row, besides its texts and bytes

Row = Sequence[Any]

_ROWS = {name: Statement(all_of(OF_SESSIONS[name]), is_long=True) for name in PACKED}
_FIRST = Statement(f"{all_of(events)} AND pos = 0")
_PIECES = """SELECT min(rowid), max(rowid)
FROM (SELECT rowid, sum({size}) OVER (ORDER BY rowid) / {limit} AS piece FROM {table}) GROUP BY piece"""


def _columns(name: str) -> dict[str, str]:
    """Return the columns of a table in the file, with their types."""
    types = {**PACKED[name].columns, events.c.hash.name: "BLOB"}
    of_chain = OF_CHAIN if name == exchanges.name else ()
    return {column: types[column] for column in (*OF_SESSIONS[name].c.keys(), *of_chain, MONTH)}


class Pack:
    """The rows of sessions, in a file that nobody else has open."""

    def __init__(self, folder: Path) -> None:
        self.url = database_url(folder / "pack.db")
        self.last_hashes: dict[str, dict[str, bytes | None]] = {}
        """The hash of the last event of each exchange, by session."""
        self._pieces: list[tuple[str, LakeTable]] = []
        with self._opened() as file:
            for name in PACKED:
                columns = ", ".join(f'"{column}" {type}' for column, type in _columns(name).items())
                file.execute(f"CREATE TABLE {name} ({columns})")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file, by the driver of the engine."""
        with create_engine(self.url, poolclass=NullPool).connect() as connection:
            file: Any = connection.connection.driver_connection
            # nobody needs it after a crash
            for pragma in ("journal_mode = OFF", "synchronous = OFF"):
                file.execute(f"PRAGMA {pragma}")
            yield file
            file.commit()

    def add(self, reader: VerifyConnection, session_id: str) -> None:
        """Add a session as a log has it at this moment.

        Raise `StoreError` if an exchange has no beginning: then its hashes follow from nothing that
        an archive has.
        """
        month, key = month_of(session_id), {"id": session_id}
        with self._opened() as file, reader.transaction():
            last = self.last_hashes[session_id] = last_hashes(reader.ask, session_id)
            begun = {}
            for row in reader.ask(_ROWS[exchanges.name], key):
                exchange = Exchange(*row)
                begun[exchange.exchange_id] = exchange
            kinds = _root_kinds(begun, reader.ask(_FIRST, key))
            if begun.keys() - kinds.keys():
                raise StoreError(
                    f"Session {session_id} has exchanges with no beginning: run `recorder verify {session_id}`."
                )
            for name in PACKED:
                insert = f"INSERT INTO {name} VALUES ({', '.join('?' * len(_columns(name)))})"
                if name == exchanges.name:
                    for id, exchange in begun.items():
                        file.execute(insert, (*astuple(exchange), last[id], kinds[id], month))
                    continue
                with closing(reader.ask(_ROWS[name], key)) as rows:
                    file.executemany(insert, ((*row, month) for row in rows))

    def divide(self, session_ids: Collection[str]) -> None:
        """Leave out all other sessions, and make a view of each piece of a table."""
        with self._opened() as file:
            for name, table in PACKED.items():
                file.execute(f"DELETE FROM {name} WHERE session_id NOT IN {id_list(session_ids)}")
                texts = [
                    column
                    for column, type in table.columns.items()
                    if type.startswith(("VARCHAR", "BLOB"))
                ]
                size = " + ".join(
                    [str(ROW_BYTES), *(f'coalesce(length("{column}"), 0)' for column in texts)]
                )
                bounds = file.execute(
                    _PIECES.format(size=size, limit=PIECE_BYTES, table=name)
                ).fetchall()
                for first, last in bounds:
                    view = f"{name}_{first}"
                    file.execute(
                        f"CREATE VIEW {view} AS SELECT * FROM {name} WHERE rowid BETWEEN {first} AND {last}"
                    )
                    self._pieces.append((view, table))

    def write(self, archive: DuckDBPyConnection) -> None:
        """Add all pieces to an archive, whose connection has this file attached as `PACK`.

        In a transaction.
        """
        for view, table in self._pieces:
            columns = ", ".join(f'"{column}"' for column in table.columns)
            archive.execute(
                f"INSERT INTO {LAKE}.{table.name} ({columns}) SELECT {columns} FROM {PACK}.{view} "
                f"ORDER BY {', '.join(table.key)}"
            )

    def differing(self, log: URL) -> set[str]:
        """Return the sessions of which the file and a log have other rows."""
        differing: set[str] = set()
        with self._opened() as file:
            file.execute("ATTACH ? AS log", [log.database])
            for name in PACKED:
                rows = file.execute(
                    differing_keys(OF_SESSIONS[name], ("main", "log"), "session_id")
                )
                differing.update(session_id for (session_id,) in rows)
        return differing


def _root_kinds(begun: Mapping[str, Exchange], firsts: Iterable[Row]) -> dict[str, RootKind]:
    """Return the root of each exchange whose first event is chained to one."""
    kinds = {}
    for row in firsts:
        first = Event(*row)
        kind = root_kind(begun[first.exchange_id], first) if first.exchange_id in begun else None
        if kind is not None:
            kinds[first.exchange_id] = kind
    return kinds


COMMAND = "db archive"
BATCH_SESSIONS = 500  # a condition names them all
# of events: a batch passes it by one session. What a crash may leave in both, and cost
BATCH_BYTES = 64 * 2**20

Step = Literal["verified", "written", "committed", "compared", "deleted", "merged", "cleaned"]
"""A step of an archiver that was completed just now."""


class Recorders(NamedTuple):
    """What an archiver needs to know of recorders: the state of one, and the ids of those that have
    a journal here.
    """

    state: Callable[[str], Writer]
    journals: Callable[[], Collection[str]]


class MonthReport(msgspec.Struct):
    """The sessions of a month."""

    month: str
    "The month, `YYYY-MM`."
    sessions: int = 0
    "Number of sessions."
    events: int = 0
    "Number of events."
    log_bytes: int = 0
    "Bytes of the events in the log."
    archive_bytes: int = 0
    "Bytes by which the files of the month have grown."
    findings: dict[str, list[LogFinding]] = msgspec.field(default_factory=dict)
    "Findings by session, which stays in the log."


def by_month(chosen: Sequence[SessionSize]) -> dict[str, list[SessionSize]]:
    """Return sessions by the month of their ids, in order of ids."""
    sizes = {each.session_id: each for each in chosen}
    return {month: [sizes[id] for id in ids] for month, ids in months_of(sizes).items()}


def open_archive(archive: URL, data: str | None) -> None:
    """Create an archive if it does not exist; without `data`, its files are in a folder beside its
    catalog.

    Raise `UsageError` if the folder has files of something else, or the catalog of a new archive is
    on a server.
    """
    catalog = database_of(archive)
    address = address_of(catalog)
    with private():
        if address.is_local:
            address.path(catalog).parent.mkdir(parents=True, exist_ok=True)
        with catalog_lock(archive):
            if _is_new(archive):
                if not (data or address.is_local):
                    raise UsageError(
                        f"There is no archive {database_name(archive)} yet: name the folder of its files, or s3://…, "
                        "with --data."
                    )
                data = data or f"{address.path(catalog)}.files"
                _require_empty(data)
            with lake(archive, COMMAND, data=data, writes=True) as connection, translated(archive):
                if revision(connection) is None and "://" in data_path(connection):
                    # a catalog without tables has no files, also when it is not new
                    _require_no_object(connection)
                create(connection)


def _is_new(archive: URL) -> bool:
    try:
        with lake(archive, COMMAND):
            return False
    except NotFoundError:
        return True


def _require_empty(data: str) -> None:
    """Files in the folder that the archive does not know are deleted as remains of a crash."""
    if "://" in data:
        return
    folder = Path(data).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _taken(data)
    for outer in (*folder.parents, *folder.resolve().parents):
        if (outer / FIRST_FILES).is_dir():
            raise _inside(data, str(outer))


def _require_no_object(connection: DuckDBPyConnection) -> None:
    place = data_path(connection)
    if connection.execute("SELECT 1 FROM glob($1) LIMIT 1", [f"{place}**"]).fetchall():
        raise _taken(place)
    bucket, *folders = place.removeprefix("s3://").rstrip("/").split("/")
    for depth in range(len(folders)):
        outer = "/".join([f"s3://{bucket}", *folders[:depth]])
        if connection.execute(
            "SELECT 1 FROM glob($1) LIMIT 1", [f"{outer}/{FIRST_FILES}/*"]
        ).fetchall():
            raise _inside(place, outer)


def _inside(place: str, outer: str) -> UsageError:
    return UsageError(
        f"{place} is inside of {outer}, which has the files of another archive: it would delete what it does not know. "
        "Give another place with --data."
    )


def _taken(place: str) -> UsageError:
    return UsageError(
        f"{place} is not empty: a new archive needs a folder of its own, give another one with --data."
    )


class Archiver(NamedTuple):
    """A log and an archive, open; `with Archiver.open(log, archive, recorders) as archiver:`."""

    store: Store
    verifier: LogVerifier
    reader: VerifyConnection
    url: URL  # of the archive
    recorders: Recorders
    step: Callable[[Step, int], None]

    @classmethod
    @contextmanager
    def open(
        cls,
        log: URL,
        archive: URL,
        recorders: Recorders,
        data: str | None = None,
        step: Callable[[Step, int], None] = lambda _step, _sessions: None,
    ) -> Iterator[Self]:
        """Open both; the archive is created if there is none, and attached to the log.

        `step` is called with each step that is completed, and its number of sessions. Raise
        `RecorderError` if the user may not delete from the log, or its projections are not up to
        date.
        """
        with Store(log) as store, ExitStack() as rest:
            with store.transaction():
                require_owner(store, "archive")
            open_archive(archive, data)
            register(store, archive, time.time_ns())
            verifier = rest.enter_context(LogVerifier.open(log, recorders.state))
            if verifier.rebuild_is_due():
                raise RecorderError(STALE)
            reader = rest.enter_context(opened(log))
            with private():
                yield cls(store, verifier, reader, archive, recorders, step)

    def archive(self, months: Mapping[str, Sequence[SessionSize]]) -> list[MonthReport]:
        """Archive sessions by month, and merge what is there. Return what was done."""
        reports = {month: MonthReport(month) for month in months}
        with self._open() as connection:
            before = upkeep.sizes(connection)
        for month, chosen in months.items():
            for batch in _batches(chosen):
                with catalog_lock(self.url):
                    self._archive_batch(reports[month], batch)
        with catalog_lock(self.url), self._open(writes=True) as connection:
            upkeep.merge(connection)
            self.step("merged", 0)
            upkeep.clean(connection)
            self.step("cleaned", 0)
            after = upkeep.sizes(connection)
        for month, report in reports.items():
            report.archive_bytes = after.get(month, 0) - before.get(month, 0)
        return list(reports.values())

    @contextmanager
    def _open(
        self, *, writes: bool = False, pack: URL | None = None
    ) -> Iterator[DuckDBPyConnection]:
        with (
            lake(self.url, COMMAND, writes=writes, pack=pack) as connection,
            translated(self.url),
        ):
            yield connection

    def _archive_batch(self, report: MonthReport, batch: Sequence[str]) -> None:
        whole = {session_id for session_id in batch if self._is_whole(session_id, report)}
        self.step("verified", len(whole))
        if not whole:
            return
        with tempfile.TemporaryDirectory(prefix="recorder-archive-") as folder:
            pack = Pack(Path(folder))
            for session_id in sorted(whole):
                pack.add(self.reader, session_id)
            there = self._copy(report, pack, whole)
        self.step("compared", len(there))
        for session_id in sorted(there):
            self._delete(session_id, pack.last_hashes[session_id], report)
        self.step("deleted", len(batch))

    def _is_whole(self, session_id: str, report: MonthReport) -> bool:
        """Return whether a session is there, has ended, and has no findings."""
        verified = self.verifier.verify(session_id, lambda _events: None)
        if verified.findings and not verified.purged:
            report.findings[session_id] = verified.findings
        return not (verified.purged or verified.findings or verified.open or verified.name is None)

    def _copy(self, report: MonthReport, pack: Pack, session_ids: Set[str]) -> Set[str]:
        """Write what the archive does not have, in one transaction, and compare all of it with the
        log.

        Return the sessions that the archive has as the log has them.
        """
        month = report.month
        with self._open() as connection:
            purged = those_in(connection, tombstones.name, month, session_ids)
            there = those_in(connection, sessions.name, month, session_ids) - purged
            same = same_in(connection, month, pack, there)
        for session_id in purged:
            message = f"it was purged in {database_name(self.url)}: purge it here, too"
            report.findings[session_id] = [LogFinding(None, None, "purge", message)]
        new = session_ids - purged - same
        pack.divide(new)
        with self._open(writes=True, pack=pack.url) as connection:
            with transaction(connection):
                # which have grown, or were rebuilt since
                delete_sessions(connection, month, there - same)
                pack.write(connection)
                _note(connection, month, new)
                self.step("written", len(session_ids))
            self.step("committed", len(session_ids))
            upkeep.sync(connection)
        with self._open() as connection:  # a new one: nothing of it is in the memory of who wrote
            lost = new - same_in(connection, month, pack, new)
        if lost:
            raise StoreError(
                f"{database_name(self.url)} does not give back what was written of session {min(lost)}: check its "
                "disk. The session stays in the log."
            )
        return new | same

    def _delete(
        self, session_id: str, last_hashes: Mapping[str, bytes | None], report: MonthReport
    ) -> None:
        """Delete a session from the log, unless it has grown meanwhile: then the next run replaces
        it.
        """
        counts = purge(
            self.store,
            session_id,
            ARCHIVED,
            time.time_ns(),
            self.recorders.journals(),
            lambda recorder_id: self.recorders.state(recorder_id) == "alive",
            Archived(database_name(self.url), last_hashes),
        )
        if counts is not None:
            report.sessions += 1
            report.events += counts.events
            report.log_bytes += counts.bytes


def _batches(chosen: Sequence[SessionSize]) -> Iterator[list[str]]:
    batch: list[str] = []
    size_bytes = 0
    for each in chosen:
        batch.append(each.session_id)
        size_bytes += each.bytes
        if len(batch) >= BATCH_SESSIONS or size_bytes >= BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def same_in(
    connection: DuckDBPyConnection, month: str, pack: Pack, session_ids: Set[str]
) -> Set[str]:
    """Return the sessions that an archive has as they were packed: each is unpacked, with all
    hashes computed again.
    """
    if not session_ids:
        return set()
    with tempfile.TemporaryDirectory(prefix="recorder-archive-") as folder:
        unpacked = unpack(connection, month, session_ids, Path(folder))
        return session_ids - unpacked.broken - pack.differing(unpacked.url)


def _note(connection: DuckDBPyConnection, month: str, session_ids: Collection[str]) -> None:
    """Note when sessions were archived."""
    now_ns = time.time_ns()
    rows = ", ".join(f"('{session_id}', {now_ns}, '{month}')" for session_id in session_ids)
    if rows:
        connection.execute(f"INSERT INTO {LAKE}.{ARCHIVED_SESSIONS.name} VALUES {rows}")
