"""JSON in one form, whatever clients change when they repeat it: what digests are made of."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec

from recorder.wire.dialects.json_values import objects, text

_NOT_SAID = frozenset({"cache_control", "tool_use_id"})
"""Fields of a part of a message that are not what it says."""


def canonical(value: Any) -> bytes:
    """Encode JSON that is the same whatever the order of its fields."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, TypeError, msgspec.MsgspecError):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def canonical_message(role: Any, content: Any) -> bytes:
    """Encode a message. One text may be written as it is, or as the only part of a list."""
    if not isinstance(content, list):
        return canonical([role, content])
    parts = [_said(part) for part in objects(content)]
    if len(parts) == len(content) == 1 and parts[0].keys() <= {"type", "text"}:
        return canonical([role, text(parts[0].get("text"))])
    return canonical([role, parts])


def _said(part: Any) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in _NOT_SAID}


def texts_of(content: Any) -> list[str]:
    """Return the texts of an answer's content; of a part without one, its refusal."""
    if isinstance(content, str):
        return [content]
    texts = []
    for part in objects(content):
        said = part.get("text")
        texts.append(part.get("refusal") if said is None else said)
    return [said for said in texts if isinstance(said, str)]


def decoded_arguments(arguments: Any) -> Any:
    """Return the arguments of a call, given as JSON or as text of it, in whatever order its fields are."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments


def call_place(name: str | None, arguments: Any) -> str:
    """Return what a call has in a response and where a request repeats it, whatever became of its id: its name, and a
    digest of its arguments, given as JSON or as text of it. Clients write 1 for 1.0.
    """
    arguments = decoded_arguments(arguments)
    try:
        arguments = _with_integers(arguments)
    except RecursionError:
        pass
    return f"{name or ''} {sha256(canonical(arguments)).hexdigest()[:16]}"


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
