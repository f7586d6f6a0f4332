"""The logical request: all that the model saw, where a request holds only what is new since an earlier response.

`previous_response_id` stands for the input of that response and the items that came back. A client over WebSocket sends
it with almost every request, the same client over HTTP sends the whole history: both are the same request here.

Rules of this file:

* A link that is not among the recordings stays as it is: then the ids are compared.
* Items that came back are compared without what only the provider writes: ids, states, annotations. A client that
  sends them again leaves these out, or not.
* Pure, and never raises. An expanded request has at most `LOGICAL_ITEMS` items.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recorder.model.recording import Recording
from recorder.replay.matching.by_id import finished_output, response_id
from recorder.replay.matching.once import Once
from recorder.wire.dialects.json_values import Object, array, as_json, object_, request_object, text

LOGICAL_ITEMS = 4096
"""The most items of an expanded request: no conversation is near it, and a chain of recordings may be a circle."""

MADE_LIMIT = 256
"""Prewarms without a recording that are remembered, the oldest forgotten first: one for each open connection, and
nobody replays to so many at once."""

LINK = "previous_response_id"

_OF_THE_PROVIDER = frozenset({"id", "status", "phase", "internal_chat_message_metadata_passthrough"})
_TEXTS = frozenset({"input_text", "output_text"})

Exchanged = tuple[bytes, Recording]
"""The body of a request for a response, and its recording."""


class History:
    """The conversations that responses end, by the id of the response."""

    def __init__(self, exchanges: Callable[[], Iterable[Exchanged]]) -> None:
        """`exchanges` gives those that may have made a response; it is called when the first link is looked up."""
        self._exchanges = exchanges
        self._made = OrderedDict[str, bytes]()

    def add(self, id: str, body: bytes) -> None:
        """Add a response without output that answered a request with this body."""
        self._made[id] = body
        while len(self._made) > MADE_LIMIT:
            self._made.popitem(last=False)

    def is_linked(self, body: bytes) -> bool:
        """Return whether a request goes on from a response that is known here."""
        return self._link(body) is not None

    def logical(self, body: bytes) -> bytes:
        """Return a request with its whole input, in the form in which logical requests are compared."""
        request = request_object(body)
        if "input" not in request:
            return body
        items = _items(request["input"])
        seen = set[str]()
        rest: Object = request
        while (id := text(rest.get(LINK))) is not None and id not in seen and len(items) <= LOGICAL_ITEMS:
            seen.add(id)
            before = self._before(id)
            if before is None:
                break
            rest, output = before
            items[:0] = [*_items(rest.get("input")), *output]
        whole = {**request, "input": [_compared(item) for item in items]}
        if seen and text(rest.get(LINK)) is None:
            whole.pop(LINK)
        elif seen:
            whole[LINK] = rest[LINK]
        return as_json(whole).encode()

    def _link(self, body: bytes) -> str | None:
        if LINK.encode() not in body:
            return None
        id = text(request_object(body).get(LINK))
        return id if id is not None and self._before(id) is not None else None

    def _before(self, id: str) -> tuple[Object, Sequence[Any]] | None:
        """Return the request that a response answered, and its output."""
        if id in self._made:
            return request_object(self._made[id]), ()
        found = self._recorded.get(id)
        return None if found is None else (request_object(found[0]), finished_output(found[1]))

    @Once
    def _recorded(self) -> Mapping[str, Exchanged]:
        found: dict[str, Exchanged] = {}
        for exchanged in self._exchanges():
            if (id := response_id(exchanged[1])) is not None:
                found.setdefault(id, exchanged)
        return found


def _items(given: Any) -> list[Any]:
    """Return an input as items; a text is a message of the user."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(array(given))


def _compared(item: Any) -> Any:
    """Return an item without what only the provider writes, its content as a list."""
    if not isinstance(item, dict):
        return item
    kept = {name: value for name, value in item.items() if name not in _OF_THE_PROVIDER and value is not None}
    if "role" in kept:
        kind = "output_text" if kept["role"] == "assistant" else "input_text"
        content = kept.get("content")
        parts = [{"type": kind, "text": content}] if isinstance(content, str) else array(content)
        kept = {**kept, "type": "message", "content": [_part(part) for part in parts]}
    return kept


def _part(part: Any) -> Any:
    fields = object_(part)
    return {"type": fields["type"], "text": fields.get("text")} if fields.get("type") in _TEXTS else part
