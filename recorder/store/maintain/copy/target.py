"""The target of a copy: transactions through the store, read back and verified.

Rules of this file:

* A transaction holds events in order, and projections with the `end` that completes them.
* If the target refuses something, the rest of the transaction is written without it.
* An exchange is copied when its chain was computed once more from what the target gives back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from recorder.errors import StoreBusyError, StoreConflictError, StoreError, StoreLostError
from recorder.model.events import Event, Exchange, Session
from recorder.store.maintain.copy.source import BulkReader, Extent
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.store.maintain.verify.log import LogFinding
from recorder.store.write.writer import Store

COMMIT_ROWS = 5_000  # a transaction passes these by a page at most (`recorder.store.maintain.copy.source`)
COMMIT_BYTES = 4 * 2**20
CHAIN = ("position", "hash")  # the findings that say: this is not what was recorded there


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

    def find(self, exchange_id: str | None, check: str, message: str, pos: int | None = None) -> None:
        self.findings.append(LogFinding(exchange_id, pos, check, message))


class ExchangeCopy:
    """The progress of copying one exchange."""

    def __init__(self, extent: Extent, exchange: Exchange, there: Extent | None) -> None:
        self.key = extent.key
        self.session, self.exchange = extent.session, exchange
        self.exists = there is not None
        self.existing_pos = there.last_pos if there else -1
        # The last event that both have is written once more: the target knows whether it is the same.
        self.next = max(0, min(self.existing_pos, extent.last_pos))
        self.last: Event | None = None  # that was in order
        self.events = 0  # that were written
        self.is_broken = False  # in the source, or cannot be read there
        self.is_refused = False  # by the target
        self.begin()

    def begin(self) -> None:
        """Start verifying from the first event."""
        self.verifier = ChainVerifier(*self.key, self.exchange)

    def takes(self, event: Event) -> bool:
        """Verify the next event of the source; return whether it is to be written."""
        if self.is_broken or self.is_refused:
            return False
        self.verifier.feed(event)
        self.is_broken = is_broken(self.verifier)
        if self.is_broken:
            return False
        self.last = event
        if event.pos < self.next:
            return False
        self.next = event.pos + 1
        return True


def is_broken(verifier: ChainVerifier) -> bool:
    """Return whether a chain does not hold."""
    return any(finding.check in CHAIN for finding in verifier.findings)


class Batch(NamedTuple):
    """The rows of one exchange in a transaction; without an exchange, only the row of the session."""

    session: Session
    going: ExchangeCopy | None
    events: list[Event]


class CopyTarget:
    """The target database, with the batches of the next commit."""

    def __init__(self, side: BulkReader, store: Store) -> None:
        """Take a reader and a store of the same database."""
        self.side, self._store = side, store
        self.copied: dict[str, CopyReport] = {}
        self.closed: set[str] = set()  # sessions of which nothing is taken
        self._parts: list[Batch] = []
        self._read: list[ExchangeCopy] = []
        self._rows = self._bytes = 0

    def of(self, session_id: str, name: str | None = None) -> CopyReport:
        return self.copied.setdefault(session_id, CopyReport(session_id, name))

    def add(self, part: Batch) -> None:
        """Queue a batch for the next commit."""
        if part.session.session_id not in self.closed:
            self._parts.append(part)
            self._rows += 1 + len(part.events)
            self._bytes += sum(len(event.raw) for event in part.events)

    def end(self, going: ExchangeCopy) -> None:
        """Note that all batches of an exchange were added."""
        self._read.append(going)

    def is_full(self) -> bool:
        return self._rows >= COMMIT_ROWS or self._bytes >= COMMIT_BYTES

    async def commit(self) -> None:
        """Write the queued batches, and read back the exchanges that are complete."""
        parts, read, self._parts, self._read, self._rows, self._bytes = self._parts, self._read, [], [], 0, 0
        try:
            self._write(parts)
        except StoreConflictError:
            parts = [part for part in parts if self._is_taken(part)]
        for part in parts:
            self._count(part)
        await self._settle([each for each in read if not each.is_refused and each.key[0] not in self.closed])

    # -- writing

    def _write(self, parts: Sequence[Batch]) -> None:
        if not parts:
            return
        with self._store.transaction():
            for session in {part.session.session_id: part.session for part in parts}.values():
                self._store.add_session(session)
            for part in parts:
                if part.going is not None:
                    self._store.add_exchange(part.going.exchange)
            self._store.append([event for part in parts for event in part.events])
            for ended in [event for part in parts for event in part.events if event.kind == "end"]:
                self._store.projector.project(ended.session_id, ended.exchange_id)

    def _is_taken(self, part: Batch) -> bool:
        """Write one batch by itself, of several of which something was refused; return whether it was taken."""
        if part.session.session_id in self.closed or (part.going is not None and part.going.is_refused):
            return False
        try:
            self._write([part])
        except StoreConflictError as error:
            self._refuse(part, error)
            return False
        return True

    def _refuse(self, part: Batch, error: StoreConflictError) -> None:
        session_id = part.session.session_id
        try:
            with self._store.transaction():
                self._store.add_session(part.session)
        except StoreConflictError:
            self.closed.add(session_id)
            self.of(session_id).find(None, "conflict", f"the target takes nothing more of it: {error}")
        else:
            if part.going is not None:
                part.going.is_refused = True
                self.of(session_id).find(part.going.exchange.exchange_id, "conflict", f"the target refuses it: {error}")

    def _count(self, part: Batch) -> None:
        if part.going is not None:
            copied, going = self.of(part.session.session_id), part.going
            new = [event for event in part.events if event.pos > going.existing_pos]
            going.events += len(new)
            copied.events += len(new)
            copied.bytes += sum(len(event.raw) for event in new)

    # -- reading back

    async def _settle(self, read: Sequence[ExchangeCopy]) -> None:
        for each in await self._not_there(read):
            message = f"{self.side.name} does not give back what was written: check its disk"
            self.of(each.key[0]).find(each.exchange.exchange_id, "copy", message, each.last.pos if each.last else None)
        for each in read:
            copied = self.of(each.key[0])
            if each.events or not (each.exists or each.is_broken):
                copied.exchanges += 1
            elif each.exists and not each.is_broken:
                copied.standing += 1

    async def _not_there(self, read: Sequence[ExchangeCopy]) -> list[ExchangeCopy]:
        """Return the exchanges whose chain in the target does not reach the last event of the copy."""
        due = {each.key: (each.last, ChainVerifier(*each.key, each.exchange)) for each in read if each.last is not None}
        try:
            found = await self._found(due) if due else set()
        except (StoreBusyError, StoreLostError):
            raise
        except StoreError:  # it may be at something else between them
            alone = [await self._not_there([each]) for each in read] if len(read) > 1 else [read]
            return [each for some in alone for each in some]
        return [each for each in read if each.key in due.keys() - found]

    async def _found(self, due: Mapping[tuple[str, str], tuple[Event, ChainVerifier]]) -> set[tuple[str, str]]:
        found = set()
        async for page in self.side.events_between(min(due), max(due)):
            for event in page:
                key = event.session_id, event.exchange_id
                last, verifier = due.get(key, (None, None))
                if last is None or verifier is None or event.pos > last.pos:
                    continue
                verifier.feed(event)
                if event.pos == last.pos and event.hash == last.hash and not is_broken(verifier):
                    found.add(key)
        return found
