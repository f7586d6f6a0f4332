"""The final content of the items of one response, and the texts of its events that only repeat it.

An item is found by its number among the rows of `items`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import msgspec

from recorder.diff.compared import ComparedBlock
from recorder.diff.noted_facts import NotedFacts, Parts, stated_parts
from recorder.model.facts import Field, ResponseItems, TextAdded
from recorder.model.text import storable
from recorder.projections.item import ItemFact, Unmatched
from recorder.projections.rows import ItemRow

_NOTHING: AbstractSet[str] = frozenset()


class Statement(NamedTuple):
    """The statement of a block about items, and the deltas in it."""

    texts: Sequence[AbstractSet[str]]  # that say nothing else than deltas, and items at their end, do
    items: tuple[int, ...]  # by their rows
    is_open: bool  # whether a delta of it is of a text that did not end as its deltas say


NO_STATEMENT = Statement((), (), False)


class FinalTexts:
    """The final texts of one response: read from all its events first, then compared block by block."""

    def __init__(self, texts: NotedFacts, rows: Sequence[ItemRow]) -> None:
        self._rows = rows
        self._final = [_texts(row) for row in rows]
        self._number = texts.number
        streamed = texts.streamed()
        self._agreeing = {at for at, parts in streamed.items() if self._agrees(*at, _joined(parts))}
        self._known: list[set[str]] = []
        for row, final in zip(rows, self._final, strict=True):
            self._known.append(set(filter(None, (row.name, *final.values()))))
        self._add_parts(streamed, texts)

    def statement(self, block: ComparedBlock) -> Statement:
        """Return the texts of a block that other levels show, its items, and its deltas, which are compared beside."""
        facts = block.facts
        if len(facts) == 1 and isinstance(facts[0], TextAdded):  # most of every stream
            delta = facts[0]
            number = self._number(delta)
            is_open = (number, delta.field) not in self._agreeing
            return Statement((self._known_of(number), {delta.text}), (number,), is_open)
        texts: list[AbstractSet[str]] = []
        items: list[int] = []
        is_open = False
        for fact in facts:
            if isinstance(fact, ResponseItems):
                items += self._row_numbers(fact)
            elif isinstance(fact, ItemFact):
                number = self._number(fact)
                items.append(number)
                if isinstance(fact, TextAdded):
                    texts.append({fact.text})
                    is_open = is_open or (number, fact.field) not in self._agreeing
        numbers = tuple(dict.fromkeys(items))
        return Statement([*map(self._known_of, numbers), *texts], numbers, is_open) if numbers else NO_STATEMENT

    def end(self, number: int) -> Any:
        """Return the final content of an item, to be compared."""
        return (self._rows[number].name, self._final[number]) if number < len(self._rows) else None

    def _known_of(self, number: int) -> AbstractSet[str]:
        return self._known[number] if number < len(self._known) else _NOTHING

    def _row_numbers(self, fact: ResponseItems) -> list[int]:
        """Return the rows of the items of the end; one past them all for none."""
        left = Unmatched(self._rows)
        numbers: list[int] = []
        for index, stated in enumerate(fact.items):
            row = left.take(index, stated)
            numbers.append(len(self._rows) if row is None else row.item)
        return numbers

    # -- what agrees with the end

    def _agrees(self, number: int, field: Field, text: str) -> bool:
        return number < len(self._final) and storable(text) == self._final[number].get(field)

    def _add_parts(self, ended: dict[tuple[int, Field], Parts], texts: NotedFacts) -> None:
        """Add texts in parts: the parts as they ended, if together they are the item's final text."""
        for number, field, stated in self._stated(texts):
            ended.setdefault((number, field), {}).update({part: text for part, text in stated.items() if text})
            self._add_if_whole(number, field, stated)
        for (number, field), parts in ended.items():
            self._add_if_whole(number, field, parts)

    def _stated(self, texts: NotedFacts) -> Iterator[tuple[int, Field, Parts]]:
        for each in texts.stated:
            if not isinstance(each, ResponseItems):
                yield each
                continue
            for number, stated in zip(self._row_numbers(each), each.items, strict=True):
                yield from stated_parts(number, stated)

    def _add_if_whole(self, number: int, field: Field, parts: Mapping[int, str]) -> None:
        if self._agrees(number, field, _joined(parts)):
            self._known[number].update(filter(None, parts.values()))


def _joined(parts: Mapping[int, str]) -> str:
    return "".join(parts[part] for part in sorted(parts))


def _texts(row: ItemRow) -> dict[Field, str]:
    """Split the texts of a row into one each."""
    found: dict[Field, str | None] = {
        "reasoning" if row.kind == "reasoning" else "text": row.text,
        "refusal": row.refusal,
        "arguments": row.arguments,
        "output": row.output,
        "summary": "".join(summaries(row)),
    }
    return {field: text for field, text in found.items() if text}


def summaries(row: ItemRow) -> list[str]:
    """Return the parts of a summary; none if it is too long to be kept."""
    try:
        return msgspec.json.decode(row.summary or "[]", type=list[str])
    except msgspec.DecodeError:
        return []
