"""An edited answer as one of Responses: its only output item."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer, EditedCall
from recorder.wire.dialects.json_values import Object, object_

_OPENING = ("response.created", "response.queued", "response.in_progress")
_FINAL = ("response.completed", "response.incomplete", "response.failed")


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the events of a stream, numbered again; the response that ends it is the recorded one."""
    opening = [each for each in recorded if each.get("type") in _OPENING]
    if not opening:
        raise LookupError("response.created")
    final = next((each for each in recorded if each.get("type") in _FINAL), opening[-1])
    events = [*opening, *_item_events(answer)]
    events.append(
        {"type": "response.completed", "response": document(object_(final.get("response")), answer)}
    )
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return a response."""
    if recorded.get("object") != "response":
        raise LookupError("response")
    made = {
        **recorded,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [_item(answer)],
    }
    return {**made, "output_text": answer.text} if "output_text" in recorded else made


def _item_events(answer: EditedAnswer) -> list[Object]:
    item = _item(answer)
    if answer.call is None:
        begun: Object = {**item, "status": "in_progress", "content": []}
        inner = _text_events(answer, item["id"])
    else:
        begun = {**item, "status": "in_progress", "arguments": ""}
        inner = _call_events(answer, answer.call, item["id"])
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *inner,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]


def _text_events(answer: EditedAnswer, id: str) -> list[Object]:
    place = {"item_id": id, "output_index": 0, "content_index": 0}
    deltas = [
        {"type": "response.output_text.delta", **place, "delta": delta, "logprobs": []}
        for delta in answer.deltas
    ]
    return [
        {"type": "response.content_part.added", **place, "part": _part("")},
        *deltas,
        {"type": "response.output_text.done", **place, "text": answer.text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": _part(answer.text)},
    ]


def _call_events(answer: EditedAnswer, call: EditedCall, id: str) -> list[Object]:
    place = {"item_id": id, "output_index": 0}
    deltas = [
        {"type": "response.function_call_arguments.delta", **place, "delta": delta}
        for delta in answer.deltas
    ]
    ending = {
        "type": "response.function_call_arguments.done",
        **place,
        "arguments": call.json,
        "name": call.name,
    }
    return [*deltas, ending]


def _item(answer: EditedAnswer) -> Object:
    call = answer.call
    if call is None:
        id = EditedCall("message", {"text": answer.text}).id("msg_")
        content = [_part(answer.text)]
        return {
            "id": id,
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
    named = {"call_id": call.id("call_"), "name": call.name, "arguments": call.json}
    return {"id": call.id("fc_"), "type": "function_call", "status": "completed", **named}


def _part(text: str) -> Object:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
