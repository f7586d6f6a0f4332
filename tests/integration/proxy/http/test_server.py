"""The server by itself: the port, the reason phrase, the signals."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from recorder.errors import RecorderError
from recorder.proxy.http.server import Server, run, serve
from recorder.proxy.http.server_exchange import ServerExchange
from tests.support.event_loop import DEADLINE_S, eventually, on_uvloop
from tests.support.proxy import client_of, get, served
from tests.support.sockets import RawClient, RawResponse

GRACE_S = 4 * DEADLINE_S  # which no test here waits for


async def hello(incoming: ServerExchange) -> None:
    said: dict[bytes, tuple[int, bytes | None]] = {
        b"/odd": (299, b"Fine, I Guess"),
        b"/none": (200, b""),
        b"/beyond": (799, b"What"),
    }
    status, reason = said.get(incoming.path, (200, None))
    incoming.start(status, [], reason=reason)
    incoming.finish(b"hello")


class Streams:
    """An app whose streams end when they are told to."""

    def __init__(self) -> None:
        self.open = 0
        self.end = asyncio.Event()
        self.drained = False

    async def __call__(self, incoming: ServerExchange) -> None:
        incoming.start(200, [], first=b"begun")
        self.open += 1
        await self.end.wait()
        if not self.drained:
            incoming.finish(b"done")

    def drain(self) -> None:
        self.drained = True
        self.end.set()


@on_uvloop
async def test_a_status_is_sent_with_its_own_reason() -> None:
    async with client_of(hello) as client:
        for path, status in (
            ("/odd", b"299 Fine, I Guess"),
            ("/none", b"200 "),
            ("/beyond", b"799 What"),
            ("/", b"200 OK"),
        ):
            await client.send(get(path))
            response = await client.response()
            assert (response.status, response.body) == (status, b"hello")
            assert response.headers == [(b"transfer-encoding", b"chunked")]


@on_uvloop
async def test_a_taken_port_is_one_clear_sentence() -> None:
    async with served(hello) as server:
        with pytest.raises(
            RecorderError, match=rf"Port {server.port} on 127.0.0.1 is taken: .* --port\.$"
        ):
            await Server(hello, "127.0.0.1", server.port, on_drain=lambda: None).start()


@on_uvloop
async def test_an_address_of_another_machine_is_one_clear_sentence() -> None:
    with pytest.raises(RecorderError, match=r"no address 192\.0\.2\.1: .* --host\.$"):
        await Server(hello, "192.0.2.1", 0, on_drain=lambda: None).start()


@on_uvloop
async def test_streams_that_end_within_the_grace_end_whole() -> None:
    app = Streams()
    async with served(app, app.drain) as server, await RawClient.connect(server.port) as client:
        await client.send(get())
        await eventually(lambda: app.open == 1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.stop(DEADLINE_S))
            await asyncio.sleep(0)
            with pytest.raises(ConnectionRefusedError):
                await RawClient.connect(server.port)
            app.end.set()
            response = await client.response()
    assert (response.body, response.ending) == (b"begundone", "complete")


@on_uvloop
async def test_streams_that_do_not_end_are_ended_after_the_grace() -> None:
    app = Streams()
    async with served(app, app.drain) as server, await RawClient.connect(server.port) as client:
        await client.send(get())
        await eventually(lambda: app.open == 1)
        await server.stop(0.05)
        response = await client.response()
    assert (response.body, response.ending) == (b"begun", "closed")


@on_uvloop
async def test_an_idle_connection_does_not_hold_up_the_end() -> None:
    async with served(hello) as server:
        async with (
            await RawClient.connect(server.port) as idle,
            await RawClient.connect(server.port) as used,
        ):
            await used.send(get())
            await used.response()
            await asyncio.wait_for(server.stop(GRACE_S), DEADLINE_S)
            assert await idle.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("signals", [1, 2])
def test_the_first_signal_waits_for_streams_and_the_second_does_not(
    number: signal.Signals, signals: int
) -> None:
    async def scenario() -> RawResponse:
        app, ready, stopping = Streams(), asyncio.Queue[int](), asyncio.Event()
        hooks: dict[str, Any] = {"on_ready": ready.put_nowait, "on_stop": lambda _: stopping.set()}
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(
                serve(app, "127.0.0.1", 0, on_drain=app.drain, grace_s=GRACE_S, **hooks)
            )
            async with await RawClient.connect(await ready.get()) as client:
                await client.send(get())
                await eventually(lambda: app.open == 1)
                os.kill(os.getpid(), number)
                await stopping.wait()
                if signals == 1:
                    app.end.set()
                else:
                    os.kill(os.getpid(), number)
                return await client.response()

    response = run(scenario())
    assert response.ending == ("complete" if signals == 1 else "closed")
