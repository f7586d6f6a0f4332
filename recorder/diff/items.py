"""Levels `answer` and `tools`: the final items of a response, item by item.

Items are partners by kind and output index; where that is not so, by their order among those of their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recorder.diff.compared import NOT_JSON, ComparedRecording, json_of
from recorder.diff.final_texts import summaries
from recorder.diff.report import Change, Difference, LevelReport, Terms, cut, found
from recorder.diff.request import compared
from recorder.diff.words import changes
from recorder.projections.rows import ItemRow

_WITH_TEXT = ("message", "reasoning", "other")
_CALLS = ("tool_call", "other")

Numbered = tuple[str, ItemRow]
"""An item with a name for it: its kind, and which of that kind."""

Partners = list[tuple[Numbered | None, Numbered | None]]


def answer(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare messages, reasoning and refusals, word by word."""
    return found("answer", _each(a, b, _WITH_TEXT, _texts))


def tools(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare calls: their names, and their arguments path by path; exactly, as the text that was sent."""
    return found("tools", _each(a, b, _CALLS, _called_exactly if terms.exact else _called))


def item_pairs(a: ComparedRecording, b: ComparedRecording) -> list[tuple[int | None, int | None]]:
    """Return the items that are partners, as their indices on each side; None where one has no partner."""
    one, other = ([(str(index), row) for index, row in enumerate(side.items)] for side in (a, b))
    return [(_index(a_item), _index(b_item)) for a_item, b_item in _partners(one, other)]


def _index(item: Numbered | None) -> int | None:
    return None if item is None else int(item[0])


def _each(
    a: ComparedRecording,
    b: ComparedRecording,
    kinds: Sequence[str],
    compare: Callable[[str, ItemRow | None, ItemRow | None], Iterator[Difference]],
) -> Iterator[Difference]:
    for one, other in _partners(_numbered(a.items, kinds), _numbered(b.items, kinds)):
        name = (one or other or ("", None))[0]
        yield from compare(name, one and one[1], other and other[1])


def _numbered(rows: Sequence[ItemRow], kinds: Sequence[str]) -> list[Numbered]:
    counts: Counter[str] = Counter()
    named: list[Numbered] = []
    for row in rows:
        if row.kind in kinds:
            named.append((f"{row.kind} {counts[row.kind]}", row))
            counts[row.kind] += 1
    return named


def _partners(a: Sequence[Numbered], b: Sequence[Numbered]) -> Partners:
    keys: tuple[Callable[[ItemRow], Any], ...] = (lambda row: (row.kind, row.output_index), lambda row: row.kind)
    pairs: Partners = []
    left_a, left_b = list(a), list(b)
    for key in keys:
        waiting: dict[Any, list[Numbered]] = {}
        for other in reversed(left_b):
            waiting.setdefault(key(other[1]), []).append(other)
        unmatched = []
        for one in left_a:
            line = waiting.get(key(one[1]))
            if line:
                pairs.append((one, line.pop()))
            else:
                unmatched.append(one)
        left_a, left_b = unmatched, [other for line in waiting.values() for other in reversed(line)]
    return [*pairs, *((one, None) for one in left_a), *((None, other) for other in left_b)]


def _texts(name: str, a: ItemRow | None, b: ItemRow | None) -> Iterator[Difference]:
    for field, of in _TEXTS:
        one, other = (of(row) if row is not None else "" for row in (a, b))
        for words in changes(one, other) if one != other else ():
            yield Difference(" · ".join(filter(None, (name, field))), _change(a, b), words=words)


_TEXTS: Sequence[tuple[str, Callable[[ItemRow], str]]] = (
    ("", lambda row: row.text or ""),
    ("refusal", lambda row: row.refusal or ""),
    ("summary", lambda row: "\n\n".join(summaries(row)) or row.summary_text or ""),
)


def _called(name: str, a: ItemRow | None, b: ItemRow | None) -> Iterator[Difference]:
    one, other = (json_of(row.arguments.encode()) if row and row.arguments else NOT_JSON for row in (a, b))
    if a is None or b is None or one is NOT_JSON or other is NOT_JSON:
        yield from _called_exactly(name, a, b)
        return
    yield from _name(name, a, b)
    yield from compared(f"{name} {a.name or a.type}", {"arguments": one}, {"arguments": other})


def _called_exactly(name: str, a: ItemRow | None, b: ItemRow | None) -> Iterator[Difference]:
    if a is None or b is None:
        one, other = (cut(f"{row.name or row.type} {row.arguments or ''}", _SHOWN) if row else None for row in (a, b))
        yield from [Difference(name, _change(a, b), one, other)] if _is_call(a or b) else []
        return
    yield from _name(name, a, b)
    if a.arguments != b.arguments:
        for words in changes(a.arguments or "", b.arguments or ""):
            yield Difference(f"{name} {a.name or a.type} · arguments", words=words)


_SHOWN = 400  # characters of a call that stands on one side only


def _change(a: ItemRow | None, b: ItemRow | None) -> Change:
    return "missing" if b is None else "added" if a is None else "changed"


def _is_call(row: ItemRow | None) -> bool:
    return row is not None and (row.kind == "tool_call" or row.name is not None or row.arguments is not None)


def _name(name: str, a: ItemRow, b: ItemRow) -> Iterator[Difference]:
    if a.name != b.name:
        yield Difference(f"{name} · name", "changed", a.name, b.name)
