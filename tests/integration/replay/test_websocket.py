"""Replay over WebSocket, as `recorder mock` serves it: a real client, server, proxy, replay."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
import websockets
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from recorder.model.events import CloseRecord, Recording, ResponseHead
from recorder.proxy.app import Proxy
from recorder.proxy.routing import Routes, Upstream
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher
from recorder.replay.transport import ReplayTransport
from recorder.replay.websocket.transport import WebSocketTransport
from recorder.replay.websocket.turns import QUEUED
from recorder.wire.framing.websocket import encode_frame
from tests.support.event_loop import DEADLINE_S
from tests.support.facts import MS
from tests.support.proxy import served
from tests.support.recordings import ask, record
from tests.support.websocket import SWITCHED, answer, connection, end_of, message, turn

HELLO = {"model": "m", "input": "hi"}


class Mock:
    """A running replay."""

    def __init__(self, port: int, matcher: Matcher, faults: FaultTransport | None) -> None:
        self.port, self.matcher, self.faults = port, matcher, faults

    @asynccontextmanager
    async def connect(
        self, path: str = "/v1/responses", **options: Any
    ) -> AsyncIterator[ClientConnection]:
        url = f"ws://127.0.0.1:{self.port}{path}"
        async with websockets.connect(url, proxy=None, ping_interval=None, **options) as client:
            yield client

    @property
    def hows(self) -> list[str]:
        return [each.how for each in self.matcher.seen()]

    @property
    def unused(self) -> list[str]:
        return [each.exchange.exchange_id for each in self.matcher.unused()]


@asynccontextmanager
async def mocked(
    *recordings: Recording,
    faults: Sequence[str] = (),
    speed: float | None = None,
    strict: bool = True,
    upstreams: Sequence[Upstream] = (),
) -> AsyncIterator[Mock]:
    matcher = Matcher(recordings, strict=strict)
    replay = ReplayTransport(matcher, speed=speed)
    faulty = FaultTransport(replay, [parse_fault(each) for each in faults]) if faults else None
    proxy = Proxy(WebSocketTransport(faulty or replay, replay), Routes(upstreams, any_path=True))
    async with served(proxy, proxy.shutdown) as server:
        yield Mock(server.port, matcher, faulty)


def request(body: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"type": "response.create", **body, **fields})


async def received(client: ClientConnection, last: str = "response.completed") -> list[str]:
    """The messages up to one of that type."""
    messages: list[str] = []
    async with asyncio.timeout(DEADLINE_S):
        while not messages or json.loads(messages[-1])["type"] not in (last, "error"):
            messages.append(str(await client.recv()))
    return messages


async def asked(client: ClientConnection, body: dict[str, Any], **fields: Any) -> list[str]:
    await client.send(request(body, **fields))
    return await received(client)


async def close_of(client: ClientConnection) -> tuple[int | None, str, int]:
    """The code and the reason of the Close that came, and how many messages came before it."""
    count = 0
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await client.recv()
            except ConnectionClosed as ended:
                return (
                    (ended.rcvd.code, ended.rcvd.reason, count) if ended.rcvd else (None, "", count)
                )
            count += 1


def texts(messages: Sequence[bytes]) -> list[str]:
    return [each.decode() for each in messages]


def over_http(body: dict[str, Any], *payloads: bytes, more: Sequence[bytes] = ()) -> Recording:
    """A request over HTTP, and its stream."""
    blocks = [b"event: x\ndata: %b\n\n" % payload for payload in payloads]
    return msgspec.structs.replace(
        record(ask({**body, "stream": True}), *blocks, *more), end=end_of()
    )


# -- turns


async def test_a_turn_is_answered_with_the_recorded_messages() -> None:
    messages = answer("resp_1")
    async with mocked(connection(), turn(HELLO, *messages)) as mock, mock.connect() as client:
        assert client.response is not None
        assert client.response.headers["openai-model"] == "m-1"
        assert await asked(client, HELLO) == texts(messages)
    assert (mock.hows, mock.unused) == (["exact"], [])


async def test_a_turn_answers_a_post_as_a_stream() -> None:
    messages = answer("resp_1")
    async with mocked(turn(HELLO, *messages)) as mock, httpx.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{mock.port}/v1/responses"
        response = await client.post(url, json={**HELLO, "stream": True})
    assert response.headers["content-type"] == "text/event-stream"
    assert "sec-websocket-accept" not in response.headers
    blocks = response.content.split(b"\n\n")[:-1]
    assert blocks == [
        b"event: %b\ndata: %b" % (json.loads(each)["type"].encode(), each) for each in messages
    ]


async def test_a_recorded_stream_answers_a_message() -> None:
    messages = answer("resp_1")
    recorded = over_http(HELLO, *messages, more=[b": ping\n\n", b"data: [DONE]\n\n"])
    async with mocked(recorded) as mock, mock.connect() as client:
        assert await asked(client, HELLO) == texts(messages)
    assert (mock.hows, mock.unused) == (["exact"], [])


async def test_messages_come_when_they_came_counted_from_the_request() -> None:
    """Not before: a busy machine is only later.

    The pause shows that they are not counted from the connection.
    """
    recorded = turn(HELLO, *answer("resp_1"), step_ns=20 * MS)
    async with mocked(recorded, speed=1.0) as mock, mock.connect() as client:
        await asyncio.sleep(0.02 * len(recorded.pieces))
        began = time.monotonic()
        times = []
        await client.send(request(HELLO))
        for _ in recorded.pieces:
            await client.recv()
            times.append(time.monotonic() - began)
    assert all(at >= number * 0.02 - 0.001 for number, at in enumerate(times, 1))


async def test_turns_of_one_connection_are_answered_one_after_another() -> None:
    turns = [turn({**HELLO, "input": str(n)}, *answer(f"resp_{n}"), number=n) for n in (1, 2)]
    async with mocked(*turns) as mock, mock.connect() as client:
        for number in (1, 2):
            await client.send(request({**HELLO, "input": str(number)}))
        first, second = await received(client), await received(client)
    assert "resp_1" in first[0]
    assert "resp_2" in second[0]


STEER = {"type": "response.steer", "input": "shorter", "previous_response_id": "resp_1"}


def continuing(id: str, previous: str) -> list[bytes]:
    """The messages of a response that says which one it continues."""
    first, *others = answer(id)
    fields = json.loads(first)
    fields["response"]["previous_response_id"] = previous
    return [json.dumps(fields).encode(), *others]


@pytest.mark.parametrize(
    "is_turn", [True, False], ids=["as a turn", "with the connection, as before"]
)
async def test_what_continues_a_steered_response_is_sent_behind_it(is_turn: bool) -> None:
    """And what continues that, whether the client steers or not."""
    then = [*continuing("resp_2", "resp_1"), *continuing("resp_3", "resp_2")]
    recorded = [connection(*(() if is_turn else [(1001, "server", each) for each in then]))]
    recorded.append(turn(HELLO, *answer("resp_1")))
    if is_turn:
        recorded.append(turn(STEER, *continuing("resp_2", "resp_1"), number=2))
        recorded.append(
            turn(
                {**STEER, "previous_response_id": "resp_2"},
                *continuing("resp_3", "resp_2"),
                number=3,
            )
        )
    async with mocked(*recorded) as mock, mock.connect() as client:
        assert await asked(client, HELLO) == texts(answer("resp_1"))
        await client.send(json.dumps(STEER))
        assert await received(client) + await received(client) == texts(then)
    assert (mock.hows, mock.unused) == (["exact"], [])


async def test_streams_of_one_connection_are_answered_at_once() -> None:
    slow = turn({**HELLO, "input": "slow"}, *answer("resp_1"))
    quick = turn({**HELLO, "input": "quick"}, *answer("resp_2"), number=2)
    async with mocked(slow, quick, faults=["stall@2"]) as mock, mock.connect() as client:
        await client.send(request({**HELLO, "input": "slow"}, stream_id="a"))
        first = [json.loads(await client.recv()) for _ in range(2)]
        await client.send(request({**HELLO, "input": "quick"}, stream_id="b"))
        second = [json.loads(await client.recv()) for _ in range(2)]
    assert [each["stream_id"] for each in first] == ["a", "a"]
    assert [each["stream_id"] for each in second] == ["b", "b"]
    assert second[0]["response"]["id"] == "resp_2"


async def test_only_what_is_new_is_the_same_as_the_whole_conversation() -> None:
    said = {"role": "user", "content": "hi"}
    whole = [said, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "more"}]
    delta = turn(
        {**HELLO, "previous_response_id": "resp_1", "input": "more"}, *answer("resp_2"), number=2
    )
    async with mocked(turn(HELLO, *answer("resp_1")), delta) as mock, mock.connect() as client:
        assert "resp_2" in (await asked(client, {**HELLO, "input": whole}))[0]
    assert mock.hows == ["noise"]
    recorded = [
        over_http(HELLO, *answer("resp_1")),
        over_http({"model": "m", "input": whole}, *answer("resp_2")),
    ]
    async with mocked(*recorded) as mock, mock.connect() as client:
        await asked(client, HELLO)
        assert (
            "resp_2"
            in (await asked(client, {**HELLO, "previous_response_id": "resp_1", "input": "more"}))[
                0
            ]
        )
    assert (mock.hows, mock.unused) == (["exact", "noise"], [])


async def test_a_recorded_prewarm_is_answered_as_it_was() -> None:
    prewarm = turn({**HELLO, "input": [], "generate": False}, *answer("resp_0", []))
    async with mocked(prewarm) as mock, mock.connect() as client:
        assert await asked(client, {**HELLO, "input": []}, generate=False) == texts(
            answer("resp_0", [])
        )
    assert mock.hows == ["exact"]


async def test_a_prewarm_is_answered_without_a_recording_and_can_be_continued() -> None:
    items = [{"role": "developer", "content": "be kind"}, {"role": "user", "content": "hi"}]
    recorded = over_http({"model": "m", "input": items}, *answer("resp_1"))
    async with mocked(recorded) as mock, mock.connect() as client:
        made = [
            json.loads(each)
            for each in await asked(client, {"model": "m", "input": items[:1]}, generate=False)
        ]
        assert [each["type"] for each in made] == ["response.created", "response.completed"]
        link = {"previous_response_id": made[-1]["response"]["id"]}
        assert "resp_1" in (await asked(client, {"model": "m", "input": items[1:], **link}))[0]
    assert (mock.hows, mock.unused) == (["probe", "noise"], [])


async def test_a_prewarm_that_nobody_sends_is_not_missed() -> None:
    prewarm = turn({**HELLO, "input": [], "generate": False}, *answer("resp_0", []))
    async with mocked(connection(), prewarm) as mock:
        assert mock.unused == []


async def test_a_miss_is_an_error_in_band_and_the_connection_goes_on() -> None:
    async with mocked(turn(HELLO, *answer("resp_1"))) as mock, mock.connect() as client:
        [error] = [json.loads(each) for each in await asked(client, {**HELLO, "input": "other"})]
        assert (error["type"], error["status"], error["error"]["code"]) == (
            "error",
            400,
            "recording_not_found",
        )
        assert 'recorded "hi", asked "other"' in error["error"]["message"]
        assert await asked(client, HELLO) == texts(answer("resp_1"))
    assert mock.hows == ["miss", "exact"]


async def test_an_error_that_came_in_band_comes_in_band_and_is_a_status_over_http() -> None:
    error = {
        "type": "error",
        "status": 429,
        "error": {"message": "no"},
        "headers": {"retry-after": "7"},
    }
    recorded = turn(HELLO, json.dumps(error).encode())
    async with mocked(recorded) as mock, mock.connect() as client:
        assert json.loads((await asked(client, HELLO))[0]) == error
    async with mocked(recorded) as mock, httpx.AsyncClient(trust_env=False) as http:
        response = await http.post(
            f"http://127.0.0.1:{mock.port}/v1/responses", json={**HELLO, "stream": True}
        )
        assert (response.status_code, response.headers["retry-after"]) == (429, "7")
        assert response.json() == {"error": {"message": "no"}}


async def test_what_is_no_request_gets_an_error_or_changes_nothing() -> None:
    async with mocked(turn(HELLO, *answer("resp_1"))) as mock, mock.connect() as client:
        await client.send("hello")
        assert json.loads(await client.recv())["status"] == 400
        await client.send('{"type":"response.cancel"}')
        assert await asked(client, HELLO) == texts(answer("resp_1"))


async def test_requests_that_wait_are_bounded() -> None:
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=["stall@0"]) as mock,
        mock.connect() as client,
    ):
        for _ in range(QUEUED + 1):
            await client.send(request(HELLO))
        assert json.loads(await client.recv())["status"] == 429


# -- ends


@pytest.mark.parametrize(("code", "reason"), [(1011, "broken"), (4000, ""), (None, None)])
async def test_a_connection_that_the_server_broke_off_ends_as_it_did(
    code: int | None, reason: str | None
) -> None:
    broken = turn(HELLO, *answer("resp_1")[:2], outcome="truncated")
    recorded = connection(close=CloseRecord("server", code, reason), outcome="truncated")
    async with mocked(recorded, broken) as mock, mock.connect() as client:
        await client.send(request(HELLO))
        assert await close_of(client) == (code, reason or "", 2)


async def test_a_reset_is_a_reset() -> None:
    broken = turn(HELLO, *answer("resp_1")[:2], outcome="upstream_reset")
    async with mocked(broken) as mock, mock.connect() as client:
        await client.send(request(HELLO))
        assert (await close_of(client))[0] is None


async def test_a_server_that_closed_behind_the_last_turn_closes_again() -> None:
    recorded = connection(close=CloseRecord("server", 1001, "going away"), end_ns=1100 * MS)
    async with (
        mocked(recorded, turn(HELLO, *answer("resp_1")), speed=1.0) as mock,
        mock.connect() as client,
    ):
        await asked(client, HELLO)
        assert await close_of(client) == (1001, "going away", 0)


async def test_a_connection_that_the_client_closed_stays_open() -> None:
    recorded = connection(close=CloseRecord("client", 1000, ""))
    async with (
        mocked(recorded, turn(HELLO, *answer("resp_1")), strict=False) as mock,
        mock.connect() as client,
    ):
        assert await asked(client, HELLO) == await asked(client, HELLO)
        await client.close(1000, "done")
        assert client.close_code == 1000


async def test_a_client_that_leaves_without_a_close_ends_its_answers() -> None:
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=["stall@1"]) as mock,
        mock.connect() as client,
    ):
        await client.send(request(HELLO))
        await client.recv()
        client.transport.abort()
    # leaving the block stops the server, which waits for nobody


async def test_pings_are_answered_while_an_answer_stalls() -> None:
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=["stall@1"]) as mock,
        mock.connect() as client,
    ):
        await client.send(request(HELLO))
        await client.recv()
        async with asyncio.timeout(DEADLINE_S):
            await (await client.ping(b"there?"))


# -- faults


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("close@2:1011", (1011, "recorder: a fault closes the connection", 2)),
        ("close@0:1008", (1008, "recorder: a fault closes the connection", 0)),
        ("cut@1", (None, "", 1)),
        ("cut@1:reset", (None, "", 1)),
    ],
)
async def test_a_fault_ends_a_connection(fault: str, end: tuple[int | None, str, int]) -> None:
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=[fault]) as mock,
        mock.connect() as client,
    ):
        await client.send(request(HELLO))
        assert await close_of(client) == end
        assert mock.faults is not None
        assert mock.faults.unused == []


async def test_an_error_of_a_fault_comes_in_band() -> None:
    faults = ["status:429:retry-after=2:times=1"]
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=faults) as mock,
        mock.connect() as client,
    ):
        [error] = [json.loads(each) for each in await asked(client, HELLO)]
        assert (error["status"], error["headers"]) == (429, {"retry-after": "2"})
        assert await asked(client, HELLO) == texts(answer("resp_1"))


async def test_an_error_in_a_stream_comes_as_a_message_and_the_next_turn_is_answered() -> None:
    faults = ["error@1:429"]
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=faults, strict=False) as mock,
        mock.connect() as client,
    ):
        for _ in range(2):
            await client.send(request(HELLO))
            async with asyncio.timeout(DEADLINE_S):
                begun, error = [json.loads(await client.recv()) for _ in range(2)]
            assert (begun["type"], error["type"], error["status"]) == (
                "response.created",
                "error",
                429,
            )


async def test_fragments_and_pings_change_no_message() -> None:
    faults = ["fragment@2", "fragment@3:1000", "ping@2", "ping@1"]
    async with (
        mocked(turn(HELLO, *answer("resp_1")), faults=faults) as mock,
        mock.connect() as client,
    ):
        await client.send(request(HELLO))
        first = await client.recv()
        async with asyncio.timeout(DEADLINE_S):
            fragments = [part async for part in client.recv_streaming()]
        assert len(fragments) == 3
        rest = await received(client)
        assert [first, "".join(map(str, fragments)), *rest] == texts(answer("resp_1"))
        assert mock.faults is not None
        assert mock.faults.unused == []


# -- handshakes


async def test_a_handshake_that_was_refused_is_refused_again() -> None:
    recorded = connection(
        response=ResponseHead(426, "Upgrade Required", [("content-type", "text/plain")])
    )
    async with mocked(recorded) as mock:
        with pytest.raises(InvalidStatus) as refused:
            async with mock.connect():
                pass
        assert refused.value.response.status_code == 426


async def test_handshakes_are_answered_in_recorded_order_and_the_last_again() -> None:
    heads = [
        msgspec.structs.replace(SWITCHED, headers=[*SWITCHED.headers, ("x-number", str(number))])
        for number in range(2)
    ]
    recorded = [connection(id=f"c-{number}", response=head) for number, head in enumerate(heads)]
    numbers = []
    async with mocked(*recorded) as mock:
        for _ in range(3):
            async with mock.connect() as client:
                assert client.response is not None
                numbers.append(client.response.headers["x-number"])
    assert numbers == ["0", "1", "1"]


async def test_where_nothing_was_recorded_a_handshake_is_a_miss() -> None:
    async with mocked(turn(HELLO, *answer("resp_1"))) as mock:
        with pytest.raises(InvalidStatus) as refused:
            async with mock.connect("/v1/realtime?model=x"):
                pass
    assert refused.value.response.status_code == 400
    assert b"WEBSOCKET /realtime" in refused.value.response.body
    assert mock.hows == ["miss"]


async def test_no_compression_is_agreed_on() -> None:
    async with (
        mocked(turn(HELLO, *answer("resp_1"))) as mock,
        mock.connect(compression="deflate") as client,
    ):
        assert client.response is not None
        assert "sec-websocket-extensions" not in client.response.headers
        assert await asked(client, HELLO) == texts(answer("resp_1"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Sec-WebSocket-Version: 12\r\n", b"426"),
        (b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n", b"400"),
    ],
)
async def test_a_handshake_that_is_none_is_refused(headers: bytes, status: bytes) -> None:
    async with mocked(turn(HELLO, *answer("resp_1"))) as mock:
        assert (await raw_answer(mock.port, headers)).startswith(b"HTTP/1.1 " + status)


async def raw_answer(port: int, headers: bytes, *frames: bytes) -> bytes:
    """All that a server sends to a handshake and what follows it, up to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    writer.write(head + headers + b"\r\n" + b"".join(frames))
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if frames:
            async with asyncio.timeout(DEADLINE_S):
                return await reader.read()
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


