"""The servers that listen, each before an upstream at `base`: recorder, mock, and that of the pytest plugin."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from recorder.commands.mock import Mock
from recorder.commands.serving.answering import Answering
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.replay.matching.noise import DEFAULT_RULES
from recorder.testing.loopback import Loopback
from tests.support.proxy import proxied, served

Serve = Callable[[Path, str], AbstractAsyncContextManager[int]]


@asynccontextmanager
async def _recorder(folder: Path, base: str) -> AsyncIterator[int]:
    async with proxied(folder, base) as proxy:
        yield proxy.server.port


@asynccontextmanager
async def _mock(folder: Path, base: str) -> AsyncIterator[int]:
    """As `recorder mock --otherwise forward` wires it."""
    answering = Answering([], DEFAULT_RULES, upstreams=[Upstream("openai", base)], otherwise=UpstreamTransport())
    async with contextlib.aclosing(answering), served(Mock(answering, ()), answering.proxy.shutdown) as server:
        yield server.port


@asynccontextmanager
async def _plugin(folder: Path, base: str) -> AsyncIterator[int]:
    loopback = Loopback(UpstreamTransport(), Routes([Upstream("openai", base)]))
    try:
        yield int(loopback.url.rpartition(":")[2])
    finally:
        loopback.close()


SERVERS: Mapping[str, Serve] = {"serve": _recorder, "mock": _mock, "plugin": _plugin}
