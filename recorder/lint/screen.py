"""Shapes of events as zod judges them: an optional member may be left out, and may not be null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from recorder.lint.faults import misfit, shown
from recorder.lint.shape import Shapes
from recorder.wire.dialects.json_values import Object, text

FAMILY = "event"
"""The family of the shapes of events."""

Words = Mapping[str, Mapping[str, Set[str]]]
"""By type of event, the words that a member may have."""


def misfits(
    shapes: Shapes, words: Words, event: Object, nullable: Set[str] = frozenset()
) -> Iterable[str]:
    """Yield in words what of an event is not as its type has it.

    A member in `nullable` may be null.
    """
    type = text(event, "type") or ""
    for each in shapes.misfits(event, FAMILY):
        yield misfit(each)
    for name, field in shapes.families[FAMILY].get(type, {}).items():
        is_null = name in event and event[name] is None
        if is_null and not field.is_required and name not in nullable:
            yield f"{name} is null, which must be left out"
    for name, known in words.get(type, {}).items():
        word = event.get(name)
        if isinstance(word, str) and word not in known:
            yield f"{name} is {shown(word)}"
