"""The track of an exchange: its document after each of its events, as a state and steps, in
segments.

A step is what an event changes in the document (`recorder.ui.ops`). A step with a time comes from
outside of the exchange: from a request with the result of a call, or from a better copy of the
response. After the steps up to an event, the document is that of `recorder show --at-event`.

The steps of an exchange are computed once, from its first event on, as far as a segment is wanted,
and kept. States are kept here and there: the others follow from steps. Most that look at an
exchange look at its end first: of one that has ended the projections have that, and nothing is
folded.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import select

from recorder.errors import NotFoundError, StoreError
from recorder.model.events import Event, Exchange
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.queries.projected import projected_rows
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import counter_of, earlier_events
from recorder.store.schema import events
from recorder.store.sql import IS_END, of_exchange
from recorder.ui.ops import Op, apply
from recorder.ui.running_document import RunningDocument
from recorder.ui.surroundings import Moment, Surroundings

SEGMENT = 256  # positions: 60 KB of JSON, a few milliseconds for both sides
# of all tracks: some fifty responses of 100,000 events, or one that is open and very long
CACHE_BYTES = 128 * 2**20
SLICE_S = 0.005  # of work at a time: then other requests have their turn
# at the other exchanges for one answer: one that changes each time is seen at the next request
LOOKS = 3
EVENT_BYTES = 200  # of memory that an event takes in a fold besides its texts
# events of an exchange up to which its end is folded, too: it takes no longer, and tells what its
# last event wrote
FOLDED = SEGMENT

_of_exchange = of_exchange(events)
_LAST = (
    select(events.c.pos, events.c.t_ns).where(_of_exchange).order_by(events.c.pos.desc()).limit(1)
)
_ENDS = select(events.c.pos).where(_of_exchange, IS_END)


class TrackCache:
    """The tracks that were used last, within a limit of bytes.

    A seek in any other folds its exchange again.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._tracks: dict[str, _Track] = {}  # the one that was used last at the end

    def take(self, number: int, exchange: Exchange) -> _Track:
        """Return the track of an exchange, a new one if there is none."""
        track = self._tracks.pop(exchange.exchange_id, None) or _Track(number, exchange)
        self._tracks[exchange.exchange_id] = track
        return track

    def trim(self) -> None:
        """Drop the tracks that were used longest ago, as far as all together are over the limit."""
        total = sum(track.size_bytes for track in self._tracks.values())
        for exchange_id in list(self._tracks):
            if total <= self._limit_bytes:
                return
            total -= self._tracks.pop(exchange_id).size_bytes


async def segment(
    log: LogReader, session_ref: str, exchange_ref: str, at: int, cache: TrackCache
) -> dict[str, Any]:
    """Return the segment of an exchange that has a position, or its last segment if there is no
    such position.
    """
    session, [numbered] = await select_exchanges(log, session_ref, exchange_ref)
    everything = list(enumerate(await log.exchanges(session.session_id), 1))
    return await segment_among(log, everything, numbered, at, cache)


async def segment_among(
    log: LogReader, everything: Sequence[Numbered], numbered: Numbered, at: int, cache: TrackCache
) -> dict[str, Any]:
    """Return the segment of one of all exchanges of a session, as `segment` does."""
    track = cache.take(*numbered)
    try:
        async with track.lock:
            return await track.segment(log, everything, at)
    finally:
        cache.trim()


