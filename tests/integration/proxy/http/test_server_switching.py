"""Connections that are switched to another protocol: what the server gives its app, and takes of
it, from then on.
"""

from __future__ import annotations

import asyncio

import pytest

from recorder.proxy.http import server_connection
from recorder.proxy.http.server_connection import HELD_BYTES
from recorder.proxy.http.server_exchange import Headers, ServerExchange
from tests.support.event_loop import (
    DEADLINE_S,
    POLL_S,
    both_loops,
    eventually,
    on_uvloop,
    settled,
    turns,
)
from tests.support.proxy import client_of, get, served
from tests.support.sockets import KERNEL_BYTES, RawClient, reset

OFFER = (
    b"Connection: keep-alive, Upgrade",
    b"Upgrade: WebSocket",
    b"Sec-WebSocket-Key: x",
    b"Sec-WebSocket-Version: 13",
)
SWITCH: Headers = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"


async def echo(incoming: ServerExchange) -> None:
    incoming.start(101, SWITCH)
    while piece := await incoming.read():
        incoming.write(piece)
        await incoming.flow.drain()
    incoming.finish(b"bye")


@both_loops
async def test_both_directions_are_raw_and_each_has_its_own_end() -> None:
    async with client_of(echo) as client:
        await client.send(get("/ws", *OFFER))
        assert await client.read_until(b"\r\n\r\n") == SWITCHED
        await client.send(b"GET / HTTP/1.1\r\n\r\n\0\xff")
        await client.read_until(b"\0\xff")
        client.socket.shutdown(1)
        assert await client.rest() == b"bye"


@both_loops
async def test_what_came_behind_the_head_is_the_first_of_the_raw_bytes() -> None:
    release = asyncio.Event()

    async def app(incoming: ServerExchange) -> None:
        assert (incoming.upgrade, incoming.more) == (b"websocket", False)
        assert (incoming.take(10), await incoming.read()) == (b"", b""), "an offer has no body"
        await release.wait()
        await echo(incoming)

    async with client_of(app) as client:
        await client.send(get("/ws", *OFFER) + b"early")
        await client.send(b" and GET /x HTTP/1.1\r\n\r\n")
        await turns()
        release.set()
        assert await client.read_until(b"\r\n\r\n") == SWITCHED
        await client.read_until(b"early and GET /x HTTP/1.1\r\n\r\n")


@both_loops
async def test_the_first_of_the_raw_bytes_go_with_the_head() -> None:
    async def app(incoming: ServerExchange) -> None:
        incoming.start(101, SWITCH, reason=b"Fine", first=b"first")
        incoming.finish(b" last")

    async with client_of(app) as client:
        await client.send(get("/ws", *OFFER))
        assert (
            await client.rest() == SWITCHED.replace(b"Switching Protocols", b"Fine") + b"first last"
        )


@pytest.mark.parametrize("early", [b"", get("/next")])
@both_loops
async def test_any_other_answer_declines_and_the_connection_goes_on_in_http(early: bytes) -> None:
    async def app(incoming: ServerExchange) -> None:
        incoming.respond(426 if incoming.upgrade else 200, [], incoming.path)

    async with client_of(app) as client:
        for _ in range(2):
            await client.send(get("/ws", *OFFER) + early)
            assert (await client.response()).status == b"426 Upgrade Required"
            if not early:
                await client.send(get("/next"))
            response = await client.response()
            assert (response.status, response.body) == (b"200 OK", b"/next")


@on_uvloop
async def test_an_offer_behind_other_requests_waits_for_its_turn() -> None:
    async def app(incoming: ServerExchange) -> None:
        await (echo(incoming) if incoming.upgrade else _respond(incoming))

    async with client_of(app) as client:
        await client.send(get("/a") + get("/b") + get("/ws", *OFFER) + b"frames")
        assert [(await client.response()).body for _ in range(2)] == [b"/a", b"/b"]
        assert await client.read_until(b"frames") == SWITCHED + b"frames"


async def _respond(incoming: ServerExchange) -> None:
    await asyncio.sleep(0)
    incoming.respond(200, [], incoming.path)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", OFFER),
        ("GET", (b"Connection: Upgrade", b"Upgrade: h2c")),
        ("GET", (b"Connection: Upgrade", b"Upgrade: websocket, h2c")),
        ("GET", (b"Upgrade: websocket",)),
        ("GET", (*OFFER, b"Content-Length: 4")),
    ],
)
@on_uvloop
async def test_what_cannot_be_switched_is_declined(method: str, headers: tuple[bytes, ...]) -> None:
    async def app(incoming: ServerExchange) -> None:
        assert incoming.upgrade is None
        incoming.respond(200, [], await incoming.read())

    body = b"body" if b"Content-Length: 4" in headers else b""
    async with client_of(app) as client:
        await client.send(get("/a", *headers, method=method) + body + get("/b"))
        assert [(await client.response()).body for _ in range(2)] == [body, b""]


