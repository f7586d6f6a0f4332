"""Levels `answer` and `tools`: the final items of a response, item by item.

Items are partners by kind and output index; where that is not so, by their order among those of their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from recorder.diff.compared import ComparedRecording, json_of
from recorder.diff.final_texts import summaries
from recorder.diff.report import Change, Difference, LevelReport, Terms, cut, found
from recorder.diff.request import compared
from recorder.diff.words import changes
from recorder.projections.rows import ItemRow
from recorder.replay.matching.fingerprint import NO_JSON

_WITH_TEXT = ("message", "reasoning", "other")
_CALLS = ("tool_call", "other")


Partners = list[tuple[ItemRow | None, ItemRow | None]]


def answer(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare messages, reasoning and refusals, word by word."""
    return found("answer", _each(a, b, _WITH_TEXT, _texts))


def tools(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare calls: their names, and their arguments path by path; exactly, as the text that was sent."""
    return found("tools", _each(a, b, _CALLS, _called_exactly if terms.exact else _called))


def item_pairs(a: ComparedRecording, b: ComparedRecording) -> list[tuple[int | None, int | None]]:
    """Return the items that are partners, as their indices on each side; None where one has no partner."""
    return [(_number(one), _number(other)) for one, other in _partners(a.items, b.items)]


def _number(row: ItemRow | None) -> int | None:
    return None if row is None else row.item


def _each(
    a: ComparedRecording,
    b: ComparedRecording,
    kinds: Sequence[str],
    compare: Callable[[str, ItemRow | None, ItemRow | None], Iterator[Difference]],
) -> Iterator[Difference]:
    names_a, names_b = _names(a.items), _names(b.items)
    rows_a, rows_b = ([row for row in side.items if row.kind in kinds] for side in (a, b))
    for one, other in _partners(rows_a, rows_b):
        if one is not None:
            yield from compare(names_a[one.item], one, other)
        elif other is not None:
            yield from compare(names_b[other.item], one, other)


def _names(rows: Sequence[ItemRow]) -> dict[int, str]:
    """Return a name for each item by its number: its kind, and which of that kind."""
    counts: Counter[str] = Counter()
    names: dict[int, str] = {}
    for row in rows:
        names[row.item] = f"{row.kind} {counts[row.kind]}"
        counts[row.kind] += 1
    return names


_KEYS: Sequence[Callable[[ItemRow], Hashable]] = (lambda row: (row.kind, row.output_index), lambda row: row.kind)


def _partners(a: Sequence[ItemRow], b: Sequence[ItemRow]) -> Partners:
    pairs: Partners = []
    left_a, left_b = list(a), list(b)
    for key in _KEYS:
        waiting: dict[Hashable, list[ItemRow]] = {}
        for other in reversed(left_b):
            waiting.setdefault(key(other), []).append(other)
        unmatched = []
        for one in left_a:
            line = waiting.get(key(one))
            if line:
                pairs.append((one, line.pop()))
            else:
                unmatched.append(one)
        left_a, left_b = unmatched, []
        for line in waiting.values():
            left_b += reversed(line)
    pairs += [(one, None) for one in left_a]
    pairs += [(None, other) for other in left_b]
    return pairs


def _texts(name: str, a: ItemRow | None, b: ItemRow | None) -> Iterator[Difference]:
    of_a, of_b = _texts_of(a), _texts_of(b)
    for field in _FIELDS:
        one, other = of_a.get(field, ""), of_b.get(field, "")
        if one != other:
            where = f"{name} · {field}" if field else name
            for words in changes(one, other):
                yield Difference(where, _change(a, b), words=words)


_FIELDS = ("", "refusal", "summary")


def _texts_of(row: ItemRow | None) -> dict[str, str]:
    if row is None:
        return {}
    summary = "\n\n".join(summaries(row)) or row.summary_text or ""
    return {"": row.text or "", "refusal": row.refusal or "", "summary": summary}


def _called(name: str, a: ItemRow | None, b: ItemRow | None) -> Iterator[Difference]:
    one, other = _arguments(a), _arguments(b)
    if a is None or b is None or one is NO_JSON or other is NO_JSON:
        yield from _called_exactly(name, a, b)
        return
    yield from _name(name, a, b)
    yield from compared(f"{name} {a.name or a.type}", {"arguments": one}, {"arguments": other})


def _arguments(row: ItemRow | None) -> Any:
    return json_of(row.arguments.encode()) if row and row.arguments else NO_JSON


def _called_exactly(name: str, a: ItemRow | None, b: ItemRow | None) -> Iterator[Difference]:
    if a is not None and b is not None:
        yield from _name(name, a, b)
        if a.arguments != b.arguments:
            for words in changes(a.arguments or "", b.arguments or ""):
                yield Difference(f"{name} {a.name or a.type} · arguments", words=words)
    elif _is_call(a or b):
        yield Difference(name, _change(a, b), _call(a), _call(b))


def _call(row: ItemRow | None) -> str | None:
    return None if row is None else cut(f"{row.name or row.type} {row.arguments or ''}", _SHOWN)


_SHOWN = 400  # characters of a call that stands on one side only


def _change(a: object, b: object) -> Change:
    if b is None:
        return "missing"
    return "added" if a is None else "changed"


def _is_call(row: ItemRow | None) -> bool:
    return row is not None and (row.kind == "tool_call" or row.name is not None or row.arguments is not None)


def _name(name: str, a: ItemRow, b: ItemRow) -> Iterator[Difference]:
    if a.name != b.name:
        yield Difference(f"{name} · name", "changed", a.name, b.name)
