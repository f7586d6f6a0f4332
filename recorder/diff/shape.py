"""Level `shape`: what stays the same when a model answers once more, in other words and other
numbers of them.

Compared are the status, the content type and how the response ended; which kinds of items it has,
and which tools are called; which events there are, and the fields of each with their JSON types.
How often, in which order and with which values is not, nor is an object of a type that only one
side has: its item or its event is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from recorder.diff.compared import ComparedRecording
from recorder.diff.levels import compared
from recorder.diff.noise_filter import BLANK
from recorder.diff.report import Difference, LevelReport, Terms, cut, found
from recorder.diff.steps import Step, steps
from recorder.projections.rows import ItemRow
from recorder.wire.dialects.json_values import as_json

SHOWN = 120  # characters of a value

_ENDS = ("response", "end")  # steps whose values are compared: the head, and how it ended
_CHANCE = "retry-after"  # of a head: seconds that a server makes up
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    dict: "object",
    list: "list",
}
_UNKNOWN = "unknown"  # a null, an empty list, or what another level owns: it may be of any type


class _Sample(NamedTuple):
    """A value that was seen first in some place, and the event that has it."""

    value: Any
    pos: int


_ObjectPath = tuple[str, str]
"""An event, and the path of an object in it with the types of the objects on the way."""

_Fields = dict[str, dict[str, _Sample]]
"""The fields of all objects in one place, each with a sample of each JSON type that it has."""


def shape(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare what is stable. With `exact` it is the same: noise has a shape, too."""
    terms = msgspec.structs.replace(terms, exact=False)
    return found("shape", _differences(_Shape(a, terms), _Shape(b, terms)))


class _Shape:
    """What is compared of one side."""

    def __init__(self, side: ComparedRecording, terms: Terms) -> None:
        self.ends: dict[str, dict[str, Any]] = {}
        self.events: dict[str, _Sample] = {}
        self.objects: dict[_ObjectPath, _Fields] = {}
        self.items = {_item(row): None for row in side.items}
        for step in steps(side, terms).steps:
            if step.kind in _ENDS:
                self.ends[step.kind] = {
                    name: each for name, each in step.value.items() if name != _CHANCE
                }
            elif not step.is_keep_alive:
                self.events.setdefault(step.name, _Sample(step.value, step.pos))
                self._add(step, "", step.value)

    def _add(self, step: Step, path: str, value: Any) -> None:
        """Add the fields of an object, and those of what is in it."""
        if value.__class__ is list:
            for each in value:
                self._add(step, f"{path}.*", each)
        elif value.__class__ is dict:
            path = (
                f"{path}[{value['type']}]" if path and value.get("type").__class__ is str else path
            )
            fields = self.objects.setdefault((step.name, path), {})
            for name, each in value.items():
                fields.setdefault(name, {}).setdefault(_type_of(each), _Sample(each, step.pos))
                self._add(step, f"{path}.{name}", each)


def _item(row: ItemRow) -> str:
    """Return the kind of an item, with the name of the tool that it calls."""
    return f"{row.kind} {row.name or row.type}" if row.kind in ("tool_call", "other") else row.kind


def _type_of(value: Any) -> str:
    if value in (None, BLANK) or value == []:
        return _UNKNOWN
    return _TYPES[value.__class__]


def _differences(a: _Shape, b: _Shape) -> Iterator[Difference]:
    for kind in _ENDS:
        yield from compared(kind, a.ends.get(kind), b.ends.get(kind))
    yield from (Difference("items", "missing", a=item) for item in a.items if item not in b.items)
    yield from (Difference("items", "added", b=item) for item in b.items if item not in a.items)
    yield from _one_sided("", a.events, b.events)
    for (event, path), fields in a.objects.items():
        others = b.objects.get((event, path), {})
        if others:
            yield from _of_fields(f"{event} · {path[1:]}{'.' if path else ''}", fields, others)


def _of_fields(where: str, a: _Fields, b: _Fields) -> Iterator[Difference]:
    """Yield the fields of the objects in one place that only one side has, or that have another
    type.
    """
    yield from _one_sided(where, _first_samples(a), _first_samples(b))
    for name in a:
        one, other = _typed(a[name]), _typed(b.get(name, {}))
        if one and other and not one.keys() & other.keys():
            of_a, of_b = next(iter(one.values())), next(iter(other.values()))
            yield Difference(
                where + name, "changed", _shown(of_a), _shown(of_b), of_a.pos, of_b.pos
            )


def _first_samples(fields: _Fields) -> dict[str, _Sample]:
    return {name: next(iter(seen.values())) for name, seen in fields.items()}


def _typed(samples: Mapping[str, _Sample]) -> dict[str, _Sample]:
    return {type: sample for type, sample in samples.items() if type != _UNKNOWN}


def _one_sided(
    where: str, a: Mapping[str, _Sample], b: Mapping[str, _Sample]
) -> Iterator[Difference]:
    for name, each in a.items():
        if name not in b:
            yield Difference(where + name, "missing", _shown(each), None, each.pos)
    for name, each in b.items():
        if name not in a:
            yield Difference(where + name, "added", None, _shown(each), None, each.pos)


def _shown(sample: _Sample) -> str:
    return cut(as_json(sample.value), SHOWN)
