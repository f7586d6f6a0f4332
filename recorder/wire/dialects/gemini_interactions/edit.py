"""An edited answer as one of Interactions: its only step."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.gemini_interactions.decoder import COMPLETED
from recorder.wire.dialects.json_values import Object, object_

_OPENING = ("interaction.created", "interaction.status_update")


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the events of a stream, whose end is the recorded one."""
    first = next(
        (number for number, each in enumerate(recorded) if each.get("event_type") in _OPENING), None
    )
    if first is None:
        raise LookupError("interaction.created")
    opening = [
        each
        for each in recorded
        if each.get("event_type") in _OPENING and each.get("status") in _RUNNING
    ]
    final = next(
        (each for each in recorded if each.get("event_type") == COMPLETED), recorded[first]
    )
    interaction = {**object_(final.get("interaction")), "status": _status(answer)}
    return [
        *opening,
        *_step_events(answer),
        {**final, "event_type": COMPLETED, "interaction": interaction},
    ]


_RUNNING = (None, "queued", "in_progress")


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return an interaction."""
    if "steps" not in recorded and "status" not in recorded:
        raise LookupError("steps")
    return {**recorded, "status": _status(answer), "steps": [_step(answer)]}


def _status(answer: EditedAnswer) -> str:
    return "completed" if answer.call is None else "requires_action"


def _step(answer: EditedAnswer) -> Object:
    if answer.call is None:
        return {"type": "model_output", "content": [{"type": "text", "text": answer.text}]}
    call = answer.call
    return {
        "type": "function_call",
        "id": call.id("call_"),
        "name": call.name,
        "arguments": call.arguments,
    }


def _step_events(answer: EditedAnswer) -> list[Object]:
    if answer.call is None:
        begun: Object = {"type": "model_output"}
        deltas: list[Object] = [{"text": delta, "type": "text"} for delta in answer.deltas]
    else:
        begun = {**_step(answer), "arguments": {}}
        deltas = [{"arguments": delta, "type": "arguments_delta"} for delta in answer.deltas]
    return [
        {"index": 0, "step": begun, "event_type": "step.start"},
        *({"index": 0, "delta": delta, "event_type": "step.delta"} for delta in deltas),
        {"index": 0, "event_type": "step.stop"},
    ]
