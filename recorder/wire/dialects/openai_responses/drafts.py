"""Arguments that are JSON in the finished item, but are streamed as something else: a diff, one command after another.

Of these the JSON is written as they come, so that what is half written and what the item states in the end are the
same text, the one the beginning of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from recorder.wire.dialects.json_values import Object, as_json, object_
from recorder.wire.dialects.openai_responses.items import patch, type_of


class Draft:
    """The arguments of one call as far as they are written."""

    def __init__(self, opening: str) -> None:
        self._opening = opening
        self._pieces: list[str] = []
        self._part = 0

    def add(self, part: int, text: str) -> str:
        """Add a delta of a part; returns the JSON that it adds. A new part is a new element of an array."""
        between = '","' if part > self._part else ""
        lead = between if self._pieces else self._opening
        self._part = max(part, self._part)
        self._pieces.append(lead + as_json(text)[1:-1])
        return self._pieces[-1]

    def close(self, arguments: str) -> str:
        """Return what the item states beyond the JSON so far; nothing if it begins otherwise."""
        written = "".join(self._pieces)
        return arguments[len(written) :] if written and arguments.startswith(written) else ""


def draft_of(item: Object) -> Draft | None:
    """Return the draft for a call that begins, if its type is streamed so."""
    opening = _OPENINGS.get(type_of(item))
    return None if opening is None else Draft(opening(item))


_OPENINGS: Mapping[str, Callable[[Object], str]] = {
    "apply_patch_call": lambda item: patch(object_(item.get("operation")), "").removesuffix('"}'),
    "shell_call": lambda item: '{"commands":["',
}
