"""What the events of one response say of the texts of its items, joined as they come: no delta is held.

Items are numbered in the order in which facts first name them, as the fold makes the rows of `items`.
"""

from __future__ import annotations

from io import StringIO

from recorder.model.facts import (
    AnnotationAdded,
    Fact,
    Field,
    ItemFinished,
    ItemKey,
    ItemStarted,
    LogprobsAdded,
    Restated,
    Stated,
    TextAdded,
    TextSettled,
)

NAMES_ITEMS = (TextAdded, TextSettled, ItemStarted, ItemFinished, AnnotationAdded, LogprobsAdded)

Parts = dict[int, str]


class StreamedTexts:
    """The texts of one response: its facts in order in."""

    def __init__(self) -> None:
        self.numbers: dict[ItemKey, int] = {}
        self.stated: list[tuple[int, Field, Parts] | Restated] = []  # statements of texts, part by part
        self._streamed: dict[tuple[int, Field], dict[int, StringIO]] = {}

    def add(self, fact: Fact) -> None:
        """Add the next fact."""
        if isinstance(fact, TextAdded):  # most of every stream
            number = self.numbers.setdefault(fact.item, len(self.numbers))
            parts = self._streamed.setdefault((number, fact.field), {})
            if fact.part not in parts:
                parts[fact.part] = StringIO()
            parts[fact.part].write(fact.text)
        elif isinstance(fact, Restated):
            self.stated.append(fact)
        elif isinstance(fact, NAMES_ITEMS):
            number = self.numbers.setdefault(fact.item, len(self.numbers))
            if isinstance(fact, TextSettled):
                self.stated.append((number, fact.field, {fact.part: fact.text}))
            elif isinstance(fact, ItemStarted | ItemFinished):
                self.stated += stated_parts(number, fact.stated)

    def streamed(self) -> dict[tuple[int, Field], Parts]:
        """Return what deltas added, by item, field and part."""
        return {at: {part: text.getvalue() for part, text in parts.items()} for at, parts in self._streamed.items()}


def stated_parts(number: int, stated: Stated) -> list[tuple[int, Field, Parts]]:
    """Return the texts of a statement, field by field."""
    return [
        (number, field, {part: text for each, part, text in stated.texts if each == field})
        for field in dict.fromkeys(field for field, _, _ in stated.texts)
    ]
