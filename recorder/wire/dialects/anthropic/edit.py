"""An edited answer as one of Anthropic Messages."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.json_values import Object, object_


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the events of a stream; the usage in its `message_delta` is the recorded one."""
    start = next((each for each in recorded if each.get("type") == "message_start"), None)
    if start is None:
        raise LookupError("message_start")
    usage = object_(object_(start.get("message")).get("usage"))
    for each in recorded:
        if each.get("type") == "message_delta":
            usage = object_(each.get("usage")) or usage
    block = _block(answer)
    if answer.call is None:
        deltas = [{"type": "text_delta", "text": delta} for delta in answer.deltas]
        begun = {**block, "text": ""}
    else:
        deltas = [{"type": "input_json_delta", "partial_json": delta} for delta in answer.deltas]
        begun = {**block, "input": {}}
    return [
        start,
        {"type": "content_block_start", "index": 0, "content_block": begun},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": _stop(answer), "usage": usage},
        {"type": "message_stop"},
    ]


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return a message."""
    if recorded.get("type") != "message":
        raise LookupError("message")
    return {**recorded, "content": [_block(answer)], **_stop(answer)}


def _block(answer: EditedAnswer) -> Object:
    if answer.call is None:
        return {"type": "text", "text": answer.text}
    call = answer.call
    return {"type": "tool_use", "id": call.id("toolu_"), "name": call.name, "input": call.arguments}


def _stop(answer: EditedAnswer) -> Object:
    reason = "end_turn" if answer.call is None else "tool_use"
    return {"stop_reason": reason, "stop_sequence": None}