class _Track:
    """The segments of one exchange so far, and its running document, for events may follow."""

    def __init__(self, number: int, exchange: Exchange) -> None:
        self._number, self._exchange = number, exchange
        self.lock = asyncio.Lock()
        self._surroundings = Surroundings(exchange)
        self._around_end = Surroundings(exchange)  # of all calls, also while few are folded
        self._begin()

    def _begin(self) -> None:
        """Begin again, with what is known of the surroundings by now."""
        self._moments = list(self._surroundings.moments)
        self._passed = 0  # moments
        self._document: RunningDocument | None = None
        self._pos, self._t_ns = -1, -1  # of the last event
        self._folded_bytes = 0
        self._segments: list[bytes] = []
        self._steps: list[bytes] = []  # of the segment that is not complete
        self._states: dict[int, bytes] = {}  # at the beginnings of some segments
        self._state_bytes = self._since_state = 0  # of the last of them, and of the steps since
        self._later_steps: list[Any] = []  # after the last event
        # the last event and the moments that they are made of
        self._later_of: tuple[int, list[Moment]] = (-1, [])

    @property
    def size_bytes(self) -> int:
        """Return the bytes of memory that it takes, about: a fold holds the texts of its events."""
        packed = (*self._segments, *self._steps, *self._states.values())
        return self._folded_bytes + sum(map(len, packed))

    async def segment(
        self, log: LogReader, everything: Sequence[Numbered], at: int
    ) -> dict[str, Any]:
        """Return the segment that has a position. To be called by one caller at a time."""
        ids = {"session_id": self._exchange.session_id, "exchange_id": self._exchange.exchange_id}
        # first: what ends now may have more events than are read
        has_ended = bool(await log.rows(_ENDS, **ids))
        rows = await log.rows(_LAST, **ids)
        if not rows:
            raise NotFoundError(f"Exchange {self._number} has no events yet.")
        [(last, last_ns)] = rows
        if has_ended and self._pos < last and at >= last >= FOLDED:
            end = await self._end(log, everything, last, last_ns)
            if end is not None:
                return end
        last = max(last, self._pos)
        first = min(max(at, 0), last) // SEGMENT * SEGMENT
        to = min(first + SEGMENT - 1, last)
        await self._advance(log, min(to + 1, last))
        for _ in range(LOOKS):
            if await self._is_up_to_date(log, everything):
                break
            self._begin()
            await self._advance(log, min(to + 1, last))
        if has_ended and self._pos == last and self._document is not None:
            self._folded_bytes = self._document.finish()
        state, steps = await asyncio.to_thread(self._unpacked, first // SEGMENT)
        steps = [step for step in steps if step[0] <= to]
        if to == last:
            steps += await self._steps_after_last()
        return self._segment(first, to, last, state, steps, has_ended=has_ended)

    def _segment(
        self, first: int, to: int, last: int, state: Any, steps: list[Any], *, has_ended: bool
    ) -> dict[str, Any]:
        return {
            "exchange_id": self._exchange.exchange_id,
            "number": self._number,
            "from": first,
            "to": to,
            "last": last,
            "has_ended": has_ended,
            "state": state,
            "steps": steps,
        }

    async def _end(
        self, log: LogReader, everything: Sequence[Numbered], last: int, last_ns: int
    ) -> dict[str, Any] | None:
        """Return the last event alone as a segment, from the projections; None if these do not have
        all of its state.
        """
        try:
            rows = await projected_rows(log, self._exchange)
        except StoreError:  # projections of another version have other columns
            rows = None
        if rows is None or counter_of(self._exchange) is not None:
            return None
        around = self._around_end
        document = RunningDocument(self._number, self._exchange, (), around.view(last_ns))
        document.take(rows)
        await around.look(log, everything, document.calls, document.response_id)
        document.see(around.view(last_ns))
        state = msgspec.json.decode(msgspec.json.encode(document.state()))
        later = [moment for moment in around.moments if moment.t_ns > last_ns]
        steps = await _steps_of(later, document, around, last)
        return self._segment(last, last, last, state, steps, has_ended=True)

    async def _advance(self, log: LogReader, target: int) -> None:
        """Apply the events up to a position, a few at a time: other tasks get their turns."""
        exchange = self._exchange
        if self._pos >= target:
            return
        if self._document is not None and self._document.is_finished:
            self._begin()  # a note follows an end
        if self._document is None:
            earlier = await earlier_events(log, exchange)
            self._document = RunningDocument(
                self._number, exchange, earlier, self._surroundings.view(-1)
            )
        until_s = time.monotonic() + SLICE_S
        async for event in log.events(exchange.session_id, exchange.exchange_id, after=self._pos):
            self._tell(self._document, event)
            if event.pos >= target:
                return
            if time.monotonic() > until_s:
                await asyncio.sleep(0)
                until_s = time.monotonic() + SLICE_S

    def _tell(self, document: RunningDocument, event: Event) -> None:
        """Add the step of the next event, and before it those from outside since the last one."""
        ops: list[Op] = []
        if event.t_ns < self._t_ns:  # a clock that went back: the moments since are to come again
            self._passed = self._passed_at(event.t_ns)
            ops += document.see(self._surroundings.view(event.t_ns))
        if self._passed < len(self._moments):
            for t_ns in self._next_moments(event.t_ns):
                self._add(self._pos, document.see(self._surroundings.view(t_ns)), t_ns)
        if event.pos % SEGMENT == 0:
            self._close_segment(document)
        ops += document.apply(event)
        self._add(event.pos, ops)
        self._pos, self._t_ns = event.pos, event.t_ns
        self._folded_bytes += len(event.raw) + EVENT_BYTES

    def _passed_at(self, t_ns: int) -> int:
        return bisect_right(self._moments, t_ns, key=attrgetter("t_ns"))

    def _next_moments(self, until_ns: int) -> list[int]:
        """Return the times of the moments up to one, and pass them."""
        start, self._passed = self._passed, self._passed_at(until_ns)
        times = _times(self._moments[start : self._passed])
        return times[-1:] if self._pos < 0 else times  # before its first event only the last counts

    def _add(self, pos: int, ops: list[Op], t_ns: int | None = None) -> None:
        if ops:
            step = [pos, ops] if t_ns is None else [pos, ops, t_ns]
            self._steps.append(msgspec.json.encode(step))
            self._since_state += len(self._steps[-1])

    def _close_segment(self, document: RunningDocument) -> None:
        """Pack the steps of the segment that ends here, and the state if it is not more than all
        steps since the last.

        So all states together take no more than the steps, and a state is made of an earlier one in
        the time that it takes to read it.
        """
        if self._pos >= 0:
            self._segments.append(_packed(b"[%b]" % b",".join(self._steps)))
            self._steps = []
        if self._since_state >= self._state_bytes:
            state = msgspec.json.encode(document.state())
            if self._since_state >= len(state) or not self._states:
                self._states[len(self._segments)] = _packed(state)
                self._since_state = 0
            self._state_bytes = len(state)

    def _unpacked(self, index: int) -> tuple[Any, list[Any]]:
        """Return the state at the beginning of a segment, and its steps."""
        nearest = max(number for number in self._states if number <= index)
        state = msgspec.json.decode(zlib.decompress(self._states[nearest]))
        ops: list[Op] = []
        for number in range(nearest, index):
            for step in self._steps_of(number):
                ops += step[1]
        return apply(state, ops), self._steps_of(index)

    def _steps_of(self, index: int) -> list[Any]:
        if index < len(self._segments):
            packed = zlib.decompress(self._segments[index])
        else:
            packed = b"[%b]" % b",".join(self._steps)
        steps: list[Any] = msgspec.json.decode(packed)
        return steps

    async def _is_up_to_date(self, log: LogReader, everything: Sequence[Numbered]) -> bool:
        """Look at the surroundings; return False if they say something else of the time of the
        events so far.
        """
        document = self._document
        if document is not None:
            await self._surroundings.look(log, everything, document.calls, document.response_id)
        before, self._moments = self._moments[: self._passed], list(self._surroundings.moments)
        return before == self._moments[: self._passed_at(self._t_ns)]

    async def _steps_after_last(self) -> list[Any]:
        """Return the steps from outside after the last event.

        The document is then as it was before.
        """
        document, moments = self._document, self._moments[self._passed_at(self._t_ns) :]
        if document is None or (self._pos, moments) == self._later_of:
            return self._later_steps
        try:
            steps = await _steps_of(moments, document, self._surroundings, self._pos)
        finally:
            document.see(self._surroundings.view(self._t_ns))
        self._later_of, self._later_steps = (self._pos, moments), steps
        return steps


async def _steps_of(
    moments: Iterable[Moment], document: RunningDocument, surroundings: Surroundings, pos: int
) -> list[Any]:
    """Return the steps of some moments after an event; they change the document."""
    steps: list[Any] = []
    until_s = time.monotonic() + SLICE_S
    for t_ns in _times(moments):
        if ops := document.see(surroundings.view(t_ns)):
            steps.append([pos, ops, t_ns])
        if time.monotonic() > until_s:
            await asyncio.sleep(0)
            until_s = time.monotonic() + SLICE_S
    return steps


def _times(moments: Iterable[Moment]) -> list[int]:
    return sorted({moment.t_ns for moment in moments})


def _packed(text: bytes) -> bytes:
    return zlib.compress(text, 1)
