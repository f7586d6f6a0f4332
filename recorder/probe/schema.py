"""The schemas of a probe's tools and structured answers, and where a value does not fit them.

Only what these schemas use of JSON Schema is known here: types, properties, required, enum, items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from recorder.lint.faults import is_whole_number
from recorder.lint.shape import PLAIN, Misfit

_CITY = {"type": "string", "description": "The name of the city, in English"}

TOOL = "get_weather"

WEATHER: Mapping[str, Any] = {
    "type": "object",
    "properties": {"city": _CITY, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
"""The arguments of that tool."""

CITY: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": _CITY,
        "inhabitants": {"type": "integer"},
        "is_capital": {"type": "boolean"},
        "rivers": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "inhabitants", "is_capital", "rivers"],
    "additionalProperties": False,
}
"""The schema of a structured answer."""

_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "object": PLAIN["object"],
    "array": ("an array", lambda value: isinstance(value, list)),
    "string": PLAIN["text"],
    "integer": ("a whole number", is_whole_number),
    "boolean": PLAIN["truth"],
}


def misfits(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterable[Misfit]:
    """Yield where a value does not fit a schema."""
    wanted, is_one = _TYPES[schema["type"]]
    if not is_one(value):
        yield Misfit(path, wanted, value)
    elif "enum" in schema and value not in schema["enum"]:
        yield Misfit(path, f"one of {', '.join(schema['enum'])}", value)
    elif isinstance(value, dict):
        properties = schema["properties"]
        for name, each in properties.items():
            inner = f"{path}.{name}" if path else name
            if name in value:
                yield from misfits(value[name], each, inner)
            elif name in schema["required"]:
                yield Misfit(inner, _TYPES[each["type"]][0], None)
        yield from (
            Misfit(name, "left out: the schema has no such field", value[name])
            for name in {*value} - {*properties}
        )
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from misfits(each, schema["items"], f"{path}[{index}]")
