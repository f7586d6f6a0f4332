"""An answer that fits the JSON schema which a request asks for: routers and title makers of agents read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

TEXT = "Words about a stream"  # reads as a title, and as any other text
NUMBER = 42
DEPTH = 20  # of objects in objects; a schema that refers to itself would have no end

_SCALARS: Mapping[str, Any] = {"string": TEXT, "integer": NUMBER, "number": NUMBER, "boolean": True, "null": None}


def fill(schema: object, depth: int = DEPTH) -> Any:
    """Return the first value that the schema names, or a plain one of its type, whose case is of no matter."""
    if not isinstance(schema, Mapping) or not depth:
        return TEXT
    for named in ("const", "default"):
        if named in schema:
            return schema[named]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return fill(schema[choice][0], depth - 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    kind = str(kind or ("object" if "properties" in schema else "string")).lower()
    nested = _NESTED.get(kind)
    return nested(schema, depth - 1) if nested else _SCALARS.get(kind, TEXT)


def _object(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    return {name: fill(each, depth) for name, each in (schema.get("properties") or {}).items()}


def _array(schema: Mapping[str, Any], depth: int) -> list[Any]:
    return [fill(schema.get("items"), depth)]


_NESTED: Mapping[str, Callable[[Mapping[str, Any], int], Any]] = {"object": _object, "array": _array}
