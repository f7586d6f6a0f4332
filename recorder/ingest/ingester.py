"""Journal → Capture → store: the only way into the log, and the only writer of it.

One ingester per journal, a process beside the proxy (`recorder.commands.serving.ingester`): a slow,
locked, full or absent database only makes the journal longer. Its place in the journal is committed
in the same transaction as the events, so a crash at any point resumes exactly there; what was
committed twice is refused as a repeat by the log itself. Recovery of a recorder that was killed is
this same code, started again.

What the place means: every exchange that is still open began at it or after it. `Capture` holds
state that cannot be written down (a decompressor's, a digest's), so an open exchange is fed again
from its beginning. So that one long stream does not keep the whole journal, its records are carried
over into a separate file when the place is `CARRY_SEGMENTS` behind. The records of open exchanges
are read once more to be carried over, fed again, or moved into a file.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec

from recorder.errors import StoreConflictError, StoreError
from recorder.ingest.assembler import Assembler
from recorder.ingest.pending import Batch, no_request
from recorder.ingest.recent_events import RecentEvents
from recorder.ingest.record_source import JournalRecordSource
from recorder.ingest.recovery import Heartbeat, end_forsaken, end_open, late_counter, rest_of
from recorder.ingest.session_lookup import (
    Continued,
    digests_before,
    of_owner,
    request_in_store,
    same_names,
    session_in_store,
    sessions_of_open,
)
from recorder.journal.format import HEADER, START, Mark, Position, Record, begin
from recorder.journal.locks import claimed_of_dead
from recorder.journal.reader import (
    JournalReader,
    carried_path,
    drop_carried,
    ingested,
    is_worth_carrying,
    read_carried,
    remove,
    segment_name,
    segment_numbers,
    size_bytes,
    write_carried,
    write_ingested,
)
from recorder.journal.scrub import FROM_CLIENTS, RequestBodyScrubber, without_body
from recorder.model.attribution import owner_in, owner_of
from recorder.model.events import Event, RequestHead
from recorder.store.maintain.purge.delete import late_exchanges, refused_because
from recorder.store.write.links import Key, key_of
from recorder.store.write.projector import NOTHING, Whole
from recorder.store.write.retry import Pause, Retry, Stopped, Uncommitted
from recorder.store.write.writer import Store
from recorder.wire.grouping.history import may_continue
from recorder.wire.grouping.session import HISTORY, PREVIOUS_RESPONSE, Grouping
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor

log = logging.getLogger(__name__)

BATCH_BYTES = 4 * 2**20  # of journal a commit: beyond that larger commits are no faster
# between commits: events are visible soon, but interleaved streams share one commit
QUIET_S, BUSY_S = 0.025, 0.25
QUIET_BYTES = 64 * 1024  # a batch under this is quiet
COMMIT_BYTES = 16 * 2**20  # of events: a few compressed records may be a great many bytes
# how far behind the place may fall: half of what the journal may hold, a few seconds of work
CARRY_SEGMENTS = 4


_payload = attrgetter("payload")


class Ingester:
    """A reader of one recorder's journal that writes it into the store. Used from one thread."""

    def __init__(
        self,
        store: Store,
        directory: Path,
        pause: Pause,
        redactor: Redactor = BY_SHAPE,
        *,
        carry_segments: int | None = None,
        carried: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """`carry_segments` replaces `CARRY_SEGMENTS`.

        `carried` is called with each file of carried records before that takes the place of
        segments; if it raises `OSError`, these stay.
        """
        self._store, self._directory, self._pause = store, directory, pause
        self._carry_segments, self._carried = carry_segments, carried
        self._retry = Retry(store, pause)
        self._recorder_id, self._records = directory.name, JournalRecordSource(directory)
        self._heartbeat = Heartbeat(store, directory.name)
        self._recent = RecentEvents()
        late, offset = self._retry(
            lambda: (late_exchanges(store, self._recorder_id), store.offset(self._recorder_id))
        )
        find_request = partial(request_in_store, store, self._retry) if offset else no_request
        self._assembler = Assembler(
            self._recorder_id,
            self._find_session,
            late,
            redactor=redactor,
            find_request=find_request,
            journal=self._records,
        )
        self._records.place = self._position = Position(*offset) if offset else START
        self._written = ingested(directory)
        self._reader = JournalReader(directory, self._records.place)
        self._scrubber = RequestBodyScrubber(directory, self._records.place)
        for record in read_carried(directory, self._records.place):
            self._scrubber.note_carried(record, self._records.place)
            self._assembler.feed(record, self._records.place)
            if self._assembler.batch.size_bytes > COMMIT_BYTES:
                self._commit()

    @property
    def place(self) -> Position:
        """Return the place in the log: nothing from before its segment is needed any more."""
        return self._records.place

    def step(self, *, writer_is_dead: bool = False) -> int:
        """Ingest and commit what the journal holds now, up to `BATCH_BYTES`.

        Returns how many bytes that was.
        """
        size = self._feed(writer_is_dead=writer_is_dead)
        self._commit_read(size)
        return size

    def drain(self, between: Callable[[], object] = lambda: None) -> None:
        """Ingest to the end of what the journal holds now, short segments with one commit.

        `between` is called after each commit: what takes long must not keep others waiting.
        """
        size_bytes = 0
        while size := self._feed():
            size_bytes += size
            if size_bytes >= BATCH_BYTES:
                self._commit_read(size_bytes)
                size_bytes = 0
                between()
        self._commit_read(size_bytes)

    def _feed(self, *, writer_is_dead: bool = False) -> int:
        """Read on, in one segment. Return how many bytes that was."""
        records = self._reader.read(BATCH_BYTES, writer_is_dead=writer_is_dead)
        if self._report_damage() and records:
            # what is committed or carried over from now on has the damage
            self._position = begin(records[0])
        feed = self._assembler.feed
        for record in records:
            if record.mark in FROM_CLIENTS:
                self._scrubber.note(record, self._position)
            feed(record, self._position)
            self._position = record.position
            if self._assembler.batch.size_bytes > COMMIT_BYTES:
                self._commit()
        return sum(map(len, map(_payload, records)), HEADER.size * len(records))

    def _commit_read(self, size_bytes: int) -> None:
        """Commit what was read since the last commit, if that was something."""
        if size_bytes or self._reader.position.segment > self._position.segment:
            # past the end of a segment, too: then it can be deleted
            self._position = self._reader.position
            self._commit()
        self._scrubber.scrub(self._records.place, self._assembler.open)

    def _report_damage(self) -> bool:
        is_damaged = bool(self._reader.damaged)
        for sentence in self._reader.torn:
            log.warning("%s", sentence)
        for sentence in self._reader.damaged:
            log.error("%s", sentence)
            self._assembler.lose(sentence)
        for stretch in self._reader.stretches:
            self._records.keep_stretch(stretch)
        self._reader.torn.clear()
        self._reader.damaged.clear()
        self._reader.stretches.clear()
        return is_damaged

    def run(self) -> None:
        """Ingest until `pause` returns True. What the journal holds then is left to `recover_one`.

        Raises `Stopped` if the database refuses then; this ingester is of no use any more, the
        journal is as it was.
        """
        while not self._pause(self._interval(size := self.step())):
            self._store.tidy()
            if not size:
                self._heartbeat.rest()

    def finish(self) -> None:
        """Ingest the rest of a dead recorder as `end` does, and forget it.

        Raises `Stopped` like `run`.
        """
        self.end()
        self.forget()

    def end(self) -> None:
        """Ingest the rest of a dead recorder, and end what is open with `recorder_crash`."""
        self._records.writer_is_dead = True
        while self.step(writer_is_dead=True):
            pass
        self._assembler.end_all()
        self._commit()
        self.end_in_log()

    def end_in_log(self) -> None:
        """End what is open where the log has it.

        What its recorder still brings of it is counted then.
        """
        self._retry(lambda: end_open(self._store, self._recorder_id))

    def leave_segment(self) -> None:
        """Go on after the newest segment, to which nothing is added, if it was read to its end and
        nothing is open.
        """
        segment, offset = self._reader.position
        if (
            not self._assembler.open
            and offset == size_bytes(self._directory / segment_name(segment)) > 0
        ):
            self._reader.position = self._position = Position(segment + 1, 0)
            self._commit()

    def forget(self) -> None:
        """Remove the journal of a recorder that has ended, and its place in the log."""
        remove(self._directory)
        self._retry(lambda: self._store.forget_offset(self._recorder_id))

    @staticmethod
    def _interval(size: int) -> float:
        if size >= BATCH_BYTES // 2:
            return 0.0
        return QUIET_S if size < QUIET_BYTES else BUSY_S

    def _find_session(self, head: RequestHead, grouping: Grouping) -> str | None:
        """Return the session that has a request already, or that its grouping names, or whose
        conversation it continues.
        """
        history, before = grouping.history, digests_before(grouping)
        awaited = self._assembler.batch.awaited
        if grouping.source == PREVIOUS_RESPONSE or any(
            each.request_digest in before for each in awaited
        ):
            self._commit_before()  # that response, or the exchange before, may stand in this batch
        batch = self._assembler.batch
        for session in batch.sessions:
            is_named = session.name == grouping.name and session.source in same_names(
                grouping.source
            )
            if is_named and owner_of(session.labels) == owner_in(head.attribution):
                return session.session_id
        found = self._continued(head, grouping)
        certain = found.certain or self._session_of_open(
            before, owner_in(head.attribution), history.ids if history else ()
        )
        if certain is not None or history is None:
            return certain
        if any(
            history.links or may_continue(history, each) for each in self._assembler.batch.awaited
        ):
            self._commit_before()
            found = self._continued(head, grouping)
        linked = None
        if history.links:
            linked = self._retry(
                partial(self._linked, history.links, owner_in(head.attribution)), only_reads=True
            )
        return found.certain or linked or found.likely

    def _continued(self, head: RequestHead, grouping: Grouping) -> Continued:
        batch = self._assembler.batch
        return self._retry(
            lambda: session_in_store(self._store, head, grouping, batch), only_reads=True
        )

    def _linked(self, links: Sequence[str], owner: str | None) -> str | None:
        return of_owner(self._store, self._store.session_of_links(links, HISTORY), owner)

    def _session_of_open(
        self, before: set[str], owner: str | None, ids: Sequence[str]
    ) -> str | None:
        """Return the session of the one open exchange that a request of an owner continues; of
        several, the one that has said one of its ids.
        """
        found = sessions_of_open(self._assembler.open.values(), before, owner)
        if len(found) > 1 and ids:
            self._commit_before()
            found &= self._recent.sessions_saying(ids)
        return found.pop() if len(found) == 1 else None

    # -- the store, which may refuse

    def _commit_before(self) -> None:
        """Commit the rows of earlier records while one is read: a failure is not a fault of that
        record.
        """
        try:
            self._commit()
        except self._records.refusals:
            raise
        except Exception as error:
            raise Uncommitted(f"{type(error).__name__}: {error}") from error

    def _commit(self) -> None:
        batch = self._assembler.take()
        place = min(
            (exchange.start for exchange in self._assembler.open.values()), default=self._position
        )
        is_far = not self._records.writer_is_dead and self._position.segment - place.segment > (
            self._carry_segments or CARRY_SEGMENTS
        )
        if (
            is_far
            and is_worth_carrying(self._directory, place, self._records.place)
            and self._carry()
        ):
            place = self._position
        try:
            self._write(batch, place)
            self._scrubber.committed(self._assembler.has_request)
        except StoreConflictError:
            self._write_apart(batch)
            self._write(Batch(), place)
            self._scrubber.committed(
                lambda number: False if number in self._assembler.open else None
            )
        self._records.place = place
        self._heartbeat.committed()
        # after a start, records come that the log had before
        self._written = max(self._written, self._position)
        write_ingested(self._directory, self._written, place)
        self._drop_before(place)

    def _write(self, batch: Batch, place: Position | None) -> None:
        whole = self._recent.add(batch.exchanges, batch.events)
        results = self._recent.new_results()

        def write() -> None:
            self._store.add_sessions(batch.sessions)
            self._store.add_exchanges(batch.exchanges)
            self._append(batch.events, whole)
            self._store.projector.add_results(results)
            if place is not None:
                self._store.set_offset(self._recorder_id, *place)

        try:
            self._retry(write)
        except BaseException:
            self._recent.forget()  # what the log has is not what was added
            raise

    def _write_apart(self, batch: Batch) -> None:
        """Write the exchanges of a batch one by one, and end one that contradicts the log where the
        log has it, with a gap.
        """
        numbers: dict[str, int] = {}
        for number, exchange in self._assembler.open.items():
            numbers.update(dict.fromkeys(exchange.exchange_ids, number))
        for session_id, exchange_id in dict.fromkeys(
            (event.session_id, event.exchange_id) for event in batch.events
        ):
            part = batch.of(exchange_id)
            try:
                self._write(part, None)
            except StoreConflictError as error:
                if self._is_late(session_id, exchange_id, numbers.get(exchange_id), part.events):
                    continue
                reason = self._retry(partial(self._cut_off, session_id, exchange_id, str(error)))
                log.error("exchange %s: %s", exchange_id, reason)
                if numbers.get(exchange_id) in self._assembler.open:
                    self._assembler.reject(numbers[exchange_id], exchange_id, reason)

    def _is_late(
        self, session_id: str, exchange_id: str, number: int | None, events: Sequence[Event]
    ) -> bool:
        """Return whether the log has ended an exchange without this recorder; then count and note
        what comes.
        """
        if any(event.kind == "note" for event in events):
            return False
        rest = self._retry(partial(late_counter, self._store, session_id, exchange_id))
        if rest is None:
            return False
        rest.count(events)
        if number is None:
            self._write_apart(Batch(events=rest.note()))
        else:
            self._assembler.divert(number, exchange_id, rest)
        return True

    def _cut_off(self, session_id: str, exchange_id: str, error: str) -> str:
        """End an exchange where the log has it, if the log may have it. Return what was wrong."""
        gone = refused_because(self._store, session_id)
        if gone is not None:
            return f"its session {gone}"
        reason = f"the journal contradicts the log from here on: {error}"
        self._append(rest_of(self._store, session_id, exchange_id, reason))
        return reason

    def _append(self, events: Sequence[Event], whole: Mapping[Key, Whole] = NOTHING) -> None:
        """Append events, and the projections of exchanges in the same transaction as their ends.

        `whole` has all events of some that end.
        """
        is_new = self._store.append(events)
        ended = [key_of(event) for event in events if event.kind == "end"]
        self._store.projector.project_all(ended, whole, is_new=is_new)

    # -- the journal before the place

    def _carry(self) -> bool:
        """Copy the records of open exchanges into a file that replaces all of the journal before
        `_position`.

        Returns whether it could: without room for it the journal stays as it is, and longer.
        """
        try:
            write_carried(self._directory, self._position, self._records_of_open())
            self._carried(carried_path(self._directory, self._position))
        except OSError as error:
            log.warning("the journal cannot be shortened: %s", error.strerror)
            return False
        self._scrubber.carry()
        for exchange in self._assembler.open.values():
            exchange.carry(self._position)
        return True

    def _records_of_open(self) -> Iterator[Record]:
        """Yield the records to carry over: without request bodies that are in the log with the
        place, and with the damage among them as gaps, because that part is never read again.
        """
        seen = Counter[int]()
        for record in self._records.records_of_open(self._assembler.open, self._position):
            yield without_body(record) if self._assembler.has_request(record.exchange) else record
            seen[record.exchange] += 1
            for gap in self._assembler.open[record.exchange].lost_after(seen[record.exchange]):
                yield record._replace(
                    mark=Mark.GAP, t_ns=gap.to_ns, payload=msgspec.json.encode(gap)
                )

    def _drop_before(self, place: Position) -> None:
        for number in segment_numbers(self._directory):
            if number < place.segment:
                (self._directory / segment_name(number)).unlink(missing_ok=True)
        drop_carried(self._directory, but=place)


def recover(
    store: Store,
    root: Path,
    pause: Pause,
    redactor: Redactor = BY_SHAPE,
    *,
    but: Path | None = None,
) -> int:
    """Ingest what recorders that are dead left in their journals, `but` one.

    Returns how many there were.

    A journal that cannot be read is named in the log and left as it is.
    """
    found = 0
    for directory in sorted(root.iterdir()) if root.exists() else []:
        try:
            found += directory != but and recover_one(store, directory, pause, redactor)
        except (StoreError, Stopped):
            raise
        except Exception as error:
            # one journal that cannot be read must not keep others from being recorded
            log.error(
                "the journal %s is left as it is: %s: %s", directory, type(error).__name__, error
            )
    end_forsaken(store, root, but)
    return found


def recover_one(store: Store, directory: Path, pause: Pause, redactor: Redactor = BY_SHAPE) -> bool:
    """Ingest one journal to its end, if its recorder is dead and no other process ingests it.

    Returns whether it was so."""
    with claimed_of_dead(directory) as mine:
        if mine:
            Ingester(store, directory, pause, redactor).finish()
    return mine