KEYED = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
MASK = b"\x01\x02\x03\x04"


BROKEN = [
    (encode_frame("text", b"{}"), 1002),  # not masked
    (encode_frame("text", b"\xff", mask=MASK), 1007),
    (encode_frame("binary", b"{}", mask=MASK), 1003),
    (encode_frame("text", b"{}", mask=MASK, rsv1=True), 1002),
    (encode_frame("continuation", b"{}", mask=MASK), 1002),
    (encode_frame("ping", b"x" * 126, mask=MASK), 1002),
    (encode_frame("close", b"\x03", mask=MASK), 1002),
    (encode_frame("close", b"\x03\xe8\xff", mask=MASK), 1007),
    (b"\x83\x80" + MASK, 1002),  # a reserved opcode
    (b"\x81\xff" + (2**40).to_bytes(8) + MASK, 1009),
]


async def test_a_client_that_breaks_a_rule_gets_its_code() -> None:
    async with mocked(turn(HELLO, *answer("resp_1"))) as mock:
        asking = (raw_answer(mock.port, KEYED, frame) for frame, _ in BROKEN)
        answers = await asyncio.gather(*asking)
    closes = [answered.partition(b"\r\n\r\n")[2] for answered in answers]
    assert [(close[0], int.from_bytes(close[2:4])) for close in closes] == [
        (0x88, code) for _, code in BROKEN
    ]


