"""Faults: a transport that wraps another one and does to its responses what networks and providers do.

Several apply in the order given. How they are written is elsewhere (`recorder.transports.fault_forms`).

Rules of this file:

* Same seed, same run: chance comes from a generator seeded with the seed and the number of the request. The transport's
  own chunking does not count: faults at events see events, whole ones.
* Events are those of event streams; other bodies pass such faults untouched. The wrapped transport is asked for a body
  that is not content-coded, so that there are events to see.
* Waiting is its only I/O, on a clock that is given.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, ClassVar

import msgspec

from recorder.dialects import framing
from recorder.errors import UpstreamError
from recorder.heads import Header
from recorder.playback import Clock
from recorder.transports.blocks import Block, Chunks, blocks
from recorder.transports.pace import FOREVER_S, LOOP, Waiting
from recorder.transports.refusals import error_body
from recorder.transports.replay import Response, Transport, origin_of, whole

SLICE_BYTES = 64  # the longest slice, if no other is asked for
DRIPS = 20  # a second: few enough to cost nothing, many enough to be a flow

_PAYLOAD = re.compile(rb"(?:\A|[\r\n])data: ?(?!\[DONE\])([{\[][^\r\n]*[^\s])")  # without the spaces at its end
_MULTIBYTE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]{1,3}")


class Run:
    """One request on its way through the faults."""

    def __init__(self, request: Any, number: int, seed: int, clock: Clock) -> None:
        self.request, self.number = request, number  # 1 for the first that the transport is asked
        self.dice = random.Random(f"{seed}/{number}")
        self.waiting = Waiting(clock, request)


class Fault(msgspec.Struct, frozen=True):
    """One thing that goes wrong."""

    needs_events: ClassVar[bool] = False

    async def before(self, run: Run) -> Response | None:
        """What answers instead of the wrapped transport, if anything does."""
        return None

    def body(self, chunks: Chunks, run: Run) -> Chunks:
        """The response body as it comes out."""
        return chunks


class Status(Fault, frozen=True):
    """An error response in the provider's own shape, to the first `times` requests or to all."""

    status: int
    headers: tuple[Header, ...] = ()
    times: int | None = None

    async def before(self, run: Run) -> Response | None:
        if self.times is not None and run.number > self.times:
            return None
        request, origin = run.request, origin_of(run.request)
        message = f"recorder: a fault answers with {self.status}."
        body = error_body(request.method, origin.target, origin.upstream, self.status, message)
        return whole(self.status, body, self.headers)


class Delay(Fault, frozen=True):
    """The request is sent later."""

    seconds: float

    async def before(self, run: Run) -> Response | None:
        await run.waiting.pause(self.seconds)
        return None


class CutAfter(Fault, frozen=True):
    """The connection breaks after an event."""

    needs_events = True
    event: int
    outcome: str = "truncated"

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        if self.event == 0:
            raise _cut(self.outcome)
        async for block in blocks(chunks):
            yield block.raw
            if block.event == self.event:
                raise _cut(self.outcome)


class CutAt(Fault, frozen=True):
    """The connection breaks at a time after the request."""

    seconds: float
    outcome: str = "truncated"

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        deadline_ns = run.waiting.started_ns + int(self.seconds * 1e9)
        while True:
            try:
                chunk = await run.waiting.within(deadline_ns, anext(chunks))
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise _cut(self.outcome) from None
            yield chunk


class Stall(Fault, frozen=True):
    """Nothing comes for a while after an event, or nothing any more."""

    needs_events = True
    event: int
    seconds: float = FOREVER_S

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        if self.event == 0:
            await run.waiting.pause(self.seconds)
        async for block in blocks(chunks):
            yield block.raw
            if block.event == self.event:
                await run.waiting.pause(self.seconds)


class Which(msgspec.Struct, frozen=True):
    """Some events: the one of a number, or a share of all."""

    event: int | None = None
    share: float = 0.0

    def has(self, block: Block, run: Run) -> bool:
        if block.event is None:
            return False
        return block.event == self.event if self.event is not None else run.dice.random() < self.share


class Altered(Fault, frozen=True):
    """Events are lost, come twice, or damaged: `how` is a key of `ALTERED`."""

    needs_events = True
    how: str
    which: Which

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        async for block in blocks(chunks):
            altered = ALTERED[self.how](block.raw, run.dice) if self.which.has(block, run) else (block.raw,)
            for raw in altered:
                yield raw


