"""An edited answer as one of Converse: its only block."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.json_values import Object


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the events of a stream, each by its type; the last one is the recorded one, with the
    usage.
    """
    start = next((each for each in recorded if "role" in each), None)
    if start is None:
        raise LookupError("messageStart")
    events: list[Object] = [{"messageStart": start}]
    if answer.call is not None:
        begun = {"toolUseId": answer.call.id("tooluse_"), "name": answer.call.name}
        events.append({"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": begun}}})
    for delta in answer.deltas:
        said: Object = {"text": delta} if answer.call is None else {"toolUse": {"input": delta}}
        events.append({"contentBlockDelta": {"contentBlockIndex": 0, "delta": said}})
    events += [
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": _reason(answer)}},
    ]
    return [*events, *({"metadata": each} for each in recorded if "usage" in each)]


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return a response."""
    if "output" not in recorded:
        raise LookupError("output")
    block: Object = {"text": answer.text}
    if answer.call is not None:
        call = answer.call
        block = {
            "toolUse": {
                "toolUseId": call.id("tooluse_"),
                "name": call.name,
                "input": call.arguments,
            }
        }
    message = {"role": "assistant", "content": [block]}
    return {**recorded, "output": {"message": message}, "stopReason": _reason(answer)}


def _reason(answer: EditedAnswer) -> str:
    return "end_turn" if answer.call is None else "tool_use"
