"""The kinds of faults, each a `Fault`: errors, delays, cuts, stalls, lost or damaged events,
slices.

Waiting is their only I/O, on the clock of the run.
"""

from __future__ import annotations

import asyncio
import random
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from recorder.errors import UpstreamError
from recorder.model.events import Header
from recorder.proxy.http.messages import Response
from recorder.replay.faults.transport import Chunks, EventBlock, Fault, Run, blocks, in_place
from recorder.replay.pace import FOREVER_S
from recorder.replay.transport import origin_of, whole
from recorder.wire.dialects import error_body, error_in_stream
from recorder.wire.dialects.keys import DONE
from recorder.wire.turns import as_block, error_message
from recorder.wire.websocket_endpoint import OutgoingFrame

SLICE_BYTES = 64  # the longest slice, if no other is asked for
FRAGMENTS = 3  # of a message, if no other number is asked for
PING = b"recorder"  # the payload of a ping, which the client sends back
CLOSE_REASON = "recorder: a fault closes the connection"
DRIPS = 20  # a second: few enough to cost nothing, many enough to be a flow

_DONE = DONE.encode()
_MULTIBYTE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]{1,3}")


class Status(Fault, frozen=True):
    """An error response in the provider's own shape, to the first `times` requests or to all."""

    status: int
    headers: tuple[Header, ...] = ()
    times: int | None = None

    async def before(self, run: Run) -> Response | None:
        if self.times is not None and run.number > self.times:
            return None
        run.struck(self)
        request, origin = run.request, origin_of(run.request)
        message = f"recorder: a fault answers with {self.status}."
        body = error_body(request.method, origin.target, origin.upstream, self.status, message)
        return whole(self.status, body, self.headers)


class Delay(Fault, frozen=True):
    """The request is sent later."""

    seconds: float

    async def before(self, run: Run) -> Response | None:
        run.struck(self)
        await run.waiting.pause(self.seconds)
        return None


class _AtEvent(Fault, frozen=True):
    """Strikes after an event, or before the first: then it needs none."""

    event: int

    @property
    def needs_events(self) -> bool:
        return self.event > 0

    @property
    def unmet(self) -> str:
        return _no_event(self.event) if self.event else "there was no response"


class _AfterEvent(_AtEvent, frozen=True):
    """Strikes the body there."""

    @abstractmethod
    async def _strike(self, run: Run) -> None: ...

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        if self.event == 0:
            await self._strike(run)
            async for chunk in chunks:
                yield chunk
            return
        async for block in blocks(chunks, run.framing):
            yield block.raw
            if block.event == self.event:
                await self._strike(run)


class CutAfter(_AfterEvent, frozen=True):
    """The connection breaks after an event: with a code after a Close frame, if it is one of
    WebSocket.
    """

    outcome: str = "truncated"
    code: int | None = None

    async def _strike(self, run: Run) -> None:
        raise _cut(self, run)


class EndAfter(_AtEvent, frozen=True):
    """The response ends after an event as a whole one does: HTTP is complete, and what follows is
    missing.
    """

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        if self.event == 0:
            run.struck(self)
            return
        async for block in blocks(chunks, run.framing):
            yield block.raw
            if block.event == self.event:
                run.struck(self)
                return


class ErrorAfter(_AtEvent, frozen=True):
    """The stream says an error after an event, in the shape that its provider has for it, and ends."""

    status: int

    @property
    def needs_events(self) -> bool:
        return True

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        if self.event == 0:
            yield self._error(run)
            return
        async for block in blocks(chunks, run.framing):
            yield block.raw
            if block.event == self.event:
                yield self._error(run)
                return

    def _error(self, run: Run) -> bytes:
        run.struck(self)
        request, origin = run.request, origin_of(run.request)
        asked = request.method, origin.target, origin.upstream
        message = f"recorder: a fault reports {self.status}."
        if request.extensions.get("is_message"):
            return as_block(error_message(self.status, error_body(*asked, self.status, message)))
        return error_in_stream(run.framing, *asked, self.status, message, self.event)


class CutAt(Fault, frozen=True):
    """The connection breaks at a time after the request."""

    seconds: float
    outcome: str = "truncated"

    @property
    def unmet(self) -> str:
        return f"no response took {self.seconds:g} s"

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        deadline_ns = run.waiting.started_ns + int(self.seconds * 1e9)
        while True:
            try:
                chunk = await run.waiting.within(deadline_ns, anext(chunks))
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise _cut(self, run) from None
            yield chunk


class Stall(_AfterEvent, frozen=True):
    """Nothing comes for a while after an event, or nothing any more."""

    seconds: float = FOREVER_S

    async def _strike(self, run: Run) -> None:
        run.struck(self)
        await run.waiting.pause(self.seconds)


class Which(msgspec.Struct, frozen=True):
    """Some events: the one of a number, or a share of all."""

    event: int | None = None
    share: float = 0.0

    def has(self, block: EventBlock, run: Run) -> bool:
        if block.event is None:
            return False
        return (
            block.event == self.event if self.event is not None else run.dice.random() < self.share
        )


class _OfEvents(Fault, frozen=True):
    """Strikes some events."""

    which: Which

    @property
    def needs_events(self) -> bool:
        return True

    @property
    def unmet(self) -> str:
        return "it met no event" if self.which.event is None else _no_event(self.which.event)


