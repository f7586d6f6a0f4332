"""An edited answer as one of Chat Completions: in its first choice, the only one."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.json_values import Object, objects


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the chunks of a stream; usage is where it was recorded, in a chunk of its own or in
    the last one.
    """
    first = next((each for each in recorded if objects(each.get("choices"))), None)
    if first is None:
        raise LookupError("choices")
    form = {name: value for name, value in first.items() if name != "obfuscation"}
    chunks = [_chunk(form, delta) for delta in _deltas(answer)]
    chunks.append(_chunk(form, {}, _reason(answer)))
    used = [each for each in recorded if each.get("usage")]
    if used and used[-1].get("choices"):
        chunks[-1] = {**chunks[-1], "usage": used[-1]["usage"]}
    elif used:
        chunks.append({name: value for name, value in used[-1].items() if name != "obfuscation"})
    return chunks


def document(recorded: Object, answer: EditedAnswer) -> Object:
    """Return a completion."""
    choices = objects(recorded.get("choices"))
    if not choices:
        raise LookupError("choices")
    message: Object = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.call is not None:
        message = {**message, "content": None, "tool_calls": [_call(answer, answer.call.json)]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    return {**recorded, "choices": [choice]}


def _chunk(form: Object, delta: Object, reason: str | None = None) -> Object:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    chunk = {**form, "choices": [choice]}
    return {**chunk, "usage": None} if "usage" in form else chunk


def _deltas(answer: EditedAnswer) -> list[Object]:
    if answer.call is None:
        begun: Object = {"role": "assistant", "content": ""}
        return [begun, *({"content": delta} for delta in answer.deltas)]
    begun = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"index": 0, **_call(answer, "")}],
    }
    parts = [[{"index": 0, "function": {"arguments": delta}}] for delta in answer.deltas]
    return [begun, *({"tool_calls": part} for part in parts)]


def _call(answer: EditedAnswer, arguments: str) -> Object:
    call = answer.call
    assert call is not None
    return {
        "id": call.id("call_"),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _reason(answer: EditedAnswer) -> str:
    return "stop" if answer.call is None else "tool_calls"
