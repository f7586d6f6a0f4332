"""Requests for our transports, made as a client of httpx makes them, and the transport to an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx

from recorder.proxy.http.messages import IteratedUpload, Request
from recorder.proxy.http.network import DIRECT, Network
from recorder.proxy.upstream import UpstreamTransport
from recorder.testing.libraries import adapted_request


def request_for(method: str, url: str, **how: Any) -> Request:
    """Return the request that `httpx.Request` makes of the same arguments; its body can only be iterated."""
    made = httpx.Request(method, url, **how)
    return adapted_request(made, IteratedUpload(cast(AsyncIterable[bytes], made.stream)))


@asynccontextmanager
async def upstream_transport(network: Network = DIRECT) -> AsyncIterator[UpstreamTransport]:
    """The transport to upstreams that the proxy has."""
    transport = UpstreamTransport(network)
    try:
        yield transport
    finally:
        await transport.aclose()
