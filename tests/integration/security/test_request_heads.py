"""Requests that two readers could read differently, or that never end: refused before an upstream
hears of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from recorder.proxy.http import server_connection
from tests.support.event_loop import on_uvloop
from tests.support.proxy import Proxied, get, proxied
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    RawClient,
    ScriptedUpstream,
    Send,
    Stall,
    Wait,
    answer,
    chunked,
)

POST, GET = (method + b" /v1/x HTTP/1.1\r\nHost: localhost\r\n" for method in (b"POST", b"GET"))
END = b"\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

LENGTHS = [
    b"+3",
    b"-3",
    b"0x3",
    b"",
    b"3 4",
    b"3, 3",
    b"3,4",
    b"1e1",
    b"3.0",
    b"9" * 20,
    b"\xb2",
    b"3;q=1",
    b"three",
]
CODINGS = [
    *(
        b"xchunked",
        b"gzip",
        b"identity",
        b"chunked, gzip",
        b"chunked, identity",
        b"gzip, chunked",
        b"chunked, chunked",
    ),
    *(b'"chunked"', b"chunked;q=1", b"\x0bchunked", b"", b"chunked,", b"chun ked"),
]
LINES = [
    *(
        b"X-A: 1\r\n 2",
        b"X-A: 1\rX-B: 2",
        b"X-A: 1\nX-B: 2",
        b"X-A: 1\x002",
        b"X-A: a\x01b",
        b"X-A: a\x7fb",
    ),
    *(
        b"X\0A: 1",
        b"X\x01A: 1",
        b"X\xffA: 1",
        b"X(A): 1",
        b"X A: 1",
        b": 1",
        b"XA",
        b"X-A : 1",
        b"X-A\t: 1",
    ),
    *(
        b"Host: localhost",
        b"Content-Length : 3",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding:\r\n chunked",
    ),
    *(b"Transfer_Encoding: chunked", b"Content_Length: 3", b"X: y\rTransfer-Encoding: chunked"),
]
STARTS = [
    *(
        b"hello",
        b"GET /v1/x",
        b"PRI * HTTP/2.0",
        b"GET /v1/x HTTP/1.2",
        b"GET /v1/x HTTP/3.7",
        b"GET /v1/x HTTP/11.1",
    ),
    *(
        b"GET /v1/x http/1.1",
        b"GET\t/v1/x\tHTTP/1.1",
        b"GET /v1/x y HTTP/1.1",
        b"GET /v1/x HTTP/1.1 x",
    ),
    *(
        b"G@T /v1/x HTTP/1.1",
        b"get /v1/x HTTP/1.1",
        b"DESCRIBE /v1/x RTSP/9.9",
        b"GET /v1/\xff HTTP/1.1",
    ),
    *(
        b"GET /v1/\x01 HTTP/1.1",
        b"GET /v1/a\tb HTTP/1.1",
        b"GET \\v1\\x HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET  HTTP/1.1",
    ),
    *(
        b"GET //evil.test/v1/x HTTP/1.1",
        b"GET /v1/%2e%2E/x HTTP/1.1",
        b"GET /v1/../x HTTP/1.1",
        b"GET v1/x HTTP/1.1",
    ),
    b"GET /" + b"x" * 2**16 + b" HTTP/1.1",
]
MALFORMED = [
    *(POST + b"Content-Length: " + length + END + b"abc" for length in LENGTHS),
    *(POST + b"Transfer-Encoding: " + coding + END + LAST_CHUNK for coding in CODINGS),
    *(POST + line + b"\r\nContent-Length: 3" + END + b"abc" for line in LINES),
    *(start + b"\r\nHost: localhost" + END for start in STARTS),
    POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked" + END + LAST_CHUNK,
    POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3" + END + LAST_CHUNK,
    POST + b"Content-Length: 3\r\nContent-Length: 3" + END + b"abc",
    POST + b"Content-Length: 3\r\nContent-Length: 4" + END + b"abcd",
    POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" + END + LAST_CHUNK,
    POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity" + END + LAST_CHUNK,
    CHUNKED.replace(b"1.1", b"1.0", 1) + LAST_CHUNK,
    b"GET /v1/x HTTP/1.1" + END,
    b"GET /v1/x HTTP/1.1\r\n Host: localhost" + END,
    GET.replace(b"\r\n", b"\n") + b"\n",
    GET + b"X-A: " + b"x" * 2**16 + END,
    GET + b"".join(b"X-%d: %b\r\n" % (number, b"x" * 800) for number in range(90)) + b"\r\n",
    GET + b"X: y\r\n" * 100 + b"\r\n",
]
BAD_CHUNKS = [
    *(
        b"+3\r\nabc\r\n",
        b"-3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"\r\nabc\r\n",
        b"f" * 17 + b"\r\nabc\r\n",
        b"3 \r\nabc\r\n",
    ),
    *(b"3\r\nabcX", b"3\nabc\n", b"3;a\0b\r\nabc\r\n", b"3;a\nabc\r\n", b"0\r\nno field\r\n\r\n"),
    b"0\r\nContent-Length: 3\r\n\r\n",
]


async def asked(proxy: Proxied, request: bytes) -> bytes:
    """The status line of the answer."""
    try:
        return (await asyncio.wait_for(proxy.ask(request), 30)).status
    except ConnectionError as error:
        return repr(error).encode()


async def rest(client: RawClient) -> bytes:
    """What still comes until the connection is closed, however it is."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := await client.read():
            received += data
    return received


