"""Shapes of events as zod judges them: an optional member may be left out, and may not be null."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.faults import misfit
from recorder.lint.shape import Shapes
from recorder.wire.dialects.json_values import Object, text

FAMILY = "event"
"""The family of the shapes of events."""


def misfits(shapes: Shapes, event: Object) -> Iterable[str]:
    """Yield in words what of an event is not as its type has it."""
    for each in shapes.misfits(event, FAMILY):
        yield misfit(each)
    declared = shapes.families[FAMILY].get(text(event, "type") or "", {})
    for name, field in declared.items():
        if name in event and event[name] is None and not field.is_required and "any" not in field.kinds:
            yield f"{name} is null, which must be left out"
