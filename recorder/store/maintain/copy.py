"""A log copied into another one, whatever engine each of them is on.

Rules of this file:

* The source is only read, and may be recorded into meanwhile. A transaction there holds one page of
  events, which is read as a stream and ends where it is large enough.
* Events are verified before they are written: an event that does not fit its chain is not written,
  and nothing after it. An exchange that was recorded with contradicting sums is reported, and
  copied.
* A transaction holds events in order, and projections with the `end` that completes them. If the
  target refuses something, each exchange is written by itself. One is copied when its chain was
  computed once more from what the target gives back.
* A copy may break off anywhere, and the next one continues: of an exchange that the target has, its
  last event shows whether it is the same.
* The places of journals in the log (`ingest_offsets`) are not copied: they belong to the recorders
  of the source. The cursors of exports (`export_cursors`) are not copied either: a push of the copy
  sends everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self

import msgspec
from sqlalchemy import URL

from recorder.errors import (
    StoreBusyError,
    StoreConflictError,
    StoreError,
    StoreLostError,
    UsageError,
)
from recorder.model.events import Event, Exchange, Session
from recorder.store.bodies.rows import damaged, whole_event
from recorder.store.location import database_name
from recorder.store.maintain.extents import Extent, extents
from recorder.store.maintain.purge.delete import bury
from recorder.store.maintain.purge.tombstone import Tombstone
from recorder.store.maintain.upkeep import VerifyConnection, opened
from recorder.store.maintain.verify.chain import ChainVerifier, LogFinding
from recorder.store.schema import events, sessions, tombstones
from recorder.store.sql import FORMS, OF_EXCHANGE, Statement, columns_of
from recorder.store.write.writer import Store

PAGE_ROWS = 2_000
PAGE_BYTES = 2 * 2**20
FIRST_POS = -(2**63)  # nothing is before 0, and if something is, it is read
COMMIT_ROWS = 5_000
COMMIT_BYTES = 4 * 2**20
CHAIN = ("position", "hash")  # the findings that say: this is not what was recorded there

Progress = Callable[[int, int], None]
"""Called with the number of exchanges that are done, and of all."""


# -- a side of a copy


_OFFSETS = Statement('SELECT recorder_id, segment, "offset" FROM ingest_offsets')
_TOMBSTONES = Statement(
    f"SELECT {columns_of(tombstones, 't')} FROM tombstones AS t ORDER BY session_id"
)
_COUNTS = Statement("""SELECT s.session_id, (SELECT count(*) FROM exchanges AS x WHERE x.session_id = s.session_id)
FROM sessions AS s ORDER BY s.session_id""")
_SESSION = Statement(
    f"SELECT {columns_of(sessions, 's')} FROM sessions AS s WHERE session_id = :session_id"
)
_EVENTS = Statement(
    f"SELECT {columns_of(events, 'e')} FROM events AS e WHERE {OF_EXCHANGE} AND pos > :after ORDER BY pos LIMIT :limit",
    is_long=True,
)


class CopiedLog:
    """A log that is copied, or copied to, open for reading: `with CopiedLog.open(url) as log:`."""

    def __init__(self, name: str, reader: VerifyConnection) -> None:
        self.name, self._reader = name, reader

    @classmethod
    @contextmanager
    def open(cls, url: URL) -> Iterator[Self]:
        """Raise `NotFoundError` if there is no database, `StoreError` if it is not a log that can
        be read.
        """
        with opened(url) as reader:
            yield cls(database_name(url), reader)

    def server(self) -> Sequence[Any]:
        """Return what identifies a database on a server, however its URL is written; empty for a
        file.
        """
        sql = FORMS[self._reader.engine].identity
        return self._ask(Statement(sql))[0] if sql else ()

    def offsets(self) -> dict[str, tuple[int, int]]:
        """Return the segment and offset up to which each journal is ingested, by recorder."""
        return {
            recorder_id: (segment, offset) for recorder_id, segment, offset in self._ask(_OFFSETS)
        }

    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones of all purged sessions."""
        return [Tombstone(*row) for row in self._ask(_TOMBSTONES)]

    def counts(self) -> dict[str, int]:
        """Return the number of exchanges of each session, in order of the ids: that of their
        beginning.
        """
        return {session_id: count for session_id, count in self._ask(_COUNTS)}

    def session(self, session_id: str) -> Session | None:
        """Return a session; None if it does not exist."""
        rows = self._ask(_SESSION, session_id=session_id)
        return Session(*rows[0]) if rows else None

    def extents(self, session_id: str) -> dict[str, Extent]:
        """Return the exchanges of a session by their ids, in order of these."""
        return extents(self._reader.ask, session_id)

    def events(self, exchange: Exchange) -> Iterator[Event]:
        """Yield all events of an exchange in order.

        Raise `StoreError` where they cannot be read on.
        """
        after = FIRST_POS
        while page := self._page(exchange, after):
            yield from page
            after = page[-1].pos

    def _page(self, exchange: Exchange, after: int) -> list[Event]:
        """Return the next events, as far as they can be read: at once, so that no transaction stays
        open.
        """
        key = {"session_id": exchange.session_id, "exchange_id": exchange.exchange_id}
        page: list[Event] = []
        size_bytes = 0
        try:
            with (
                self._reader.transaction(),
                closing(
                    self._reader.ask(_EVENTS, {**key, "after": after, "limit": PAGE_ROWS})
                ) as rows,
            ):
                for row in rows:
                    event = self._event(row)
                    page.append(event)
                    size_bytes += len(event.raw)
                    if size_bytes >= PAGE_BYTES:
                        break
        except StoreError:
            if not page:  # else the next page begins with what cannot be read
                raise
        return page

    def _event(self, row: Sequence[Any]) -> Event:
        try:
            return whole_event(row, self._reader.ask)
        except ValueError as error:
            raise StoreError(damaged(row, error)) from error

    def _ask(self, statement: Statement, **values: str) -> list[Sequence[Any]]:
        return list(self._reader.ask(statement, values))


