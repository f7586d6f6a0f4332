"""A viewer in this process, on a socket, and a client that asks it.

async with viewing(database) as viewer:
    … await viewer.json("/api/about") …      # with its token
    … await viewer.ask(request(…)) …         # as the bytes say
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.commands.serving.tokens import TokenFile
from recorder.proxy.http.server import Server
from recorder.replay.matching.noise import DEFAULT_RULES
from recorder.store.location import database_url
from recorder.store.write.writer import Store
from recorder.ui.app import Viewer
from recorder.ui.owners import Owners
from tests.support.facts import captured
from tests.support.projects import stream
from tests.support.rows import make_exchange, make_session
from tests.support.sockets import RawClient, RawResponse

WORDS = ("Zürich", " is", " sunny")


def request(
    target: str, *headers: bytes, host: bytes = b"127.0.0.1", method: str = "GET", body: bytes = b""
) -> bytes:
    length = [b"Content-Length: %d" % len(body)] if body else []
    lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: " + host, *headers, *length]
    return b"\r\n".join([*lines, b"", b""]) + body


BY_TLS = b"X-Forwarded-Proto: https"  # what a proxy with TLS says


class Viewing:
    """A viewer that runs, for who shows a token: its own, or that of a person."""

    def __init__(self, viewer: Viewer, server: Server, token: str | None = None) -> None:
        self.viewer, self.server, self.port = viewer, server, server.port
        self.token = b"X-Recorder-Token: " + (token or viewer.guard.token).encode()
        if token is not None:
            self.token += b"\r\n" + BY_TLS

    def of(self, token: str) -> Viewing:
        """The same viewer, for another person."""
        return Viewing(self.viewer, self.server, token)

    async def ask(self, data: bytes) -> RawResponse:
        async with await RawClient.connect(self.port) as client:
            await client.send(data)
            return await client.response(to_head=data.startswith(b"HEAD"))

    async def get(self, target: str, *headers: bytes, method: str = "GET") -> RawResponse:
        """An answer for who shows the token."""
        return await self.ask(request(target, self.token, *headers, method=method))

    async def json(self, target: str, status: bytes = b"200") -> Any:
        answer = await self.get(target)
        assert answer.status[:3] == status, (target, answer)
        return msgspec.json.decode(answer.body)

    async def post(self, target: str, body: Any, *headers: bytes) -> RawResponse:
        headers = headers or (b"Content-Type: application/json",)
        return await self.ask(
            request(target, self.token, *headers, method="POST", body=msgspec.json.encode(body))
        )


@contextlib.asynccontextmanager
async def viewing(database: Path | URL, *, is_open: bool = True) -> AsyncIterator[Viewing]:
    """A viewer of a log, which it does not open yet unless `is_open`."""
    url = database_url(database)
    viewer = Viewer()
    server = Server(viewer, "127.0.0.1", 0, on_drain=viewer.shut_down)
    await server.start()
    viewer.guard.port = server.port
    try:
        async with contextlib.AsyncExitStack() as stack:
            if is_open:
                viewer.show(await stack.enter_async_context(await open_log(url)), url)
            yield Viewing(viewer, server)
            await server.stop(grace_s=0)
    finally:
        server.drop_clients()


@contextlib.asynccontextmanager
async def shared(url: URL, tokens: Path) -> AsyncIterator[Viewing]:
    """A viewer for all who have a token of a file; `.of(token)` is it for one of them."""
    owners = Owners(url, TokenFile(tokens).bearer, DEFAULT_RULES)
    viewer = Viewer(owners)
    server = Server(viewer, "127.0.0.1", 0, on_drain=viewer.shut_down)
    await server.start()
    # not in a group: what a test claims in it would become a group of errors
    ending = asyncio.get_running_loop().create_task(viewer.end_revoked())
    try:
        yield Viewing(viewer, server)
    finally:
        ending.cancel()
        await server.stop(grace_s=0)
        await owners.close()


def fill(
    database: Path | URL,
    bodies: Iterable[bytes] = (stream(*WORDS),),
    cuts: Iterable[int] = (100, 200),
) -> None:
    """A session called demo, of an exchange for each body."""
    session = make_session(name="demo")
    with Store(database) as store:
        with store.transaction():
            store.add_session(session)
        for number, body in enumerate(bodies, 1):
            exchange, events = captured(
                body,
                cuts=cuts,
                request=b'{"model":"gpt-5"}',
                exchange=make_exchange(session, number),
            )
            with store.transaction():
                store.add_exchange(exchange)
                store.append(events)
                store.projector.project(exchange.session_id, exchange.exchange_id)
