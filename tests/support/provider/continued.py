"""Conversations by the response that ends them: a request with `previous_response_id` has only what
is new.

The services keep them, too. What a request says of itself, as `instructions` and `tools`, is not
part of them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

Items = list[Any]

LIMIT = 64  # conversations: clients continue the last one
BYTES_LIMIT = 2**26  # of all of them: each holds its whole history


class ContinuedResponses:
    """The newest conversations, encoded: objects would need five times the memory."""

    def __init__(self) -> None:
        self._items = OrderedDict[str, bytes]()
        self._size = 0

    def find(self, response_id: object) -> Items | None:
        """Return the conversation that a response ends, or None if it is not known."""
        encoded = self._items.get(response_id) if isinstance(response_id, str) else None
        return json.loads(encoded) if encoded is not None else None

    def whole_input(self, body: dict[str, Any]) -> Items:
        """Return the items of a request, those of the conversation that it continues first."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        return [
            *(self.find(body.get("previous_response_id")) or ()),
            *(items if isinstance(items, list) else ()),
        ]

    def add(self, response_id: str, items: Items) -> None:
        """Keep a conversation; the oldest go first."""
        encoded = json.dumps(items).encode()
        self._size += len(encoded) - len(self._items.pop(response_id, b""))
        self._items[response_id] = encoded
        while len(self._items) > LIMIT or self._size > BYTES_LIMIT:
            self._size -= len(self._items.popitem(last=False)[1])
