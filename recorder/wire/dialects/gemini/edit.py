"""An edited answer as one of Gemini: in its first candidate, the only one. A call comes whole, in
one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.json_values import Object, objects


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the chunks of a stream, each with the usage of the last recorded one."""
    answered = [each for each in recorded if objects(each.get("candidates"))]
    if not answered:
        raise LookupError("candidates")
    form = answered[-1]
    if answer.call is not None:
        return [document(form, answer)]
    chunks = [_with(form, {"text": delta}) for delta in answer.deltas[:-1]]
    return [*chunks, _with(form, {"text": answer.deltas[-1]}, "STOP")]


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return a response."""
    if not objects(recorded.get("candidates")):
        raise LookupError("candidates")
    part: Object = {"text": answer.text}
    if answer.call is not None:
        part = {"functionCall": {"name": answer.call.name, "args": answer.call.arguments}}
    return _with(recorded, part, "STOP")


def _with(form: Object, part: Object, reason: str | None = None) -> Object:
    candidate: Object = {"content": {"parts": [part], "role": "model"}, "index": 0}
    if reason is not None:
        candidate = {**candidate, "finishReason": reason}
    return {**form, "candidates": [candidate]}
