"""Replay: a transport that answers from recorded exchanges, byte for byte, at the times they came,
and as they ended.

Rules of this file:

* It never guesses: `recorder.replay.matching` chooses the answer of a request, and a miss is an
  error or goes to another transport.
* Bytes are the recorded ones but for client ids, which are the client's own
  (`recorder.replay.matching.client_ids`).
* What was cut is cut again: the last piece of a response that broke off is followed by an
  `UpstreamError` with its outcome, as from the real upstream.
* It knows no HTTP library, only the seam (`recorder.proxy.http.messages`).
* Waiting is its only I/O (`recorder.replay.pace`): on a clock that never suspends it runs without
  an event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import accumulate, repeat
from typing import NamedTuple, TypeVar

import msgspec

from recorder.errors import NotFoundError, UpstreamError, UsageError
from recorder.model.events import WHOLE, Header, Piece, Recording, ResponseHead, as_sent
from recorder.proxy.http import messages
from recorder.proxy.http.messages import IterableBody, IteratedBody, Response, Transport
from recorder.proxy.routing import Origin, Routes
from recorder.replay.matching import Elsewhere, HangUp, Match, Matcher, MatchRequest, Miss
from recorder.replay.matching.client_ids import renumbered, with_client_ids
from recorder.replay.pace import LOOP, Clock, LoopClock, Pace, Waiting
from recorder.wire.dialects import error_body
from recorder.wire.redaction.headers import COUNTED, redact_headers, redact_target
from recorder.wire.request_body import decoded_body
from recorder.wire.turns import as_block, is_prewarm, prewarm_answer
from recorder.wire.upstreams import COMPANIES_AT, HOSTS

log = logging.getLogger(__name__)

T = TypeVar("T")

MISS_HEADER = "x-recorder-miss"

MISS_STATUS = 400
"""Of the answer to a request that nothing answers. SDKs take it for final, and agents show what it
says, Claude Code after it has asked without its beta features. At 404, 409, 422 and 5xx they ask
again, for minutes, or blame the model: benchmarks/LABBOOK.md has the measurements."""

INLINE_BYTES = 64 * 2**10
"""The largest request body that is matched between two events of other streams: that takes two
milliseconds at most, and five if nothing answers it. A larger one is matched in a thread: one of 60
MiB takes seconds."""

_TWO_LINE_ENDS = re.compile(rb"(?>\r\n|\n|\r){2}\Z")
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Chunk(NamedTuple):
    """The bytes that are sent in one piece, and their time, in nanoseconds since the request."""

    t_ns: int
    data: bytes


class ReplayAnswer(NamedTuple):
    """The response to a request. Without `head` there is no response, only the failure."""

    head: ResponseHead | None
    head_ns: int
    chunks: Sequence[Chunk]
    end_ns: int
    failure: UpstreamError | None  # if it ends before its end


def answer(
    recorded: Recording,
    after: int | None = None,
    *,
    reads: bool = True,
    hang_up: HangUp | None = None,
) -> ReplayAnswer:
    """Return a recorded exchange as an answer: in the reads that it arrived in, or frame by frame.

    With `after`, only the events with a greater sequence number, the first of them at once. A turn
    that ended with its connection has the Close frame of that.
    """
    head = recorded.response
    if head is not None:
        # A value that was not kept would be taken for one.
        kept = [(name, value) for name, value in recorded.headers if not COUNTED.fullmatch(value)]
        head = msgspec.structs.replace(head, headers=kept)
    failure = _failure(recorded)
    if failure is not None and hang_up is not None and hang_up.code is not None:
        failure.close = hang_up.code, hang_up.reason
    if after is None:
        chunks = (_as_read(recorded) if reads else None) or [
            Chunk(piece.t_ns, piece.raw) for piece in recorded.pieces
        ]
        last_ns = chunks[-1].t_ns if chunks else recorded.head_ns
        return ReplayAnswer(head, recorded.head_ns, chunks, max(last_ns, recorded.end_ns), failure)
    rest = [
        chunk
        for chunk, number in _numbered(recorded.pieces)
        if number is not None and number > after
    ]
    first_ns = rest[0].t_ns if rest else recorded.end_ns
    chunks = [Chunk(max(0, chunk.t_ns - first_ns), chunk.data) for chunk in rest]
    return ReplayAnswer(head, 0, chunks, max(0, recorded.end_ns - first_ns), failure)


def _as_read(recorded: Recording) -> list[Chunk] | None:
    """Return the body in the pieces that were read; `None` if those are unknown: it was coded, or
    not all kept.
    """
    end = recorded.end
    if end is None or (
        (end.coding is not None or end.undecoded is not None) and not recorded.is_coded
    ):
        return None
    body = recorded.body
    ends = [0, *accumulate(size for _, size in recorded.reads)]
    if ends[-1] != len(body):
        return None
    starts = zip(recorded.reads, ends, ends[1:], strict=False)
    return [Chunk(t_ns, body[start:stop]) for (t_ns, _), start, stop in starts]


def _numbered(pieces: Sequence[Piece]) -> Iterator[tuple[Chunk, int | None]]:
    """Yield pieces with the sequence number of their event; one without has that of the event
    before.

    An event in parts has its number on the last of them.
    """
    number: int | None = None
    parts: list[Chunk] = []
    for piece in pieces:
        parts.append(Chunk(piece.t_ns, piece.raw))
        ending = b"".join(part.data[-4:] for part in parts[-4:])
        if piece.sequence_number is None and not _TWO_LINE_ENDS.search(ending):
            continue
        number = piece.sequence_number if piece.sequence_number is not None else number
        yield from zip(parts, repeat(number))
        parts.clear()
    yield from zip(parts, repeat(number))


def _failure(recorded: Recording) -> UpstreamError | None:
    if recorded.end is None:
        return UpstreamError("the recording goes no further", "truncated")
    if recorded.end.outcome in WHOLE:
        return None
    message = recorded.end.error or f"the recorded exchange ended here: {recorded.end.outcome}"
    return UpstreamError(message, recorded.end.outcome)


def _response(head: ResponseHead, chunks: IterableBody) -> Response:
    reason, headers = head.reason.encode("latin-1"), as_sent(head.headers)
    return Response(head.status, reason, headers, IteratedBody(chunks), head.http_version)


async def _each(chunks: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk


def whole(status: int, body: bytes, headers: Sequence[Header] = ()) -> Response:
    """Return a complete JSON response."""
    fields = [("content-type", "application/json"), ("content-length", str(len(body))), *headers]
    return _response(ResponseHead(status, _PHRASES.get(status, ""), fields), _each([body]))


class ReplayTransport:
    """Answers each request with the recorded exchange that matches it.

    Where none does, `otherwise` answers: another transport, an error of that status that lists the
    recordings, or with `None` a `NotFoundError` is raised.
    """

    def __init__(
        self,
        matcher: Matcher,
        *,
        speed: float | None = 1.0,
        reads: bool = True,
        otherwise: Transport | int | None = MISS_STATUS,
        clock: Clock = LOOP,
    ) -> None:
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(
                f"{speed} is not a speed: give a number over 0, or None for no pauses."
            )
        self.matcher, self.speed, self.clock = matcher, speed, clock
        self._otherwise, self._reads = otherwise, reads

    @property
    def forwards(self) -> bool:
        """Return whether another transport answers what was not recorded."""
        return not isinstance(self._otherwise, int | None)

    async def handle_async_request(self, request: messages.Request) -> Response:
        waiting = Waiting(self.clock, request)
        found = await self.find(request)
        if isinstance(found, Match):
            return await self.play(found, waiting)
        if is_prewarm(found.request.target, found.request.body):
            return prewarmed(found.request.body)
        return await self.missed(request, found)

    async def find(self, request: messages.Request) -> Match | Miss:
        """Return what the matcher says to a request: a recording, marked as used, or why there is
        none.
        """
        return await self._judged(request, self.matcher.match)

    async def replay(self, request: messages.Request, recorded: Recording) -> Response:
        """Return the response of a recorded exchange, whatever the request asks for."""
        return await self._replay(answer(recorded, reads=self._reads), Waiting(self.clock, request))

    async def note(self, request: messages.Request, how: Elsewhere, message: str) -> None:
        """Note in the matcher that a request was answered elsewhere: it counts as a request
        nevertheless.
        """
        await self._judged(request, lambda query: self.matcher.note(query, how, message))

    async def _judged(self, request: messages.Request, judge: Callable[[MatchRequest], T]) -> T:
        """Match a request; a large body in a thread, if there is an event loop.

        A coded body may be large.
        """
        body = await request.aread()
        is_large = len(body) > INLINE_BYTES or "content-encoding" in request.headers
        if is_large and isinstance(self.clock, LoopClock):
            return await asyncio.to_thread(lambda: judge(match_request(request, body)))
        return judge(match_request(request, body))

    async def _with_client_ids(self, found: Match) -> Recording:
        """Return the exchange with the ids of the current client; a large one is edited in a
        thread.
        """
        recorded, ids = found.recorded, found.client_ids
        if found.renumbered is not None:
            recorded = renumbered(recorded, found.renumbered)
        is_large = ids and len(recorded.body) > INLINE_BYTES
        if is_large and isinstance(self.clock, LoopClock):
            return await asyncio.to_thread(with_client_ids, recorded, ids)
        return with_client_ids(recorded, ids)

    async def aclose(self) -> None:
        if not isinstance(self._otherwise, int | None):
            await self._otherwise.aclose()

    async def play(self, found: Match, waiting: Waiting) -> Response:
        """Return the response of the recording that was found for a request."""
        end, request = found.recorded.end, found.recorded.request
        if end is not None and end.gap_chunks:  # for users who allowed gaps
            what = f"{request.method} {request.target} (exchange {found.recorded.exchange.exchange_id})"
            log.warning(
                "the answer to %s has a gap: %d bytes of it were not kept", what, end.gap_bytes
            )
        recorded = await self._with_client_ids(found)
        made = answer(recorded, found.after, reads=self._reads, hang_up=found.hang_up)
        response = await self._replay(made, waiting)
        if found.hang_up is not None and made.failure is None:
            after_s = self._seconds(found.hang_up.after_ns)
            response.extensions["hang_up"] = (after_s, found.hang_up.code, found.hang_up.reason)
        if found.followed_by:
            response.extensions["followed_by"] = [
                (self._seconds(after_ns), payload) for after_ns, payload in found.followed_by
            ]
        return response

    async def _replay(self, answer: ReplayAnswer, waiting: Waiting) -> Response:
        pace = Pace(waiting, self.speed)
        if answer.head is None:
            await pace.until(answer.end_ns)
            raise answer.failure or UpstreamError("there was no response", "truncated")
        await pace.until(answer.head_ns)
        return _response(answer.head, _body(answer, pace))

    def _seconds(self, recorded_ns: int) -> float:
        return recorded_ns / 1e9 / self.speed if self.speed is not None else 0.0

    async def missed(self, request: messages.Request, miss: Miss) -> Response:
        """Return the answer to a request that nothing recorded answers.

        Raises `NotFoundError` if that is wanted.
        """
        if self._otherwise is None:
            raise NotFoundError(miss.message)
        if not isinstance(self._otherwise, int):
            return await self._otherwise.handle_async_request(request)
        missed = miss.request
        body = error_body(
            *(missed.method, missed.target, missed.upstream, self._otherwise, miss.message),
            code="recording_not_found",
        )
        return whole(self._otherwise, body, [(MISS_HEADER, "1")])


def prewarmed(body: bytes) -> Response:
    """Return the answer to a prewarm of which there is no recording."""
    head = ResponseHead(200, "OK", [("content-type", "text/event-stream")])
    return _response(head, _each(map(as_block, prewarm_answer(body))))


async def _body(answer: ReplayAnswer, pace: Pace) -> AsyncGenerator[bytes, None]:
    for chunk in answer.chunks:
        await pace.until(chunk.t_ns)
        yield chunk.data
    await pace.until(answer.end_ns)
    if answer.failure is not None:
        raise answer.failure


def match_request(request: messages.Request, body: bytes) -> MatchRequest:
    """Return a request as it would have been recorded, with its body as it was sent."""
    origin = origin_of(request)
    headers = redact_headers(origin.headers)
    body, _ = decoded_body(headers, body)
    target = redact_target(origin.target)
    # It names its upstream if it came through a proxy, or goes to a host of the public APIs.
    is_known = isinstance(request.extensions.get("recorder"), Origin) or request.url.host in HOSTS
    return MatchRequest(
        request.method, target, origin.upstream, headers, body, upstream_is_known=is_known
    )


def origin_of(request: messages.Request) -> Origin:
    """Return the request as it was before it was forwarded; if it came through no proxy, as it
    would have been.
    """
    origin = request.extensions.get("recorder")
    if isinstance(origin, Origin):
        return origin
    target = request.url.raw_path.decode("ascii")
    upstream = COMPANIES_AT.get(request.url.host)
    if upstream is None:
        known = [(name.lower(), value) for name, value in request.headers.raw]
        try:
            upstream = Routes(any_path=True).route(target, known).upstream
        except UsageError:
            upstream = request.url.host
    return Origin(upstream, target, request.headers.raw)
