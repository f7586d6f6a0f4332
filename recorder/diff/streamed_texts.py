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
    ItemStarted,
    ItemState,
    LogprobsAdded,
    ResponseItems,
    TextAdded,
    TextFinished,
)
from recorder.projections.item import ItemFact, Slot, slot_of

NAMES_ITEMS = (TextAdded, TextFinished, ItemStarted, ItemFinished, AnnotationAdded, LogprobsAdded)

Parts = dict[int, str]


class StreamedTexts:
    """The texts of one response: its facts in order in."""

    def __init__(self) -> None:
        self.numbers: dict[Slot, int] = {}
        self.stated: list[tuple[int, Field, Parts] | ResponseItems] = []  # statements of texts, part by part
        self._streamed: dict[tuple[int, Field], dict[int, StringIO]] = {}

    def add(self, fact: Fact) -> None:
        """Add the next fact."""
        if isinstance(fact, TextAdded):  # most of every stream
            number = self._number(fact)
            parts = self._streamed.setdefault((number, fact.field), {})
            if fact.part not in parts:
                parts[fact.part] = StringIO()  # a piece as an object takes ten times its text
            parts[fact.part].write(fact.text)
        elif isinstance(fact, ResponseItems):
            self.stated.append(fact)
        elif isinstance(fact, NAMES_ITEMS):
            number = self._number(fact)
            if isinstance(fact, TextFinished):
                self.stated.append((number, fact.field, {fact.part: fact.text}))
            elif isinstance(fact, ItemStarted | ItemFinished):
                self.stated += stated_parts(number, fact.stated)

    def number(self, fact: ItemFact) -> int:
        """Return the number of the item that a fact is about."""
        return self.numbers[slot_of(fact, self.numbers)]

    def _number(self, fact: ItemFact) -> int:
        return self.numbers.setdefault(slot_of(fact, self.numbers), len(self.numbers))

    def streamed(self) -> dict[tuple[int, Field], Parts]:
        """Return what deltas added, by item, field and part."""
        found: dict[tuple[int, Field], Parts] = {}
        for item_and_field, parts in self._streamed.items():
            found[item_and_field] = {part: text.getvalue() for part, text in parts.items()}
        return found


def stated_parts(number: int, stated: ItemState) -> list[tuple[int, Field, Parts]]:
    """Return the texts of a statement, field by field."""
    by_field: dict[Field, Parts] = {}
    for field, part, text in stated.texts:
        by_field.setdefault(field, {})[part] = text
    return [(number, field, parts) for field, parts in by_field.items()]
