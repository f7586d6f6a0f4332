"""The requests of a run, as far as a verdict looks at them."""

from __future__ import annotations

from typing import NamedTuple

from recorder.proxy.http.messages import Request, Response, Transport
from recorder.replay.transport import MISS_HEADER, match_request
from recorder.wire.dialects import by_path

REQUESTS_LIMIT = 1_000
"""Requests of a run that are looked at: a client that asks more often repeats itself."""


class AskedRequest(NamedTuple):
    """A request."""

    items: int | None  # messages and other items in it; None: nobody here knows what it says
    results: int  # of tools
    is_missed: bool  # nothing recorded answers it


class NotingTransport:
    """A transport that notes the requests that pass to `inner`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.requests: list[AskedRequest] = []

    async def handle_async_request(self, request: Request) -> Response:
        body = await request.aread()
        response = await self._inner.handle_async_request(request)
        if len(self.requests) < REQUESTS_LIMIT:
            self.requests.append(_asked(request, body, is_missed=MISS_HEADER in response.headers))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _asked(request: Request, body: bytes, *, is_missed: bool) -> AskedRequest:
    asked = match_request(request, body)
    items, results = counted_items(asked.method, asked.target, asked.body)
    return AskedRequest(items, results, is_missed)


def counted_items(method: str, target: str, body: bytes) -> tuple[int | None, int]:
    """Return the number of items in a request, if somebody here knows what it says, and of results of tools."""
    path = target.partition("?")[0]
    conversation = by_path(method, path).read_request(path, body)
    if conversation is None:
        return None, 0
    return len(conversation.messages), sum(1 for _ in conversation.results())