@on_uvloop
async def test_an_offer_of_http_1_0_is_declined() -> None:
    async def app(incoming: ServerExchange) -> None:
        incoming.respond(200, [], b"none" if incoming.upgrade is None else b"one")

    async with client_of(app) as client:
        await client.send(get("/a", *OFFER).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (await client.response()).body == b"none"


@both_loops
async def test_the_app_reads_on_after_its_own_end() -> None:
    heard = []

    async def app(incoming: ServerExchange) -> None:
        incoming.start(101, SWITCH)
        incoming.finish(b"over")
        while piece := await incoming.read():
            heard.append(piece)

    async with served(app) as server, await RawClient.connect(server.port) as client:
        await client.send(get("/ws", *OFFER))
        assert await client.rest() == SWITCHED + b"over"
        await client.send(b"still here")
        client.socket.shutdown(1)
        await eventually(lambda: server.open == 0)
    assert b"".join(heard) == b"still here"


@both_loops
async def test_an_app_that_returns_after_its_end_leaves_the_client_time_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing at once would answer what the client still sends with a RST, and drop what it has not
    read.
    """
    monkeypatch.setattr(server_connection, "HEAD_S", 0.3)

    async def app(incoming: ServerExchange) -> None:
        incoming.start(101, SWITCH)
        incoming.finish(b"x" * 200_000)

    async with served(app) as server, await RawClient.connect(server.port) as client:
        await client.send(get("/ws", *OFFER))
        await eventually(lambda: server.open == 0)
        await client.send(b"y" * 1_000)
        assert await client.rest() == SWITCHED + b"x" * 200_000
        with pytest.raises(ConnectionError):
            await _until_it_breaks(client)


async def _until_it_breaks(client: RawClient) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await client.send(b"z")
            await asyncio.sleep(POLL_S)


@pytest.mark.parametrize("how", ["resets", "returns", "raises"])
@both_loops
async def test_a_switched_connection_without_an_end_is_reset(how: str) -> None:
    async def app(incoming: ServerExchange) -> None:
        incoming.start(101, SWITCH)
        await incoming.read()
        if how == "resets":
            incoming.reset()
        elif how == "raises":
            raise ZeroDivisionError

    async with client_of(app) as client:
        await client.send(get("/ws", *OFFER))
        await client.read_until(b"\r\n\r\n")
        await client.send(b"x")
        with pytest.raises(ConnectionResetError):
            await client.read()


@pytest.mark.parametrize("is_held", [False, True])
@both_loops
async def test_a_client_that_resets_cancels_the_app(
    is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "LOOK_S", 0.05)
    began, gone = asyncio.Event(), []

    async def app(incoming: ServerExchange) -> None:
        incoming.start(101, SWITCH)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.append(incoming.gone)

    async with client_of(app) as client:
        await client.send(get("/ws", *OFFER))
        await began.wait()
        if is_held:
            await client.flood(100 * HELD_BYTES)
        reset(client.socket)
        await eventually(lambda: gone == [True])


@both_loops
async def test_a_client_that_ends_its_direction_while_it_is_not_read_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_connection, "LOOK_S", 0.02)
    release, sizes = asyncio.Event(), []

    async def app(incoming: ServerExchange) -> None:
        incoming.start(101, SWITCH)
        await release.wait()
        while piece := await incoming.read():
            sizes.append(len(piece))
        incoming.finish()

    size = HELD_BYTES + 100_000  # more than is held, less than the kernel holds besides
    async with client_of(app) as client:
        await client.send(get("/ws", *OFFER))
        await client.read_until(b"\r\n\r\n")
        await client.send(bytes(size))
        client.socket.shutdown(1)
        await settled(lambda: sizes)  # for several looks whether the client has gone
        release.set()
        assert await client.rest() == b""
    assert sum(sizes) == size


@both_loops
async def test_raw_bytes_that_are_not_read_are_held_back() -> None:
    async def app(incoming: ServerExchange) -> None:
        if incoming.path == b"/switched":
            incoming.start(101, SWITCH)
        await asyncio.Event().wait()

    for path in ("/offered", "/switched"):
        async with client_of(app) as client:
            await client.send(get(path, *OFFER))
            assert await client.flood(2 * KERNEL_BYTES) < KERNEL_BYTES


@both_loops
async def test_a_switch_that_no_client_offered_is_raw_too() -> None:
    async with client_of(echo) as client:
        await client.send(get("/plain"))
        assert await client.read_until(b"\r\n\r\n") == SWITCHED
        await client.send(b"raw")
        client.socket.shutdown(1)
        assert await client.rest() == b"rawbye"
