"""What the facts of one response say of its usage and of the texts of its items, joined as they come: no delta is held.

The numbers of items are those of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO

from recorder.model.events import Event
from recorder.model.facts import (
    Fact,
    Field,
    Handler,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseItems,
    TextAdded,
    TextFinished,
    UsageReported,
)
from recorder.projections.fold import Rows
from recorder.projections.item import ItemFact, Slot, slot_of
from recorder.projections.items import ITEMS_LIMIT

Parts = dict[int, str]


class NotedFacts:
    """An observer of the fold of one exchange, and what that has come to."""

    def __init__(self) -> None:
        self.numbers: Mapping[Slot, int] = {}  # of the items of that fold
        self.rows: Rows = {}  # of the projections
        self.first: dict[str, Event] = {}  # event of each kind
        self.reports: list[str] = []  # of usage, as JSON
        self.stated: list[tuple[int, Field, Parts] | ResponseItems] = []  # statements of texts, part by part
        self._streamed: dict[tuple[int, Field], dict[int, StringIO]] = {}

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            TextAdded: self._on_text,
            TextFinished: self._on_text_finished,
            ItemStarted: self._on_item,
            ItemFinished: self._on_item,
            ResponseItems: lambda fact, event: self.stated.append(fact),
            UsageReported: lambda fact, event: self.reports.append(fact.raw),
        }

    def _on_text(self, fact: TextAdded, event: Event) -> None:
        parts = self._streamed.setdefault((self.number(fact), fact.field), {})
        if fact.part not in parts:
            parts[fact.part] = StringIO()  # a piece as an object takes ten times its text
        parts[fact.part].write(fact.text)

    def _on_text_finished(self, fact: TextFinished, event: Event) -> None:
        self.stated.append((self.number(fact), fact.field, {fact.part: fact.text}))

    def _on_item(self, fact: ItemStarted | ItemFinished, event: Event) -> None:
        self.stated += stated_parts(self.number(fact), fact.stated)

    def number(self, fact: ItemFact) -> int:
        """Return the number of the item that a fact is about; of one without a row, one that no row has."""
        return self.numbers.get(slot_of(fact, self.numbers), ITEMS_LIMIT)

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
