"""Replay: the recorded bytes at the recorded times, ended as recorded, and never a guess."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recorder.errors import NotFoundError, UpstreamError
from recorder.model.events import Outcome, Piece, Recording
from recorder.proxy.http import messages
from recorder.replay.matching import Match, Matcher, MatchRequest, Miss
from recorder.replay.pace import THREAD
from recorder.replay.transport import INLINE_BYTES, MISS_HEADER, ReplayTransport, answer, whole
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.recording import recording_of
from tests.support.facts import MS, captured
from tests.support.proxy import request_for
from tests.unit.replay.test_pace import TestClock

ASKED = b'{"model":"m","input":"hi","stream":true}'
EVENT = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
EVENT += b'"delta":"%d","sequence_number":%d}\n\n'
FRAMES = [EVENT % (number, number) for number in range(20)]
BODY = b"".join(FRAMES)
ENDS = list(itertools.accumulate(map(len, FRAMES)))


def stream(body: bytes = BODY, **how: Any) -> Recording:
    """A recorded stream: a millisecond for the head, then one for each frame, unless other `cuts`
    are given.
    """
    return recording_of(*captured(body, request=ASKED, **{"cuts": ENDS, **how}))


def request(
    method: str = "POST",
    target: str = "/v1/responses",
    host: str = "api.openai.com",
    body: bytes = ASKED,
    **more: Any,
) -> messages.Request:
    return request_for(method, f"https://{host}{target}", content=body, **more)


async def replayed(
    transport: ReplayTransport, clock: TestClock, asked: messages.Request | None = None
) -> tuple[Any, list[tuple[int, bytes]], str | None]:
    """The response, its chunks with their times since the request, and the outcome it broke off
    with.
    """
    started_ns = clock.time_ns
    response = await transport.handle_async_request(asked or request())
    chunks: list[tuple[int, bytes]] = []
    outcome = None
    try:
        async for chunk in response.stream:
            chunks.append((clock.time_ns - started_ns, chunk))
    except UpstreamError as error:
        outcome = error.outcome
    await response.stream.aclose()
    return response, chunks, outcome


def replaying(*recordings: Recording, **how: Any) -> tuple[ReplayTransport, TestClock]:
    clock = TestClock()
    return ReplayTransport(Matcher(recordings), clock=clock, **how), clock


async def test_each_chunk_comes_when_it_came() -> None:
    response, chunks, outcome = await replayed(*replaying(stream()))
    assert chunks == [((number + 2) * MS, frame) for number, frame in enumerate(FRAMES)]
    assert (response.status_code, response.headers.get("Content-Type"), outcome) == (
        200,
        "text/event-stream",
        None,
    )


async def test_the_head_comes_when_it_came_and_so_does_the_end() -> None:
    transport, clock = replaying(stream())
    started_ns = clock.time_ns
    await transport.handle_async_request(request())
    assert clock.time_ns - started_ns == MS
    transport, clock = replaying(stream())
    started_ns = clock.time_ns
    await replayed(transport, clock)
    assert clock.time_ns - started_ns == stream().end_ns


async def test_at_top_speed_nothing_waits() -> None:
    _, chunks, _ = await replayed(*replaying(stream(), speed=None))
    assert [t_ns for t_ns, _ in chunks] == [0] * len(FRAMES)


@given(st.lists(st.integers(1, len(BODY) - 1), unique=True))
async def test_chunks_are_the_reads_that_were_recorded(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(BODY)]
    _, chunks, _ = await replayed(*replaying(stream(cuts=cuts)))
    assert [chunk for _, chunk in chunks] == [
        BODY[start:stop] for start, stop in itertools.pairwise(places)
    ]
    assert [t_ns for t_ns, _ in chunks] == [(number + 2) * MS for number in range(len(places) - 1)]


@given(st.lists(st.integers(1, len(BODY) - 1), unique=True))
async def test_frame_by_frame_each_comes_with_its_last_byte(cuts: list[int]) -> None:
    how = stream(cuts=cuts)
    _, chunks, _ = await replayed(*replaying(how, reads=False))
    assert chunks == [(piece.t_ns, piece.raw) for piece in how.pieces]
    assert [chunk for _, chunk in chunks] == FRAMES


def test_reads_that_are_no_pieces_of_the_body_are_not_used() -> None:
    coded = msgspec.structs.replace(stream(), reads=((5, 3),))
    assert [chunk.data for chunk in answer(coded).chunks] == FRAMES


def test_after_a_cut_at_any_event_the_rest_is_the_same_bytes_and_comes_at_once() -> None:
    for cut in range(len(FRAMES)):
        rest = answer(stream(), cut)
        assert [chunk.data for chunk in rest.chunks] == FRAMES[cut + 1 :]
        assert [chunk.t_ns for chunk in rest.chunks] == [
            number * MS for number in range(len(FRAMES) - cut - 1)
        ]
        assert rest.head_ns == 0


def test_an_event_in_parts_is_resumed_whole() -> None:
    large = b'data: {"type":"x","delta":"%b","sequence_number":20}\n\n' % (b"y" * 3 * FRAME_LIMIT)
    how = stream(BODY + large + b": ping\n\n")
    assert len(how.pieces) > len(FRAMES) + 2
    assert b"".join(chunk.data for chunk in answer(how, 19).chunks) == large + b": ping\n\n"
    assert not answer(how, 20).chunks


def test_what_has_no_number_goes_with_the_event_before() -> None:
    pieces = (
        Piece(0, b"data: 1\n\n", 1),
        Piece(1, b": a\n\n"),
        Piece(2, b"data: 2\n\n", 2),
        Piece(3, b": b\n\n"),
    )
    how = msgspec.structs.replace(stream(), pieces=pieces)
    assert [chunk.data for chunk in answer(how, 1).chunks] == [b"data: 2\n\n", b": b\n\n"]


@pytest.mark.parametrize(
    "outcome", ["truncated", "upstream_reset", "timeout", "client_disconnect", "recorder_crash"]
)
async def test_what_broke_off_or_goes_no_further_breaks_off_after_its_last_byte(
    outcome: Outcome,
) -> None:
    _, chunks, broken = await replayed(*replaying(stream(BODY[:-3], outcome=outcome)))
    assert (b"".join(chunk for _, chunk in chunks), broken) == (BODY[:-3], outcome)
    assert (await replayed(*replaying(msgspec.structs.replace(stream(), end=None))))[
        2
    ] == "truncated"


async def test_without_a_response_there_is_only_the_failure() -> None:
    end = stream().end
    assert end is not None
    end = msgspec.structs.replace(end, outcome="upstream_unreachable", error="connection refused")
    transport, _ = replaying(
        msgspec.structs.replace(stream(), response=None, pieces=(), reads=(), end=end)
    )
    with pytest.raises(UpstreamError, match="connection refused") as raised:
        await transport.handle_async_request(request())
    assert raised.value.outcome == "upstream_unreachable"


async def test_values_that_were_redacted_are_not_sent() -> None:
    how = stream()
    assert how.response is not None
    headers = [("Set-Cookie", "REDACTED (12 bytes)"), ("retry-after", "2")]
    how = msgspec.structs.replace(
        how, response=msgspec.structs.replace(how.response, headers=headers)
    )
    assert (await replayed(*replaying(how)))[0].headers.raw == [(b"retry-after", b"2")]


LOCAL = "localhost:1234"


def of_upstream(name: str, body: bytes = BODY, target: str = "/v1/responses") -> Recording:
    how = stream(body)
    return msgspec.structs.replace(
        how, request=msgspec.structs.replace(how.request, upstream=name, target=target)
    )


@pytest.mark.parametrize(
    ("recorded", "host", "status"),
    [
        *(
            ([of_upstream("local", target=f"{path}/responses")], LOCAL, 200)
            for path in ("/v1", "/local/v1", "/local")
        ),
        # a host of the public APIs is no other upstream
        ([of_upstream("local")], "api.openai.com", 400),
        # of several that it may be, none is guessed
        ([of_upstream("one"), of_upstream("two")], LOCAL, 400),
    ],
)
async def test_a_host_that_nobody_named_may_be_the_only_recorded_upstream(
    recorded: list[Recording], host: str, status: int
) -> None:
    transport, clock = replaying(*recorded)
    assert (await replayed(transport, clock, request(host=host)))[0].status_code == status


async def test_the_host_of_a_company_is_that_company_or_what_it_was_recorded_as() -> None:
    bodies = {name: b'data: {"type":"%b"}\n\n' % name.encode() for name in ("groq", "openai")}
    transport, clock = replaying(*(of_upstream(*each) for each in bodies.items()))
    [(_, data)] = (await replayed(transport, clock, request(host="api.groq.com")))[1]
    assert data == bodies["groq"]
    transport, clock = replaying(of_upstream("openai"))
    assert (await replayed(transport, clock, request(host="api.groq.com")))[0].status_code == 200


async def test_of_several_upstreams_it_is_the_one_that_the_path_tells() -> None:
    bodies = {name: b'data: {"type":"%b"}\n\n' % name.encode() for name in ("local", "openai")}
    transport, clock = replaying(*(of_upstream(*each) for each in bodies.items()))
    [(_, data)] = (await replayed(transport, clock, request(host=LOCAL)))[1]
    assert data == bodies["openai"]


@pytest.mark.parametrize(("upstreams", "status"), [(("local",), 200), (("one", "two"), 400)])
async def test_a_response_of_any_upstream_is_found_by_its_id_if_only_one_made_it(
    upstreams: tuple[str, ...], status: int
) -> None:
    made = (
        b'data: {"type":"response.created","response":{"id":"resp_1"},"sequence_number":0}\n\n'
        + BODY
    )
    transport, clock = replaying(*(of_upstream(name, made) for name in upstreams))
    asked = request("GET", "/v1/responses/resp_1?stream=true&starting_after=3", LOCAL, b"")
    assert (await replayed(transport, clock, asked))[0].status_code == status


class Watched(Matcher):
    """Says in which thread it was asked."""

    thread = 0

    def match(self, request: MatchRequest) -> Match | Miss:
        self.thread = threading.get_ident()
        return super().match(request)


@pytest.mark.parametrize(("size", "beside"), [(INLINE_BYTES, False), (INLINE_BYTES + 1, True)])
async def test_a_large_body_is_matched_beside_the_loop(size: int, beside: bool) -> None:
    matcher = Watched([stream()])
    await ReplayTransport(matcher).handle_async_request(request(body=b"x" * size))
    assert (matcher.thread != threading.get_ident()) is beside


async def test_a_coded_body_is_matched_beside_the_loop_as_what_it_says() -> None:
    matcher = Watched([stream()])
    asked = request(body=gzip.compress(ASKED), headers={"content-encoding": "gzip"})
    assert (
        await ReplayTransport(matcher, speed=None).handle_async_request(asked)
    ).status_code == 200
    assert matcher.thread != threading.get_ident()


def test_without_an_event_loop_a_large_body_is_matched_at_once() -> None:
    matcher = Watched([stream()])
    asking = ReplayTransport(matcher, clock=THREAD).handle_async_request(
        request(body=b"x" * 2 * INLINE_BYTES)
    )
    with pytest.raises(StopIteration):
        asking.send(None)
    assert matcher.thread == threading.get_ident()


async def test_an_answer_with_a_gap_says_so(caplog: pytest.LogCaptureFixture) -> None:
    end = stream().end
    assert end is not None
    whole, gappy = (
        stream(),
        msgspec.structs.replace(stream(), end=replace(end, gap_chunks=2, gap_bytes=345)),
    )
    await replayed(*replaying(whole))
    assert not caplog.messages
    await replayed(*replaying(gappy))
    assert [
        "has a gap: 345 bytes of it were not kept" in message for message in caplog.messages
    ] == [True]


async def test_a_failure_has_the_recorded_message() -> None:
    end = stream().end
    assert end is not None
    broken = msgspec.structs.replace(
        stream(), end=replace(end, outcome="upstream_reset", error="broke: ECONNRESET")
    )
    transport, _ = replaying(broken)
    response = await transport.handle_async_request(request())
    with pytest.raises(UpstreamError, match=r"^broke: ECONNRESET$"):
        async for _ in response.stream:
            pass


SHAPES = {
    "openai": ("api.openai.com", "/v1/responses"),
    "openai models": ("api.openai.com", "/v1/models"),
    "anthropic": ("api.anthropic.com", "/v1/messages"),
    "gemini": ("generativelanguage.googleapis.com", "/v1beta/models/m:generateContent"),
    "unknown host": ("127.0.0.1:9", "/v1/messages"),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_miss_is_an_error_in_the_provider_s_shape(shape: str) -> None:
    host, target = SHAPES[shape]
    transport, clock = replaying(stream())
    response, chunks, _ = await replayed(
        transport, clock, request(target=target, host=host, body=b"{}")
    )
    error = msgspec.json.decode(b"".join(chunk for _, chunk in chunks))
    assert (response.status_code, response.headers.get(MISS_HEADER)) == (400, "1")
    assert error["error"]["message"]
    kind = "INVALID_ARGUMENT" if shape == "gemini" else "invalid_request_error"
    assert error["error"].get("status", error["error"].get("type")) == kind


async def test_a_miss_may_raise() -> None:
    transport, _ = replaying(otherwise=None)
    with pytest.raises(NotFoundError):
        await transport.handle_async_request(request())


class Other:
    """A transport that answers with the request body."""

    closed = False

    async def handle_async_request(self, request: messages.Request) -> messages.Response:
        return whole(200, b"".join([chunk async for chunk in request.stream]))

    async def aclose(self) -> None:
        self.closed = True


async def test_a_miss_may_go_to_another_transport_with_its_body() -> None:
    other = Other()
    transport, _ = replaying(otherwise=other)

    async def body() -> Any:
        yield b"bo"
        yield b"dy"

    asked = request_for("POST", "https://api.openai.com/v1/responses", content=body())
    response = await transport.handle_async_request(asked)
    assert [chunk async for chunk in response.stream] == [b"body"]
    await transport.aclose()
    assert other.closed


async def test_a_client_that_waits_no_longer_gets_its_own_timeout() -> None:
    silent = msgspec.structs.replace(stream(), end_ns=700_000 * MS)
    asked = request(extensions={"timeout": {"read": 600.0}})
    transport, clock = replaying(silent)
    started_ns = clock.time_ns
    _, chunks, outcome = await replayed(transport, clock, asked)
    assert (len(chunks), outcome) == (len(FRAMES), "timeout")
    assert clock.time_ns - started_ns == chunks[-1][0] + 600_000 * MS


@pytest.mark.parametrize("speed", [None, 1.0])
async def test_others_have_their_turn_while_nothing_waits(speed: float | None) -> None:
    burst = msgspec.structs.replace(
        stream(), pieces=tuple(Piece(0, frame) for frame in FRAMES), reads=(), end_ns=0
    )
    transport = ReplayTransport(Matcher([burst]), speed=speed)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        response = await transport.handle_async_request(request())
        seen = [turns async for _ in response.stream]
        counting.cancel()
    assert len(set(seen)) == len(FRAMES)


@pytest.mark.parametrize("speed", [0, -1, float("inf"), float("nan")])
def test_what_is_no_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="is not a speed"):
        replaying(speed=speed)
