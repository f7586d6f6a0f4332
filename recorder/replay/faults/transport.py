"""Faults: a transport that wraps another one and does to its responses what networks and providers
do.

Several apply in the order given. Other files have the kinds (`recorder.replay.faults.kinds`) and
the notation (`recorder.replay.faults.forms`).

Rules of this file:

* Same seed, same run: chance comes from a generator seeded with the seed and the number of the
  request. The transport's own chunking does not count: faults at events see events, whole ones.
* Events are those of event streams. Another body has none: what strikes before the first event, at
  a time or at bytes strikes it too, what strikes at an event does not. The wrapped transport is
  asked for a body that is not content-coded, so that there are events to see.
* Over WebSocket a message is an event, and each request message a request
  (`recorder.replay.websocket`).
* Which faults have done nothing is known; and a replay knows of the requests that a fault has
  answered in its place.
"""

from __future__ import annotations

import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec

from recorder.proxy.http.messages import BodyStream, IteratedBody, Request, Response, Transport
from recorder.replay.pace import LOOP, Clock, Waiting
from recorder.replay.transport import ReplayTransport
from recorder.wire.dialects import by_path
from recorder.wire.framing import SSE, Framing
from recorder.wire.framing.sse import Piece
from recorder.wire.websocket_endpoint import OutgoingFrame

Chunks = AsyncGenerator[bytes, None]


class EventBlock(NamedTuple):
    """The bytes of one event of a stream, or of a comment; `event` counts the events from 1,
    comments none.
    """

    raw: bytes
    event: int | None


async def blocks(chunks: AsyncIterable[bytes], framing: Framing = SSE) -> AsyncIterator[EventBlock]:
    """Yield the blocks of an event stream, whole, with all that arrived when it breaks off."""
    splitter, number = framing.splitter(), 0
    parts: list[bytes] = []

    def completed(pieces: Iterable[Piece]) -> Iterator[EventBlock]:
        nonlocal number
        for piece in pieces:
            parts.append(piece.raw)
            if piece.kind == "part" and not piece.complete:
                continue
            number += piece.kind in ("frame", "part")
            yield EventBlock(b"".join(parts), number if piece.kind in ("frame", "part") else None)
            parts.clear()

    failure: Exception | None = None
    try:
        async for chunk in chunks:
            for block in completed(splitter.feed(chunk)):
                yield block
    except Exception as error:  # of whatever is wrapped
        failure = error
    for block in completed(splitter.close()):
        yield block
    if parts:
        yield EventBlock(b"".join(parts), None)
    if failure is not None:
        raise failure


async def in_place(blocks: AsyncIterable[EventBlock], framing: Framing) -> Chunks:
    """Yield the bytes of blocks that stand elsewhere than they did: the whole of them is framed as
    before.
    """
    is_first = True
    async for block in blocks:
        stands_apart = block.event is not None or is_first
        yield framing.placed(block.raw, is_first) if stands_apart else block.raw
        is_first = False


class Run:
    """One request on its way through the faults; `struck` is called with the faults that had an
    effect.
    """

    def __init__(
        self,
        request: Request,
        number: int,
        seed: int,
        clock: Clock,
        struck: Callable[[Fault], None],
    ) -> None:
        self.request, self.number = request, number  # 1 for the first that the transport is asked
        self.dice = random.Random(f"{seed}/{number}")
        self.waiting = Waiting(clock, request)
        self.framing = SSE  # of the response
        self.struck = struck


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes wrong."""

    form: str = ""  # as it was written

    @property
    def needs_events(self) -> bool:
        """True if it does nothing to a body that has none."""
        return False

    @property
    def unmet(self) -> str:
        """The condition that did not occur, where the fault has done nothing."""
        return "there was no request for it"

    async def before(self, run: Run) -> Response | None:
        """Return a response in place of that of the wrapped transport, or `None`."""
        return None

    def body(self, chunks: Chunks, run: Run) -> Chunks:
        """Return the response body, changed."""
        return chunks

    def frames(
        self, number: int, frames: Sequence[OutgoingFrame], run: Run
    ) -> Sequence[OutgoingFrame]:
        """Return the WebSocket frames of a message, changed; `number` counts the messages of a
        response from 1.
        """
        return frames


class FaultTransport:
    """Applies the faults to each request that passes through `inner`, and to its response."""

    def __init__(
        self, inner: Transport, faults: Sequence[Fault], *, seed: int = 0, clock: Clock = LOOP
    ) -> None:
        self._inner, self._faults, self._seed, self._clock = inner, faults, seed, clock
        self._numbers = count(1)
        self._struck: set[Fault] = set()

    @property
    def unused(self) -> list[str]:
        """The forms of the faults that have done nothing so far."""
        return [fault.form or repr(fault) for fault in self.idle()]

    def idle(self) -> list[Fault]:
        """Return the faults that have done nothing so far."""
        return [fault for fault in self._faults if fault not in self._struck]

    async def handle_async_request(self, request: Request) -> Response:
        run = Run(request, next(self._numbers), self._seed, self._clock, self._struck.add)
        for fault in self._faults:
            if (refused := await fault.before(run)) is not None:
                if isinstance(self._inner, ReplayTransport):
                    await self._inner.note(
                        request, "fault", f"The fault {fault.form} has answered it."
                    )
                return refused
        if any(fault.needs_events for fault in self._faults):
            request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        response.stream = IteratedBody(_FaultyChunks(response, self._faults, run))
        response.extensions["frames"] = partial(self._frames, run)
        return response

    def _frames(
        self, run: Run, number: int, frames: Sequence[OutgoingFrame]
    ) -> Sequence[OutgoingFrame]:
        for fault in self._faults:
            frames = fault.frames(number, frames, run)
        return frames

    async def aclose(self) -> None:
        await self._inner.aclose()


class _FaultyChunks:
    """The chunks of a response body that went through the faults."""

    def __init__(self, response: Response, faults: Sequence[Fault], run: Run) -> None:
        self._inner = response.stream
        self._steps: list[Chunks] = [_chunks(self._inner)]
        path, content_type = (
            run.request.url.raw_path.decode("ascii"),
            response.headers.get("content-type") or "",
        )
        dialect = by_path(run.request.method, path)
        framing = dialect.framing_of(path, response.status_code, [("content-type", content_type)])
        has_events = framing is not None and not response.headers.get("content-encoding")
        run.framing = framing or SSE
        for fault in faults:
            if has_events or not fault.needs_events:
                self._steps.append(fault.body(self._steps[-1], run))

    def __aiter__(self) -> _FaultyChunks:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._steps[-1])

    async def aclose(self) -> None:
        for step in reversed(self._steps):
            await step.aclose()
        await self._inner.aclose()


async def _chunks(stream: BodyStream) -> Chunks:
    async for chunk in stream:
        yield chunk
