"""A recording with a fault: what the fault makes of the recorded answer, recorded again on a clock
that never waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import chain

import msgspec

from recorder.errors import UpstreamError
from recorder.model.events import SWITCHED, Recording, ResponseHead, as_sent
from recorder.proxy.app import address
from recorder.proxy.http.messages import (
    Request,
    RequestExtensions,
    Response,
    Transport,
    WholeUpload,
)
from recorder.proxy.recording import ExchangeRecorder, RecordingTransport
from recorder.proxy.routing import Origin
from recorder.recordings.memory import MemoryJournal
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher
from recorder.replay.pace import Clock
from recorder.replay.transport import ReplayTransport
from recorder.replay.websocket.live import own_handshake
from recorder.replay.websocket.transport import handshake_answer
from recorder.replay.websocket.turns import QueuedRequest, Turns
from recorder.wire.dialects.json_values import request_object
from recorder.wire.framing.websocket import encode_close, encode_frame
from recorder.wire.redaction.headers import redact_headers
from recorder.wire.turns import PROTOCOL, as_http, is_turn, stream_id_of
from recorder.wire.websocket_endpoint import OutgoingFrame

_MASK = bytes(4)  # of frames that nobody sends

GAP_S = 1.0
"""Before a connection breaks. Some clients lose what they have not read by then: without a pause it
would be chance how much that is, and so would be the verdict."""

_OF_THE_BODY = ("content-encoding", "content-length")  # as it was sent: a recorded one is decoded


class _SkippingClock(Clock):
    """A clock on which every wait is over at once: only the times that are recorded show it."""

    def __init__(self) -> None:
        self._time_ns = 0
        self.now_ns = lambda: self._time_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        self._time_ns = max(self._time_ns, deadline_ns)


class _Recorded:
    """A transport that answers with one recording, whatever is asked."""

    def __init__(self, recorded: Recording, replay: ReplayTransport) -> None:
        self._recorded, self._replay = recorded, replay

    async def handle_async_request(self, request: Request) -> Response:
        return await self._replay.replay(request, self._recorded)

    async def aclose(self) -> None:
        await self._replay.aclose()


async def recorded_again(
    recorded: Recording, forms: tuple[str, ...], speed: float | None
) -> list[Recording]:
    """Return what is recorded when a recording is played with faults: of a turn, its connection,
    then the turn.
    """
    if is_turn(recorded):
        return await _turn_with_faults(recorded, forms, speed)
    return [await with_faults(recorded, forms, speed)]


async def with_faults(
    recorded: Recording, forms: tuple[str, ...], speed: float | None
) -> Recording:
    """Return a recording with faults, and without any pause but theirs if `speed` is None.

    Its exchange has a new id. Without faults it is the recording at that speed.
    """
    clock, journal = _SkippingClock(), MemoryJournal()
    faulty = _faulty(recorded, forms, speed, clock)
    wall_ns = recorded.exchange.started_ns
    transport = RecordingTransport(faulty, journal, wall_ns=lambda: wall_ns, clock_ns=clock.now_ns)
    with contextlib.suppress(UpstreamError):  # which is recorded
        response = await transport.handle_async_request(_request(recorded))
        async for _ in response.stream:
            pass
    [made] = journal.recordings(recorded.exchange.session_id)
    return msgspec.structs.replace(made, name=recorded.name, number=recorded.number)


def _faulty(
    recorded: Recording, forms: tuple[str, ...], speed: float | None, clock: Clock
) -> FaultTransport:
    replay = _Recorded(recorded, ReplayTransport(Matcher([]), speed=speed, clock=clock))
    written = chain.from_iterable(map(_with_gap, forms))
    return FaultTransport(replay, [*map(parse_fault, written)], clock=clock)


def _with_gap(form: str) -> tuple[str, ...]:
    """Return a fault, and the pause before it if it breaks the connection: what is applied later
    strikes first.
    """
    kind, _, rest = form.partition("@")
    event = rest.partition(":")[0]
    return (form, f"stall@{event}:{GAP_S}s") if kind == "cut" else (form,)


class _RecordedTurn(Turns):
    """A connection with one turn, of which all that is sent is recorded, and nothing sent."""

    def __init__(self, request: Request, inner: Transport, recorder: ExchangeRecorder) -> None:
        super().__init__(request, inner)
        self._recorder = recorder

    async def play(self, payload: bytes) -> None:
        """Answer a request message; then the client leaves, if the server has not ended the
        connection.
        """
        self._recorder.client_chunk(encode_frame("text", payload, mask=_MASK))
        async with asyncio.TaskGroup() as tasks:
            await self._answer(QueuedRequest(payload, stream_id_of(request_object(payload))), tasks)
        self._recorder.client_chunk(b"")
        self._recorder.end("eof")

    async def _send(self, frame: OutgoingFrame) -> None:
        self._recorder.chunk(frame.encoded())

    async def _end(self, code: int | None, reason: str, *, reset: bool = False) -> None:
        if reset:
            self._recorder.end("upstream_reset", reason)
            return
        if code is not None:
            self._recorder.chunk(encode_close(code, reason))
        self._recorder.chunk(b"")
        self._recorder.end("eof")


async def _turn_with_faults(
    recorded: Recording, forms: tuple[str, ...], speed: float | None
) -> list[Recording]:
    clock, journal = _SkippingClock(), MemoryJournal()
    faulty = _faulty(as_http(recorded), forms, speed, clock)
    wall_ns = recorded.exchange.started_ns
    transport = RecordingTransport(faulty, journal, wall_ns=lambda: wall_ns, clock_ns=clock.now_ns)
    request = _handshake(recorded)
    accepted = handshake_answer(request, recorded)
    if isinstance(accepted, Response):
        raise TypeError("a handshake of our own has been refused")
    head = ResponseHead(SWITCHED, "Switching Protocols", redact_headers(accepted))
    recorder = transport.begin(request)
    recorder.response(lambda: head, b"")
    await _RecordedTurn(request, faulty, recorder).play(recorded.request_body)
    made, turn = journal.recordings(recorded.exchange.session_id)
    return [made, msgspec.structs.replace(turn, name=recorded.name, number=recorded.number)]


def _handshake(recorded: Recording) -> Request:
    asked = recorded.request
    headers = own_handshake(as_sent(asked.headers))
    origin = Origin(asked.upstream, asked.target, headers)
    url = address(f"http://{asked.upstream}.invalid")._replace(raw_path=asked.target.encode())
    extensions = RequestExtensions(recorder=origin, upgrade=PROTOCOL.encode())
    return Request("GET", url, headers, WholeUpload(b""), extensions)


def _request(recorded: Recording) -> Request:
    asked = recorded.request
    headers = as_sent(each for each in asked.headers if each[0].lower() not in _OF_THE_BODY)
    extensions = RequestExtensions(recorder=Origin(asked.upstream, asked.target, headers))
    url = address(f"http://{asked.upstream}.invalid")._replace(raw_path=asked.target.encode())
    return Request(asked.method, url, headers, WholeUpload(recorded.request_body), extensions)
