"""An edited answer as one of Ollama: a call comes whole, and only `/api/chat` has any."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.json_values import Object


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the lines of a stream, the last one with the recorded counts.

    Raises `LookupError` if there are none.
    """
    last = recorded[-1]
    deltas = answer.deltas if answer.call is None else [""]
    lines = [{**recorded[0], **_said(last, answer, delta), "done": False} for delta in deltas]
    empty = EditedAnswer("", None, ())
    return [*lines, {**last, **_said(last, empty, ""), "done": True, "done_reason": "stop"}]


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return an answer in one."""
    return {**recorded, **_said(recorded, answer, answer.text), "done": True, "done_reason": "stop"}


def _said(form: Object, answer: EditedAnswer, text: str) -> Object:
    """Return the members with a text, or with the call.

    Raises `LookupError` where a form cannot have it.
    """
    if "response" in form and answer.call is None:
        return {"response": text, "thinking": ""}
    if "message" not in form:
        raise LookupError("message")
    message: Object = {"role": "assistant", "content": text}
    if answer.call is not None:
        call = {"name": answer.call.name, "arguments": answer.call.arguments}
        message = {**message, "content": "", "tool_calls": [{"function": call}]}
    return {"message": message}
