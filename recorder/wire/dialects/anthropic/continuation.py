"""The requests to Anthropic Messages that continue a thread: only the new turn's messages are in them.

`{"thread": {"type": "continue", "previous_message_id": …}}` stands for the messages of the request that this response
answered, and the response as a message of the assistant. Source: `thread` of `MessageCreateParams` in anthropic-python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recorder.model.facts import Links
from recorder.wire.dialects.dialect import Continuation
from recorder.wire.dialects.json_values import Object, array, decoded, object_, objects, request_object, text, whole

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""By the type of a delta, the member of its block that it adds to."""

_REASONING = frozenset({"thinking", "redacted_thinking"})
_NOT_SENT_BACK = frozenset({"cache_control", "citations"})


def links(request: Object) -> Links:
    """Return the id of the response that a request continues; one that begins a thread continues none."""
    thread = object_(request.get("thread"))
    return Links(text(thread.get("previous_message_id")) or None if thread.get("type") == "continue" else None)


def _messages(request: Object) -> Sequence[Any]:
    return array(request.get("messages"))


def _answer(payloads: Iterable[bytes]) -> Sequence[Any]:
    """Return a response as a message of the assistant: from a document, or from the blocks of a stream."""
    blocks: dict[int, dict[str, Any]] = {}
    for event in map(request_object, payloads):
        index = whole(event.get("index")) or 0
        if event.get("type") == "message":
            blocks |= dict(enumerate(map(dict, objects(event.get("content")))))
        elif event.get("type") == "content_block_start":
            blocks[index] = dict(object_(event.get("content_block")))
        elif event.get("type") == "content_block_delta":
            _add(blocks.setdefault(index, {}), object_(event.get("delta")))
    content = [_finished(block) for _, block in sorted(blocks.items())]
    return [{"role": "assistant", "content": content}] if content else []


_INPUT = "(input)"  # the JSON of a call so far; no member is named so


def _add(block: dict[str, Any], delta: Object) -> None:
    type = text(delta.get("type")) or ""
    if type == "input_json_delta":
        block[_INPUT] = block.get(_INPUT, "") + (text(delta.get("partial_json")) or "")
    elif type == "citations_delta":
        block["citations"] = [*array(block.get("citations")), delta.get("citation")]
    elif type in _DELTAS:
        name = _DELTAS[type]
        block[name] = (text(block.get(name)) or "") + (text(delta.get(name)) or "")


def _finished(block: dict[str, Any]) -> Object:
    written = block.pop(_INPUT, "")
    if written:
        try:
            block["input"] = decoded(written.encode("utf-8", "surrogatepass"))
        except ValueError:
            block["input"] = written  # it broke off
    return block


def compared(message: Any) -> Any:
    """Return a message without what clients leave out when they send it back: reasoning, citations, cache marks."""
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    kept = [
        {name: each for name, each in block.items() if name not in _NOT_SENT_BACK}
        for block in blocks
        if block.get("type") not in _REASONING
    ]
    return {**message, "content": kept}


CONTINUATION = Continuation(
    fields=("thread",),
    items="messages",
    links=links,
    input=_messages,
    output=_answer,
    compared=compared,
    is_one_message=True,
)