# -- the copy


class CopyReport(msgspec.Struct):
    """The result of copying one session."""

    session_id: str
    name: str | None = None
    purged: bool = False  # in the target: it takes nothing of it
    exchanges: int = 0  # of which something was written
    standing: int = 0  # that were there already, all of what the source has
    events: int = 0  # that were written, and their bytes
    bytes: int = 0
    open: list[str] = msgspec.field(default_factory=list)
    findings: list[LogFinding] = msgspec.field(default_factory=list)

    def find(
        self, exchange_id: str | None, check: str, message: str, pos: int | None = None
    ) -> None:
        self.findings.append(LogFinding(exchange_id, pos, check, message))


def copy(
    source: CopiedLog,
    target: CopiedLog,
    store: Store,
    progress: Progress,
    session_ids: Collection[str] | None = None,
) -> list[CopyReport]:
    """Copy all sessions, or some, in order of their ids.

    `target` and `store` are the same database. Raise `UsageError` if `source` is it too,
    `StoreError` if one of them fails; what was copied until then stays.
    """
    here = source.server()
    if here and here == target.server():
        raise same_database(source.name, target.name)
    counts = source.counts()
    chosen = [
        session_id for session_id in counts if session_ids is None or session_id in session_ids
    ]
    total = sum(counts[session_id] for session_id in chosen)
    copying = _Copying(source, target, store, progress, total)
    copying.bury(of_source=session_ids is None)
    for session_id in chosen:
        copying.copy(session_id)
    copying.commit()
    return list(copying.reports.values())


def same_database(source: str, target: str) -> UsageError:
    return UsageError(f"{source} and {target} are the same database: there is nothing to copy.")


class _ExchangeCopy:
    """An exchange on its way."""

    def __init__(self, report: CopyReport, extent: Extent, there: Extent | None) -> None:
        self.report, self.exchange, self.last_pos = report, extent.exchange, extent.last_pos
        self.exists = there is not None
        self.existing_pos = there.last_pos if there else -1
        # The last event that both have is written once more: the target knows whether it is the
        # same.
        self._start = max(0, min(self.existing_pos, extent.last_pos))
        self._verifier = ChainVerifier(
            self.exchange.session_id, self.exchange.exchange_id, self.exchange
        )
        self.last: Event | None = None  # that was in order
        self.is_broken = False  # in the source, or cannot be read there
        self.is_refused = False  # by the target
        self.is_read = False  # to the end that it has now
        self.waiting: list[Event] = []  # to be written
        self.events = 0  # that were written

    def take(self, event: Event) -> bool:
        """Verify the next event of the source. Return whether it is to be written."""
        self._verifier.feed(event)
        self.is_broken = _is_broken(self._verifier)
        if self.is_broken:
            return False
        self.last = event
        if event.pos < self._start:
            return False
        self.waiting.append(event)
        return True

    def conclude(self) -> None:
        """Report what was found, when all events were read that can be."""
        self.is_read = True
        verifier, exchange_id = self._verifier, self.exchange.exchange_id
        if not self.is_broken and (verifier.end_pos is not None or not verifier.events):
            verifier.close()
        self.report.findings += verifier.findings
        if not self.is_broken and verifier.end_pos is None:
            self.report.open.append(exchange_id)

    def count_written(self) -> None:
        new = [event for event in self.waiting if event.pos > self.existing_pos]
        self.events += len(new)
        self.report.events += len(new)
        self.report.bytes += sum(len(event.raw) for event in new)
        self.waiting = []

    def count(self) -> None:
        if self.events or not (self.exists or self.is_broken):
            self.report.exchanges += 1
        elif self.exists and not self.is_broken:
            self.report.standing += 1


