"""The requests of the Responses format that continue a response or a conversation: only their new items are in them.

`previous_response_id` stands for the input of that response and its output items, in this order. `conversation` stands
for all that was added to it; a response adds its input and its output when it completes. What else a request has counts
for that request alone: OpenAI documents so of `instructions`, and tools and parameters are named by every request.

Sources: the API reference of `POST /responses` (`previous_response_id`, `conversation`, `instructions`), and recorded
WebSocket connections of Codex CLI 0.169.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recorder.model.facts import Links
from recorder.wire.dialects.dialect import Continuation
from recorder.wire.dialects.json_values import Object, array, object_, objects, request_object, text, whole

_ITEM_DONE = b"response.output_item.done"
_HAS_OUTPUT = b'"output"'  # in the last event, and in a document

OF_THE_RESPONSE = frozenset({"id", "status", "phase", "created_by", "internal_chat_message_metadata_passthrough"})
"""Members of items that only some clients send back, or with another value."""

_TEXTS = frozenset({"input_text", "output_text", "text"})


def links(request: Object) -> Links:
    """Return the ids by which a request continues something. The API refuses a request with both."""
    conversation = request.get("conversation")
    id = conversation if isinstance(conversation, str) else object_(conversation).get("id")
    return Links(text(request.get("previous_response_id")) or None, text(id) or None)


def own_items(request: Object) -> Sequence[Any]:
    """Return the items that stand in a request. A text is a message of the user."""
    given = request.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else array(given)


def output_items(payloads: Iterable[bytes]) -> Sequence[Any]:
    """Return the finished output items of a response: as its last event states them, else each as it was finished.

    Some servers leave the items out of the last event.
    """
    finished: list[tuple[int, Object]] = []
    stated: Sequence[Object] = ()
    for payload in payloads:
        if _ITEM_DONE not in payload and _HAS_OUTPUT not in payload:
            continue
        event = request_object(payload)
        if isinstance(item := event.get("item"), dict) and event.get("type") == _ITEM_DONE.decode():
            index = whole(event.get("output_index"))
            finished.append((len(finished) if index is None else index, item))
        response = event if "output" in event else object_(event.get("response"))
        stated = objects(response.get("output")) or stated
    return stated or [item for _, item in sorted(finished, key=lambda each: each[0])]


def compared(item: Any) -> Any:
    """Return an item without what clients leave out when they send it back, or write in another way.

    Reasoning is left out: few clients send it back, and only the provider can read it.
    """
    if not isinstance(item, dict):
        return item
    type = item.get("type") or "message"
    if type == "reasoning":
        return None
    kept = {name: each for name, each in item.items() if each is not None and name not in OF_THE_RESPONSE}
    if type != "message":
        return kept
    content = item.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else array(content)
    return {**kept, "type": type, "content": [_part(part) for part in parts]}


def _part(part: Any) -> Any:
    """Return a part of a message. The text of one has another type in the input than in the output."""
    fields = object_(part)
    return {"type": "text", "text": fields.get("text")} if fields.get("type") in _TEXTS else part


CONTINUATION = Continuation(
    fields=("previous_response_id", "conversation"),
    items="input",
    links=links,
    input=own_items,
    output=output_items,
    compared=compared,
)
