"""The results of tools in the Responses format: the `*_output` items, of a request's input or of a response's output.

Images are not repeated: they are replaced by their size and digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.model.facts import ToolResult
from recorder.wire.dialects.json_values import Object, decoded, object_, objects, text, text_or_json, whole
from recorder.wire.dialects.media import without_bytes

_RESULTS: Mapping[str, tuple[str, str | None]] = {
    "function_call_output": ("output", None),
    "custom_tool_call_output": ("output", None),
    "local_shell_call_output": ("output", "local_shell"),
    "shell_call_output": ("output", "shell"),
    "apply_patch_call_output": ("output", "apply_patch"),
    "computer_call_output": ("output", "computer"),
    "multi_agent_call_output": ("output", None),
    "program_output": ("result", "program"),
    "tool_search_output": ("tools", "tool_search"),
}
"""By the type of the item: where its result stands, and what the tool is called (None: as the item says)."""

_TEXTS = frozenset({"input_text", "output_text", "text"})

_NOT_WELL = frozenset({"failed", "incomplete"})


def tool_result(item: Object) -> ToolResult | None:
    """Return the result that an item carries, if it does."""
    type = text(item.get("type")) or ""
    if type not in _RESULTS:
        return None
    field, name = _RESULTS[type]
    call_id = text(item.get("call_id"))
    if call_id is None and type == "local_shell_call_output":
        call_id = text(item.get("id"))  # is declared as the id of the call
    name = text(item.get("name")) or text(item.get("action")) or name
    return ToolResult(call_id, name, output_of(item.get(field)), _failed(item, item.get(field)))


def output_of(value: Any) -> str:
    """Return a result as text if it is only text, else as JSON."""
    if value is None:
        return ""
    parts = objects(value)
    if parts and len(parts) == len(value) and all(part.get("type") in _TEXTS for part in parts):
        return "\n".join(text(part.get("text")) or "" for part in parts)
    return text_or_json(without_bytes(value))


def _failed(item: Object, value: Any) -> bool | None:
    """Return whether a call failed, as far as a field of its result shows it: prose is not read."""
    status = text(item.get("status"))
    if status in _NOT_WELL:
        return True
    if item.get("type") == "apply_patch_call_output":
        return False if status == "completed" else None
    verdicts = _outcomes(value) if isinstance(value, list) else _exit_codes(value)
    return any(verdicts) if verdicts else None


def _outcomes(value: Any) -> list[bool]:
    """Return for each command that a shell ran whether it failed."""
    outcomes = [object_(each.get("outcome")) for each in objects(value)]
    return [whole(outcome.get("exit_code")) != 0 for outcome in outcomes if outcome]


def _exit_codes(value: Any) -> list[bool]:
    """Return whether the exit codes of a result are not 0, if it is JSON that has some (Codex: in its metadata)."""
    output = _object_in(value)
    codes = [whole(each.get("exit_code")) for each in (output, object_(output.get("metadata")))]
    return [code != 0 for code in codes if code is not None]


def _object_in(value: Any) -> Object:
    if not isinstance(value, str):
        return object_(value)
    try:
        return object_(decoded(value.encode())) if value.lstrip().startswith("{") else {}
    except ValueError:
        return {}