class _Copying:
    """One copy, from its beginning to its end."""

    def __init__(
        self, source: CopiedLog, target: CopiedLog, store: Store, progress: Progress, total: int
    ) -> None:
        self._source, self._target, self._store = source, target, store
        self._progress, self._done, self._total = progress, 0, total
        self._purged: set[str] = set()  # sessions of which the target takes nothing
        self._going: list[_ExchangeCopy] = []  # of the next transaction
        self._rows = self._bytes = 0
        self.reports: dict[str, CopyReport] = {}

    def bury(self, *, of_source: bool) -> None:
        """Add the source's tombstones to the target.

        A session that the target still has is for its owner to purge.
        """
        self._purged = {each.session_id for each in self._target.tombstones()}
        new = [each for each in self._source.tombstones() if each.session_id not in self._purged]
        if not (of_source and new):
            return
        # else somebody may add such a session at this moment
        with self._store.transaction(alone=True):
            alive = [each.session_id for each in new if not bury(self._store, each)]
        for session_id in alive:
            message = f"it was purged in {self._source.name}, but not in {self._target.name}: purge it there too"
            self._report(session_id).find(None, "purge", message)

    def _report(self, session_id: str) -> CopyReport:
        return self.reports.setdefault(session_id, CopyReport(session_id))

    def copy(self, session_id: str) -> None:
        """Copy what the target lacks of a session."""
        session = self._source.session(session_id)
        if session is None:  # it was purged meanwhile
            return
        report = self._report(session_id)
        report.name, report.purged = session.name, session_id in self._purged
        extents = self._source.extents(session_id)
        if report.purged or not self._add(session, report):
            self._done += len(extents)
        else:
            self._copy_exchanges(report, extents)
        self._progress(self._done, self._total)

    def _copy_exchanges(self, report: CopyReport, extents: Mapping[str, Extent]) -> None:
        there = self._target.extents(report.session_id)
        for exchange_id, extent in extents.items():
            self._done += 1
            if extent != there.get(exchange_id):
                self._read(_ExchangeCopy(report, extent, there.get(exchange_id)))
                continue
            report.standing += 1
            if not extent.has_ended:
                report.open.append(exchange_id)

    def _add(self, session: Session, report: CopyReport) -> bool:
        """Add the row of a session. Return whether the target takes it."""
        if self._target.session(session.session_id) == session:
            return True
        try:
            with self._store.transaction():
                self._store.add_session(session)
        except StoreConflictError as error:
            report.find(None, "conflict", f"the target takes nothing more of it: {error}")
            return False
        return True

    def _read(self, going: _ExchangeCopy) -> None:
        """Read an exchange to the end that it has now."""
        try:
            for event in self._source.events(going.exchange):
                if going.take(event):
                    self._rows += 1
                    self._bytes += len(event.raw)
                if self._rows >= COMMIT_ROWS or self._bytes >= COMMIT_BYTES:
                    self.commit(going)
                if going.is_refused:
                    return
                if going.is_broken or event.pos >= going.last_pos:
                    break
        except (StoreBusyError, StoreLostError):
            raise
        except StoreError as error:
            going.is_broken = True
            going.report.find(
                going.exchange.exchange_id, "file", f"the rest cannot be read: {error}"
            )
        going.conclude()
        self._going.append(going)

    def commit(self, unread: _ExchangeCopy | None = None) -> None:
        """Write what waits, and read back the exchanges that were read to their ends."""
        going = [*self._going, *([unread] if unread is not None else [])]
        self._going, self._rows, self._bytes = [], 0, 0
        if not going:
            return
        try:
            self._write(going)
        except StoreConflictError:
            for each in going:
                self._write_alone(each)
        for each in going:
            each.count_written()
            if each.is_read and not each.is_refused:
                self._settle(each)
        self._progress(self._done, self._total)

    def _write(self, several: Sequence[_ExchangeCopy]) -> None:
        """Add the events that wait, and with the end of an exchange its projections."""
        with self._store.transaction():
            for each in several:
                if not each.waiting and (each.last is not None or each.is_broken):
                    continue
                self._store.add_exchange(each.exchange)
                self._store.append(each.waiting)
                if any(event.kind == "end" for event in each.waiting):
                    self._store.projector.project(
                        each.exchange.session_id, each.exchange.exchange_id
                    )

    def _write_alone(self, each: _ExchangeCopy) -> None:
        try:
            self._write([each])
        except StoreConflictError as error:
            each.is_refused, each.waiting = True, []
            each.report.find(
                each.exchange.exchange_id, "conflict", f"the target refuses it: {error}"
            )

    def _settle(self, each: _ExchangeCopy) -> None:
        if each.last is not None and not self._is_there(each.exchange, each.last):
            message = f"{self._target.name} does not give back what was written: check its disk"
            each.report.find(each.exchange.exchange_id, "copy", message, each.last.pos)
        each.count()

    def _is_there(self, exchange: Exchange, last: Event) -> bool:
        """Return whether the chain in the target reaches the last event of the copy."""
        verifier = ChainVerifier(exchange.session_id, exchange.exchange_id, exchange)
        try:
            for event in self._target.events(exchange):
                verifier.feed(event)
                if event.pos >= last.pos:
                    return event.hash == last.hash and not _is_broken(verifier)
        except (StoreBusyError, StoreLostError):
            raise
        except StoreError:
            pass
        return False


def _is_broken(verifier: ChainVerifier) -> bool:
    """Return whether a chain does not hold."""
    return any(finding.check in CHAIN for finding in verifier.findings)