@on_uvloop
async def test_no_malformed_request_gets_past_a_400(tmp_path: Path) -> None:
    assert len(MALFORMED) >= 60
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        answers = {request[:120]: await asked(proxy, request) for request in MALFORMED}
        assert {
            case: status for case, status in answers.items() if not status.startswith(b"400")
        } == {}
        assert (upstream.connections, proxy.tapes()) == (0, [])


@on_uvloop
async def test_no_malformed_body_arrives_as_a_whole_one(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        answers = {chunk: await asked(proxy, CHUNKED + chunk + LAST_CHUNK) for chunk in BAD_CHUNKS}
        assert {
            chunk: status for chunk, status in answers.items() if not status.startswith(b"400")
        } == {}
        assert upstream.requests == []


@on_uvloop
async def test_what_follows_a_request_is_no_part_of_it(tmp_path: Path) -> None:
    """A request in the body of another stays there; one behind another is one of its own, and is
    judged as such.
    """
    smuggled = b"GET /v1/admin HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        await proxy.ask(get("/v1/x", method="POST", body=smuggled))
        assert [request.endswith(smuggled) for request in upstream.requests] == [True]
        async with await proxy.connect() as client:
            await client.send(get("/v1/x", method="POST", body=b"{}") + smuggled)
            assert [(await client.response()).status[:3] for _ in range(2)] == [b"200", b"403"]
        assert len(upstream.requests) == 2


@on_uvloop
async def test_a_head_up_to_the_limits_passes(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        many = get("/v1/x", *(b"X-%d: y" % number for number in range(99)))
        long = get("/v1/x", b"X: " + b"y" * (server_connection.HEAD_BYTES - 200))
        assert [(await proxy.ask(request)).status for request in (many, long)] == [b"200 OK"] * 2


@on_uvloop
async def test_no_hop_by_hop_or_nominated_header_crosses(tmp_path: Path) -> None:
    hops = {
        *(
            "Keep-Alive",
            "TE",
            "Trailer",
            "Proxy-Connection",
            "Proxy-Authenticate",
            "Proxy-Authorization",
        ),
        *("X-One", "x-two", "X-THREE"),
    }
    lines = [
        *(f"{name}: canary" for name in hops),
        "Connection: close, X-One,X-Two ,\tx-three",
        "X-Kept: kept",
    ]
    fields = [line.encode() for line in lines]
    async with (
        ScriptedUpstream(answer(b"", *fields)) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        response = await proxy.ask(get("/v1/x", *fields))
        up, down = (
            upstream.requests[0].lower(),
            b"\n".join(b": ".join(pair) for pair in response.headers),
        )
    for side in (up, down):
        assert b"x-kept: kept" in side
        assert b"canary" not in side


# -- a head that does not come


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "HEAD_S", 0.2)


HALF = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nX-A: "


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("start", [HALF, b"POST /", b"\r\nPOST /v1/x"])
@on_uvloop
async def test_a_head_has_its_time_however_many_bytes_still_come(
    tmp_path: Path, start: bytes
) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client, asyncio.TaskGroup() as tasks:
            drip = tasks.create_task(_drip(client.send, start))
            assert await rest(client) == b""
            drip.cancel()
        assert upstream.connections == 0


async def _drip(send: Callable[[bytes], Awaitable[None]], start: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        await send(start)
        while True:
            await asyncio.sleep(0.02)
            await send(b"x")


@pytest.mark.usefixtures("impatient")
@on_uvloop
async def test_the_time_is_that_of_the_head_alone(tmp_path: Path) -> None:
    """Neither a slow body, nor a slow answer, nor a pause between two requests is a late head."""
    end = asyncio.Event()
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(b"data: 1\n\n")),
        Wait(end),
        Send(LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(POST + b"Content-Length: 2\r\n\r\n{")
            await asyncio.sleep(0.3)
            # half a head behind it must not cut the answer to the first
            await client.send(b"}" + HALF)
            await client.read_until(b"data: 1\n\n")
            await asyncio.sleep(0.5)
            end.set()
            assert (await client.read_until(LAST_CHUNK)).endswith(LAST_CHUNK)
            assert await rest(client) == b""


@on_uvloop
async def test_a_malformed_request_behind_a_stream_puts_no_byte_into_it(tmp_path: Path) -> None:
    script: list[Action] = [Send(STREAM_HEAD + chunked(b"data: 1\n\n")), Stall()]
    async with ScriptedUpstream(script) as upstream:
        async with proxied(tmp_path, upstream.base) as proxy, await proxy.connect() as client:
            await client.send(GET + b"\r\n")
            await client.read_until(b"data: 1\n\n")
            await client.send(b"nonsense\r\n\r\n")
            assert await rest(client) == b""


def test_the_limits_are_those_that_are_promised() -> None:
    assert (server_connection.HEAD_BYTES, server_connection.HEADERS, server_connection.HEAD_S) == (
        65536,
        100,
        10.0,
    )