class Altered(_OfEvents, frozen=True):
    """Events are lost, come twice, or damaged: `how` is a key of `ALTERED`."""

    how: str

    @property
    def unmet(self) -> str:
        return f"{super().unmet}{' that has JSON' if self.how == 'corrupt' else ''}"

    def body(self, chunks: Chunks, run: Run) -> Chunks:
        return in_place(self._altered(chunks, run), run.framing)

    async def _altered(self, chunks: Chunks, run: Run) -> AsyncIterator[EventBlock]:
        async for block in blocks(chunks, run.framing):
            altered: Sequence[bytes] = (block.raw,)
            if self.which.has(block, run):
                altered = ALTERED[self.how](block.raw, run)
            if altered != (block.raw,):
                run.struck(self)
            for raw in altered:
                yield block._replace(raw=raw)


class Reordered(_OfEvents, frozen=True):
    """Events come after the next one."""

    @property
    def unmet(self) -> str:
        return f"{super().unmet} and another after it"

    def body(self, chunks: Chunks, run: Run) -> Chunks:
        return in_place(self._reordered(chunks, run), run.framing)

    async def _reordered(self, chunks: Chunks, run: Run) -> AsyncIterator[EventBlock]:
        # the event, and comments after it: one may be the end of an array
        late: list[EventBlock] = []
        async for block in blocks(chunks, run.framing):
            if late and block.event is not None:
                run.struck(self)
                yield block
                for each in late:
                    yield each
                late.clear()
            elif late or self.which.has(block, run):
                late.append(block)
            else:
                yield block
        for each in late:
            yield each


class _OfMessages(_AtEvent, frozen=True):
    """Strikes a message over WebSocket; over HTTP it does nothing."""

    @property
    def unmet(self) -> str:
        return f"no response over WebSocket had an event {self.event}"

    def frames(
        self, number: int, frames: Sequence[OutgoingFrame], run: Run
    ) -> Sequence[OutgoingFrame]:
        if number != self.event:
            return frames
        run.struck(self)
        return self._changed(frames)

    @abstractmethod
    def _changed(self, frames: Sequence[OutgoingFrame]) -> Sequence[OutgoingFrame]: ...


class Fragmented(_OfMessages, frozen=True):
    """A message comes in several frames of about the same length."""

    pieces: int = FRAGMENTS

    def _changed(self, frames: Sequence[OutgoingFrame]) -> Sequence[OutgoingFrame]:
        whole = b"".join(frame.payload for frame in frames if frame.opcode != "ping")
        opcode, fragments = frames[0].opcode, []
        start = 0
        for number in range(1, self.pieces + 1):
            stop = len(whole) * number // self.pieces
            fragments.append(OutgoingFrame(opcode, whole[start:stop], number == self.pieces))
            opcode, start = "continuation", stop
        return [*fragments, *(frame for frame in frames if frame.opcode == "ping")]


class Pinged(_OfMessages, frozen=True):
    """A ping comes with a message: between its fragments, if it has any, else after it."""

    def _changed(self, frames: Sequence[OutgoingFrame]) -> Sequence[OutgoingFrame]:
        return [frames[0], OutgoingFrame("ping", PING), *frames[1:]]


class Slice(Fault, frozen=True):
    """Bytes come in small pieces: at random, or cut in the middle of every character that has
    several bytes.
    """

    limit_bytes: int = SLICE_BYTES
    in_characters: bool = False

    @property
    def unmet(self) -> str:
        return f"no response had {'a character of several bytes' if self.in_characters else 'enough bytes'}"

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        async for chunk in chunks:
            places = list(self._places(chunk, run.dice))
            if places:
                run.struck(self)
            for start, stop in pairwise([0, *places, len(chunk)]):
                yield chunk[start:stop]
                # what is sent in one turn of an event loop may leave in one piece
                await asyncio.sleep(0)

    def _places(self, chunk: bytes, dice: random.Random) -> Iterator[int]:
        if self.in_characters:
            for character in _MULTIBYTE.finditer(chunk):
                yield dice.randint(character.start() + 1, character.end() - 1)
            return
        place = dice.randint(1, self.limit_bytes)
        while place < len(chunk):
            yield place
            place += dice.randint(1, self.limit_bytes)


class Drip(Fault, frozen=True):
    """So many bytes a second, and no more."""

    bytes_per_s: float

    @property
    def unmet(self) -> str:
        return "no response had a body"

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        drop = max(1, round(self.bytes_per_s / DRIPS))
        due_ns = 0
        async for chunk in chunks:
            due_ns = max(due_ns, run.waiting.clock.now_ns())
            if chunk:
                run.struck(self)
            for start in range(0, len(chunk), drop):
                await run.waiting.until(due_ns)
                data = chunk[start : start + drop]
                due_ns += int(len(data) / self.bytes_per_s * 1e9)
                yield data


def _no_event(number: int) -> str:
    return f"no response had an event {number}"


def _cut(fault: CutAfter | CutAt, run: Run) -> UpstreamError:
    run.struck(fault)
    close = (
        (fault.code, CLOSE_REASON)
        if isinstance(fault, CutAfter) and fault.code is not None
        else None
    )
    return UpstreamError("the connection was cut by a fault", fault.outcome, close=close)


def _damaged(block: bytes, run: Run) -> bytes:
    """Return a block whose JSON ends too early, which no JSON object survives."""
    fields = run.framing.fields(block)
    data = fields.data or b""
    size_bytes = len(data.rstrip())
    is_json = data[:1] in (b"{", b"[") and not data.startswith(_DONE) and size_bytes > 1
    if fields.data_start is None or not is_json:
        return block
    kept = data[: run.dice.randint(1, size_bytes - 1)] + data[size_bytes:]
    return run.framing.with_data(block, fields, kept)


ALTERED: Mapping[str, Callable[[bytes, Run], Sequence[bytes]]] = {
    "drop": lambda block, run: (),
    "repeat": lambda block, run: (block, block),
    "corrupt": lambda block, run: (_damaged(block, run),),
}
