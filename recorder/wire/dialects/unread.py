"""What of a payload no fact has: the text that a decoder passed over, by its place.

One look at all that a decoder returned, in place of a report at each branch that does not understand: whatever a vendor
invents, and whatever has a type that it should not have, is either in a fact or named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseFinished,
    ResponseItems,
    TextAdded,
    TextFinished,
    ToolResult,
    UnreadText,
)
from recorder.wire.dialects.json_values import as_json, decoded

SEARCH_LIMIT = 64 * 2**20
"""Characters that are searched for the texts of one payload, some tens of milliseconds. A text that is not looked for
any more counts as unread: an anomaly too many is better than one too few."""

Content = tuple[str, Any]
"""A place in a payload that has content, and the value there."""


def unread(contents: Iterable[Content], about: AbstractSet[str], facts: Sequence[Fact]) -> list[UnreadText]:
    """Return the text in `contents` that none of the facts has. Members named in `about` are not content."""
    texts: list[tuple[str, str]] = []
    for place, content in contents:
        _gather(place, content, about, texts)
    if not texts:
        return []
    sizes: dict[str, int] = {}
    told = _Told(facts)
    for place, text in texts:
        if not told.has(text):
            sizes[place] = sizes.get(place, 0) + len(text)
    return [UnreadText(place, characters) for place, characters in sizes.items()]


def _gather(place: str, value: Any, about: AbstractSet[str], texts: list[tuple[str, str]]) -> None:
    """Add the texts in a value, however deep, with their places. What a `data:` URL holds is not a text."""
    if isinstance(value, str):
        if value and not value.startswith("data:"):
            texts.append((place, value))
    elif isinstance(value, list):
        for each in value:
            _gather(place, each, about, texts)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, _WITH_TEXT) and name not in about and not _is_reference(name, each):
                _gather(f"{place}.{name}" if place else name, each, about, texts)


_WITH_TEXT = (str, dict, list)


def _is_reference(name: str, value: Any) -> bool:
    """Return whether a member is an id, a time, or the name of a tool, which is repeated or that of an item."""
    return name.endswith(("_id", "_at")) or (name == "name" and isinstance(value, str))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


_EXACT: Mapping[type[Fact], Sequence[str]] = {
    TextAdded: ("text",),
    TextFinished: ("text", "name"),
    ToolResult: ("name",),
    ErrorReported: ("type", "code", "message", "param"),
    ResponseFinished: ("reason",),
}
"""The members of facts that have a text as it was sent."""


class _Told:
    """The texts of the facts of a payload: `exact` ones, and what has several of them, or has them in JSON."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._exact: set[str | None] = set()
        self._joined: list[str] = []
        self._searched = ""
        self._budget = SEARCH_LIMIT
        for fact in facts:
            self._add(fact)

    def has(self, text: str) -> bool:
        """Return whether a fact has a text, as it is or in JSON."""
        if text in self._exact:
            return True
        if self._joined:
            self._split()
        return text in self._exact or self._is_found(text)

    def _split(self) -> None:
        """Take the texts out of all that is JSON. The rest is searched: several texts as one, and pieces of JSON."""
        for each in self._joined:
            if each.startswith(("{", "[")):
                with suppress(ValueError):
                    self._exact.update(_leaves(decoded(each.encode())))
        self._searched = "\n".join(self._joined)
        self._joined.clear()

    def _is_found(self, text: str) -> bool:
        self._budget -= len(self._searched)
        if self._budget < 0:
            return False
        return text in self._searched or as_json(text)[1:-1] in self._searched

    def _add(self, fact: Fact) -> None:
        self._exact.update(getattr(fact, name) for name in _EXACT.get(fact.__class__, ()))
        match fact:
            case TextAdded(field="arguments"):
                self._joined.append(fact.text)
            case AnnotationAdded():
                self._joined.append(fact.annotation)
            case ToolResult():
                self._joined.append(fact.output)
            case ItemStarted() | ItemFinished():
                self._add_stated(fact.stated)
            case ResponseItems():
                for stated in fact.items:
                    self._add_stated(stated)

    def _add_stated(self, stated: ItemState) -> None:
        self._exact |= {stated.name, stated.status, stated.phase}
        self._joined += [*(text for _, _, text in stated.texts), *stated.annotations, stated.output or ""]
