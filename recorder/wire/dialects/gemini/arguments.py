"""Arguments of a function call that Vertex streams: values by JSONPath, strings in pieces.

They are emitted twice: as JSON text that only grows, which is right if the values arrive in the
order of the document, as Vertex sends them; and at the end as the object that the paths describe,
whatever the order was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any

from recorder.wire.dialects.json_values import Object, as_json, text

PATH_LIMIT = 64
"""Steps of a path. What nests deeper is passed over: writing JSON is recursive."""

Step = str | int
Path = tuple[Step, ...]

_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class Arguments:
    """The arguments of one call, as they grow."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self._path: Path = ()
        self._string: list[str] | None = None  # the pieces of a string that has not ended

    def add(self, partial: Object) -> str | None:
        """Add one of `partialArgs`; returns the JSON text that it adds, `None` if it is none or has
        no value.
        """
        path, values = (
            _path(text(partial, "jsonPath") or ""),
            [partial[name] for name in _VALUES if name in partial],
        )
        if not path or not values or isinstance(values[0], dict | list):
            return None
        value = None if "nullValue" in partial else values[0]
        written = self._write(path, value)
        if self._string is not None and not partial.get("willContinue"):
            written += self._end_string()
        return written

    def end(self) -> str:
        """Return the JSON text that is still missing."""
        return self._end_string() + ("" if self._path else "{") + (_closing(self._path) or "}")

    def _write(self, path: Path, value: Any) -> str:
        if self._string is not None and path == self._path and isinstance(value, str):
            self._string.append(value)
            return as_json(value)[1:-1]
        written = self._end_string() + self._move(path)
        if isinstance(value, str):
            self._string = [value]
            return written + as_json(value)[:-1]
        self._put(value)
        return written + as_json(value)

    def _end_string(self) -> str:
        if self._string is None:
            return ""
        self._put("".join(self._string))
        self._string = None
        return '"'

    def _move(self, path: Path) -> str:
        """Write the way from the value before to that at `path`: closing brackets, a comma, opening
        ones.
        """
        before, self._path = self._path, path
        shared = sum(
            1
            for _ in takewhile(
                lambda pair: pair[0] == pair[1], zip(before[:-1], path[:-1], strict=False)
            )
        )
        start = _closing(before[shared + 1 :]) + "," if before else "{"
        return (
            start
            + _key(path[shared])
            + "".join(_opening(step) + _key(step) for step in path[shared + 1 :])
        )

    def _put(self, value: Any) -> None:
        holder: Any = self.value
        for step, following in pairwise(self._path):
            kind = list if isinstance(following, int) else dict
            try:
                child = holder[step]
            except LookupError:
                child = None
            if not isinstance(child, kind):
                child = kind()
                _set(holder, step, child)
            holder = child
        _set(holder, self._path[-1], value)


_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


def _path(json_path: str) -> Path:
    """Return the steps of `$.a.b[0]['c']`; none if it cannot be read, or does not begin with a
    name.
    """
    steps: list[Step] = []
    at = 1 if json_path.startswith("$") else 0
    while at < len(json_path):
        found = _STEP.match(json_path, at)
        if found is None or len(steps) == PATH_LIMIT:
            return ()
        name, number, *quoted = found.groups()
        steps.append(
            int(number)
            if number
            else next((each for each in (name, *quoted) if each is not None), "")
        )
        at = found.end()
    return () if steps and isinstance(steps[0], int) else tuple(steps)


_CLOSING = {"[": "]", "{": "}"}


def _opening(step: Step) -> str:
    return "[" if isinstance(step, int) else "{"


def _closing(steps: Sequence[Step]) -> str:
    return "".join(_CLOSING[_opening(step)] for step in reversed(steps))


def _key(step: Step) -> str:
    return "" if isinstance(step, int) else as_json(step) + ":"


def _set(holder: Any, step: Step, value: Any) -> None:
    """Set a value.

    A place beyond the end of an array is its next one: a hole would be a null that was never sent.
    """
    if isinstance(step, int) and step >= len(holder):
        holder.append(value)
    else:
        holder[step] = value
