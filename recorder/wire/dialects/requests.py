"""The requests that two sides of a conversation make of each other, each an item until its response
ends it.

Each side numbers its own requests: an id means another request on each side.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from recorder.model.facts import ItemStarted, ItemState

By = Literal["client", "server"]

WAITING = 10_000
"""Requests without a response that are remembered: no client has a hundredth of it open."""


class Request(msgspec.Struct, frozen=True):
    """A request that has no response yet."""

    key: str
    method: str
    stated: ItemState
    is_whole: bool = False  # it is the request of the exchange: its error is one of the exchange


class Requests:
    """Those that wait, of both sides."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[By, str], Request] = {}
        self._count = 0  # of requests: a client may use an id again

    def ask(
        self, by: By, id: str, method: str, stated: ItemState, *, is_whole: bool = False
    ) -> list[ItemStarted]:
        """Begin the item of a request."""
        if len(self._waiting) >= WAITING:
            return []
        self._count += 1
        request = Request(f"request {self._count}", method, stated, is_whole)
        self._waiting[by, id] = request
        return [ItemStarted(request.key, None, stated)]

    def answered(self, by: By, id: str) -> Request | None:
        """Return the request that a response is to; `by` is the side which answers."""
        return self._waiting.pop(("server" if by == "client" else "client", id), None)
