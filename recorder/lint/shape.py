"""The shapes of JSON that an API declares, and where a value departs from them.

Shapes are written as text, one after another; a line that begins with a space continues the one
before:

    part.output_text: text!:text annotations!:[annotation] logprobs:[logprob]

This is the shape of a `part` (a family) whose `type` is `output_text`; types with the same fields
stand with commas between, `part.input_text,output_text:`. `[kind]` is an array of that kind,
`{kind}` an object whose fields are all of it, `'high'` this text alone. `!` is a field that must be
there and not be null; any other may be missing or null. Undeclared fields are not judged, and
neither is an object whose `type` its family does not know: APIs grow.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from recorder.model.text import rows


class Misfit(NamedTuple):
    """A value that is not of the kind that its place has."""

    path: str  # `output[0].content`; empty: the value itself
    wanted: str
    value: Any  # None, if it is missing or null


class Field(NamedTuple):
    """The value that an object may have under a name."""

    is_required: bool
    # it is of one of these: plain, the name of a shape or a family, `[kind]`, `{kind}`
    kinds: tuple[str, ...]


Shape = Mapping[str, Field]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and value == value // 1


def _is_base64(value: Any) -> bool:
    """Return whether a text is base64 as pydantic reads it, in either alphabet."""
    if not isinstance(value, str):
        return False
    try:
        encoded = value.replace("-", "+").replace("_", "/")
        b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_numeric(value: Any) -> bool:
    """Return whether a value is a number, or the text of one: Google's JSON writes numbers larger
    than a double so.
    """
    return _as_number(value) is not None


def _is_integer(value: Any) -> bool:
    """Return whether a value is a whole number, or the text of one, as pydantic reads it."""
    number = _as_number(value)
    return number is not None and _is_whole(number)


def _as_number(value: Any) -> float | None:
    if not isinstance(value, str):
        return value if _is_number(value) else None
    try:
        return float(value)
    except ValueError:
        return None


PLAIN: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a text", lambda value: isinstance(value, str)),
    "whole": ("a whole number", _is_whole),
    "number": ("a number", _is_number),
    "numeric": ("a number", _is_numeric),
    "integer": ("a whole number", _is_integer),
    # pydantic reads seconds, too
    "time": ("a time", lambda value: isinstance(value, str) or _is_number(value)),
    "truth": ("true or false", lambda value: isinstance(value, bool)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "base64": ("base64", _is_base64),
    "any": ("an object", lambda value: True),
}
"""The kinds that are no shapes: in words, and whether a value is of one."""


_BRACKETS: Mapping[type, str] = {list: "[", dict: "{"}


class Shapes:
    """All shapes of an API, by name."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def by_name(self) -> Mapping[str, Shape]:
        found: dict[str, Shape] = {}
        for line in rows(self.text):
            family, types, shape = _shape(line)
            found |= dict.fromkeys([f"{family}{type}" for type in types], shape)
        return found

    @cached_property
    def families(self) -> Mapping[str, Mapping[str, Shape]]:
        """Return the shapes of a family, by the `type` of their objects."""
        found: dict[str, dict[str, Shape]] = {}
        for name, shape in self.by_name.items():
            family, point, type = name.partition(".")
            if point:
                found.setdefault(family, {})[type] = shape
        return found

    def misfits(self, value: Any, *kinds: str, path: str = "") -> Iterable[Misfit]:
        """Yield where a value departs from the kinds of which it has to be one."""
        inner = next((kind[1:-1] for kind in kinds if kind[0] == _BRACKETS.get(type(value))), None)
        names = [kind for kind in kinds if kind in self.by_name or kind in self.families]
        if inner is not None:
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.misfits(each, inner, path=f"{path}[{key}]")
        elif isinstance(value, dict) and names:
            yield from self._object(value, names[0], path)
        elif (
            not any(kind in PLAIN and PLAIN[kind][1](value) for kind in kinds)
            and repr(value) not in kinds
        ):
            yield Misfit(path, _called(kinds), value)

    def _object(self, value: Mapping[str, Any], name: str, path: str) -> Iterable[Misfit]:
        of_family, type = self.families.get(name), value.get("type")
        if of_family is not None and not isinstance(type, str):
            yield Misfit(_joined(path, "type"), "a text", type)
            return
        shape = self.by_name[name] if of_family is None else of_family.get(str(type), {})
        for field, (is_required, kinds) in shape.items():
            child = value.get(field)
            if child is not None:
                yield from self.misfits(child, *kinds, path=_joined(path, field))
            elif is_required:
                yield Misfit(_joined(path, field), _called(kinds), None)


def _joined(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _shape(line: str) -> tuple[str, Sequence[str], Shape]:
    """Return the family of a line with its point, its types, and the shape that they have."""
    name, _, fields = line.partition(":")
    shape = {}
    for field in fields.split():
        field_name, _, kinds = field.partition(":")
        shape[field_name.removesuffix("!")] = Field(
            field_name.endswith("!"), tuple(kinds.split("|"))
        )
    family, point, types = name.replace(" ", "").partition(".")
    return (f"{family}.", types.split(","), shape) if point else ("", [family], shape)


def _called(kinds: Iterable[str]) -> str:
    """Return the kinds in words: `a text`, `an array`, `an object`."""
    return " or ".join(dict.fromkeys(map(_word, kinds)))


def _word(kind: str) -> str:
    if kind[0] in "['":
        return "an array" if kind[0] == "[" else kind
    return PLAIN[kind][0] if kind in PLAIN else "an object"
