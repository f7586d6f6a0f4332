"""Differences of two JSON values, for a person to read: paths, and the values on each side.

Values are equal as JSON has it: `1` is `1.0`, and neither is `true`. Work is bounded: equal parts are skipped, and the
search stops at a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from recorder.model.text import shared_length
from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.json_values import as_json

SHOWN = 120
"""Characters shown of a value: a sentence, from a little before where it begins to differ."""

BEFORE = 30

MEMBERS_LIMIT = 100_000
"""Members of one object or array that are looked at, one after another."""

_NAME = re.compile(r"[A-Za-z_][\w-]*")


class RequestDifference(msgspec.Struct, frozen=True):
    """One place. A side is `None` if it has no value there, else JSON, cut to a readable length."""

    path: str  # input[3].content[0].text; empty for the whole
    recorded: str | None
    requested: str | None

    def __str__(self) -> str:
        nothing = "(nothing)"  # a side that is there is JSON, and never empty
        return f"{self.path or '(the body)'}: recorded {self.recorded or nothing}, asked {self.requested or nothing}"


def differences(recorded: Any, requested: Any, limit: int) -> list[RequestDifference]:
    """Return the first `limit` places in which two JSON values differ."""
    return list(islice(_differences("", recorded, requested), limit))


def _differences(path: str, recorded: Any, requested: Any) -> Iterator[RequestDifference]:
    if _is_equal(recorded, requested):
        return
    sides = _members(recorded), _members(requested)
    if type(recorded) is not type(requested) or sides[0] is None or sides[1] is None:
        yield RequestDifference(path, *_shown(recorded, requested))
        return
    for name in [*sides[0], *(name for name in sides[1] if name not in sides[0])]:
        yield from _at(_step(path, name), *(side.get(name, _NOTHING) for side in sides if side is not None))
    if max(len(recorded), len(requested)) > MEMBERS_LIMIT:
        yield RequestDifference(path, *(f"{len(each)} members, not all compared" for each in (recorded, requested)))


def _is_equal(recorded: Any, requested: Any) -> bool:
    """Return whether they are surely equal: of objects and arrays, members may differ although Python treats them as
    equal."""
    if recorded != requested:
        return bool(recorded != recorded and requested != requested)  # NaN, which the standard library reads
    if isinstance(recorded, dict | list):
        return canonical(recorded) == canonical(requested)
    return isinstance(recorded, bool) == isinstance(requested, bool)


def _members(value: Any) -> dict[Any, Any] | None:
    """Return the members that are compared, of an object by their names, of an array by their numbers."""
    if isinstance(value, dict):
        return dict(islice(value.items(), MEMBERS_LIMIT))
    return dict(enumerate(value[:MEMBERS_LIMIT])) if isinstance(value, list) else None


_NOTHING = object()


def _at(path: str, recorded: Any, requested: Any) -> Iterator[RequestDifference]:
    if recorded is _NOTHING:
        yield RequestDifference(path, None, _cut(as_json(requested), 0))
    elif requested is _NOTHING:
        yield RequestDifference(path, _cut(as_json(recorded), 0), None)
    else:
        yield from _differences(path, recorded, requested)


def _step(path: str, name: str | int) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return f"{path}.{name}" if path else name
    return f"{path}[{as_json(name)}]"


def _shown(recorded: Any, requested: Any) -> tuple[str, str]:
    """Return both texts from a little before the place where they part."""
    sides = as_json(recorded), as_json(requested)
    start = max(0, shared_length(*sides) - BEFORE)
    return _cut(sides[0], start), _cut(sides[1], start)


def _cut(text: str, start: int) -> str:
    if len(text) <= SHOWN:
        return text
    end = start + SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
