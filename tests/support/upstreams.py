"""An upstream that sends exactly these pieces: which ones, the body of the request says.

async with Upstream({"one": Answer([head, …pieces…])}) as upstream:
    … request("/v1/responses", "one") to a recorder before upstream.base …
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Self

from recorder.commands.mock import Mock
from recorder.commands.serving.answering import Answering
from recorder.proxy import routing
from recorder.proxy.routing import Routes
from recorder.proxy.upstream import UpstreamTransport
from recorder.replay.matching.noise import DEFAULT_RULES
from recorder.testing.loopback import Loopback
from tests.support.proxy import proxied, served
from tests.support.sockets import listening

_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)


class Answer:
    """The pieces of a response as they go into the socket, one `send` each, `every_s` apart."""

    def __init__(
        self, pieces: Sequence[bytes], *, every_s: float = 0.0, close: bool = False
    ) -> None:
        self.pieces, self.every_s, self.close = pieces, every_s, close
        self.sent_s: list[float] = []  # when each piece went out


def request(path: str, key: str, *headers: str, method: str = "POST") -> bytes:
    """A request for the answer of that name."""
    body = json.dumps({"answer": key, "stream": True}).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def asked(body: bytes) -> str:
    """Which answer a request was for."""
    return str(json.loads(body)["answer"])


class Upstream:
    """Gives each request the answer it names."""

    def __init__(self, answers: Mapping[str, Answer] | Callable[[str], Answer]) -> None:
        self._find = answers if callable(answers) else answers.__getitem__

    async def __aenter__(self) -> Self:
        self._open = contextlib.AsyncExitStack()
        self.base = await self._open.enter_async_context(listening(self._serve))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_open = True
        while is_open:
            head = await reader.readuntil(b"\r\n\r\n")
            found = _LENGTH.search(head)
            answer = self._find(asked(await reader.readexactly(int(found[1]) if found else 0)))
            await self._send(writer, answer)
            is_open = not answer.close

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        started = time.monotonic()
        for number, piece in enumerate(answer.pieces):
            writer.write(piece)
            answer.sent_s.append(time.monotonic())
            await writer.drain()
            await asyncio.sleep(
                max(0.0, started + (number + 1) * answer.every_s - time.monotonic())
            )


# -- The servers that listen, each before an upstream at `base`: recorder, mock, and that of the
# pytest plugin


Serve = Callable[[Path, str], AbstractAsyncContextManager[int]]


@asynccontextmanager
async def _recorder(folder: Path, base: str) -> AsyncIterator[int]:
    async with proxied(folder, base) as proxy:
        yield proxy.server.port


@asynccontextmanager
async def _mock(folder: Path, base: str) -> AsyncIterator[int]:
    """As `recorder mock --otherwise forward` wires it."""
    answering = Answering(
        [],
        DEFAULT_RULES,
        upstreams=[routing.Upstream("openai", base)],
        otherwise=UpstreamTransport(),
    )
    async with (
        contextlib.aclosing(answering),
        served(Mock(answering, ()), answering.proxy.shutdown) as server,
    ):
        yield server.port


@asynccontextmanager
async def _plugin(folder: Path, base: str) -> AsyncIterator[int]:
    loopback = Loopback(UpstreamTransport(), Routes([routing.Upstream("openai", base)]))
    try:
        yield int(loopback.url.rpartition(":")[2])
    finally:
        loopback.close()


SERVERS: Mapping[str, Serve] = {"serve": _recorder, "mock": _mock, "plugin": _plugin}
