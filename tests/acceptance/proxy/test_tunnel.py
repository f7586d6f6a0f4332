"""WebSocket through `recorder serve`, as users start and stop it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.event_loop import DEADLINE_S
from tests.support.server import PROGRAM, everywhere, serving


async def test_clients_are_asked_to_connect_again_when_serve_is_stopped(tmp_path: Path) -> None:
    async def wait(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(wait, "127.0.0.1", 0) as upstream:
        port = next(iter(upstream.sockets)).getsockname()[1]
        options = everywhere(f"http://127.0.0.1:{port}")
        with serving(tmp_path / "recorder.db", *options, program=PROGRAM) as recorder:
            async with connect(f"ws://127.0.0.1:{recorder.port}/v1/responses") as client:
                recorder.interrupt()
                with pytest.raises(ConnectionClosed):
                    await asyncio.wait_for(client.recv(), DEADLINE_S)
                assert client.close_code == 1012


async def test_serve_refuses_them_if_it_is_told_to(tmp_path: Path) -> None:
    options = ("--no-websocket", *everywhere("http://127.0.0.1:9"))
    with serving(tmp_path / "recorder.db", *options, program=PROGRAM) as recorder:
        with pytest.raises(InvalidStatus) as raised:
            await connect(f"ws://127.0.0.1:{recorder.port}/v1/responses")
        assert raised.value.response.status_code == 426