# -- connections without turns

REALTIME = "/v1/realtime"


def realtime(close: CloseRecord | None = None, **how: Any) -> Recording:
    return connection(
        (2, "server", message("session.created")),
        (1000, "client", message("session.update")),
        (1020, "server", message("session.updated")),
        (2000, "client", message("response.create")),
        (2010, "server", message("response.created")),
        (2040, "server", message("response.done")),
        target=REALTIME,
        close=close,
        end_ns=2060 * MS,
        **how,
    )


async def test_a_connection_is_played_back_behind_the_messages_of_its_client() -> None:
    async with mocked(realtime()) as mock, mock.connect(REALTIME) as client:
        assert await client.recv() == message("session.created").decode()
        await client.send("{}")
        assert await client.recv() == message("session.updated").decode()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):  # at this speed it would come at once
                await client.recv()
        await client.send("{}")
        assert [await client.recv() for _ in range(2)] == texts(
            [message("response.created"), message("response.done")]
        )
    assert (mock.hows, mock.unused) == (["exact"], [])


async def test_a_connection_that_is_played_back_ends_as_it_did() -> None:
    recorded = realtime(CloseRecord("server", 1000, "over"))
    async with mocked(recorded) as mock, mock.connect(REALTIME) as client:
        await client.send("{}")
        await client.send("{}")
        assert await close_of(client) == (1000, "over", 4)


async def test_binary_messages_are_played_back_as_such() -> None:
    recorded = connection((2, "server", b"\x00\x01"), target="/ws/live", opcode=0x82)
    async with mocked(recorded) as mock, mock.connect("/ws/live") as client:
        assert await client.recv() == b"\x00\x01"


async def test_the_subprotocol_is_answered_if_one_was_recorded() -> None:
    head = ResponseHead(
        101, "", [("Upgrade", "websocket"), ("Sec-WebSocket-Protocol", "REDACTED (8 bytes)")]
    )
    async with mocked(realtime(response=head)) as mock:
        async with mock.connect(
            REALTIME, subprotocols=["realtime", "openai-insecure-api-key.x"]
        ) as client:
            assert client.subprotocol == "realtime"