class Reordered(Fault, frozen=True):
    """Events come after the next one."""

    needs_events = True
    which: Which

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        late = b""
        async for block in blocks(chunks):
            if not late and self.which.has(block, run):
                late = block.raw
                continue
            yield block.raw
            if late and block.event is not None:
                yield late
                late = b""
        if late:
            yield late


class Slice(Fault, frozen=True):
    """Bytes come in small pieces: at random, or cut in the middle of every character that has several bytes."""

    limit_bytes: int = SLICE_BYTES
    in_characters: bool = False

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        async for chunk in chunks:
            places = _within_characters(chunk, run.dice) if self.in_characters else self._places(chunk, run.dice)
            for start, stop in pairwise([0, *places, len(chunk)]):
                yield chunk[start:stop]
                await asyncio.sleep(0)  # what is sent in one turn of an event loop may leave in one piece

    def _places(self, chunk: bytes, dice: random.Random) -> Iterator[int]:
        place = dice.randint(1, self.limit_bytes)
        while place < len(chunk):
            yield place
            place += dice.randint(1, self.limit_bytes)


class Drip(Fault, frozen=True):
    """So many bytes a second, and no more."""

    bytes_per_s: float

    async def body(self, chunks: Chunks, run: Run) -> Chunks:
        drop = max(1, round(self.bytes_per_s / DRIPS))
        due_ns = 0
        async for chunk in chunks:
            due_ns = max(due_ns, run.waiting.clock.now_ns())
            for start in range(0, len(chunk), drop):
                await run.waiting.until(due_ns)
                data = chunk[start : start + drop]
                due_ns += int(len(data) / self.bytes_per_s * 1e9)
                yield data


class FaultTransport:
    """Does what the faults say to each request that passes through `inner`, and to what comes back."""

    def __init__(self, inner: Transport, faults: Sequence[Fault], *, seed: int = 0, clock: Clock = LOOP) -> None:
        self._inner, self._faults, self._seed, self._clock = inner, faults, seed, clock
        self._numbers = count(1)

    async def handle_async_request(self, request: Any) -> Any:
        run = Run(request, next(self._numbers), self._seed, self._clock)
        for fault in self._faults:
            if (refused := await fault.before(run)) is not None:
                return refused
        if any(fault.needs_events for fault in self._faults):
            request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        response.stream = _Spoilt(response, self._faults, run)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Spoilt:
    """A response body that went through the faults."""

    def __init__(self, response: Any, faults: Sequence[Fault], run: Run) -> None:
        self._inner = response.stream
        self._steps: list[Any] = [_chunks(self._inner)]
        type_ = response.headers.get("content-type")
        has_events = framing(type_) == "sse" and not response.headers.get("content-encoding")
        for fault in faults:
            if has_events or not fault.needs_events:
                self._steps.append(fault.body(self._steps[-1], run))

    def __aiter__(self) -> _Spoilt:
        return self

    async def __anext__(self) -> bytes:
        data: bytes = await anext(self._steps[-1])
        return data

    async def aclose(self) -> None:
        for step in reversed(self._steps):
            await step.aclose()
        await self._inner.aclose()


async def _chunks(stream: Any) -> Chunks:
    async for chunk in stream:
        yield chunk


def _cut(outcome: str) -> UpstreamError:
    return UpstreamError("the connection was cut by a fault", outcome)


def _damaged(block: bytes, dice: random.Random) -> bytes:
    """A block whose JSON ends too early, which no JSON object survives."""
    payload = _PAYLOAD.search(block)
    if payload is None:
        return block
    start, stop = payload.span(1)
    return block[: dice.randint(start + 1, stop - 1)] + block[stop:]


def _within_characters(chunk: bytes, dice: random.Random) -> Iterator[int]:
    for character in _MULTIBYTE.finditer(chunk):
        yield dice.randint(character.start() + 1, character.end() - 1)


ALTERED: Mapping[str, Callable[[bytes, random.Random], Sequence[bytes]]] = {
    "drop": lambda block, dice: (),
    "repeat": lambda block, dice: (block, block),
    "corrupt": lambda block, dice: (_damaged(block, dice),),
}
