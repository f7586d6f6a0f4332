"""The prompt cache of a session, turn by turn: the comparisons of `prompts`, and the first byte that differs.

Must not know: the database, whose rows `recorder.commands.cache` reads.

The rows have no text. Where a prompt changed, the two requests are loaded, one pair at a time, and of each only the
segment that differs is decoded: memory is that of two requests, however long the session is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from recorder.model.text import counted, safe_text
from recorder.projections.cache_misses import WINDOW, compared
from recorder.projections.prompts import format_of
from recorder.projections.rows import AVOIDABLE, CacheClass, PromptRow, RequestRow
from recorder.recordings.session import RecordedSession, projected
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import as_json, decoded
from recorder.wire.dialects.prompt import Prompt, PromptSegment, prompt_of, segment_path

SHOWN = 40
"""Characters on either side of the first that differs."""

_CHANGED: tuple[CacheClass, ...] = ("prefix_changed", "history_shortened", "other_parameters", "other_model")

Load = Callable[[str], Awaitable[Prompt | None]]
"""Returns the prompt of an exchange; None if it cannot be read."""


class CacheDifference(NamedTuple):
    """The first value that differs between two requests. `offset` is the place of the first character that does."""

    path: str
    offset: int
    before: str
    after: str


class CacheTurn(NamedTuple):
    """One request of a session: its row, its number, that of the request it is compared with, and the difference."""

    number: int
    row: PromptRow
    previous_number: int | None = None
    difference: CacheDifference | None = None
    cost_usd: str | None = None  # of the missed tokens, more than if they had come from the cache; decimal text

    @property
    def is_avoidable(self) -> bool:
        return self.row.cache_class in AVOIDABLE

    def document(self) -> dict[str, Any]:
        """Return the turn as in `recorder show --cache --json`; its keys are in docs/formats.md."""
        row, difference = self.row, self.difference
        return {
            "exchange_id": row.exchange_id,
            "number": self.number,
            "model": row.model,
            "class": row.cache_class,
            "is_avoidable": self.is_avoidable,
            "input_tokens": row.input_tokens,
            "could_tokens": row.could_tokens,
            "cached_tokens": row.cached_tokens,
            "missed_tokens": row.missed_tokens,
            "cost_usd": self.cost_usd,
            "is_estimate": row.is_estimate,
            "since_use_ns": row.since_use_ns,
            "previous_exchange_id": row.previous_exchange_id,
            "previous_number": self.previous_number,
            "path": row.path if difference is None else difference.path,
            "offset": None if difference is None else difference.offset,
            "before": None if difference is None else difference.before,
            "after": None if difference is None else difference.after,
        }


async def cache_of_recordings(session: RecordedSession) -> list[CacheTurn]:
    """Return the turns of a session in memory, compared as the store compares them."""
    recordings = {each.exchange.exchange_id: each for each in session.recordings}
    numbers = {exchange_id: number for number, exchange_id in enumerate(recordings, 1)}
    projections = [projected(each.exchange, each.events) for each in session.recordings]
    links = {row.exchange_id: row for rows in projections for row in rows["requests"]}
    rows: list[PromptRow] = []
    for row in sorted((row for each in projections for row in each["prompts"]), key=lambda row: row.exchange_id):
        served = [
            each
            for each in rows
            if each.provider == row.provider and (each.served_ns or row.started_ns + 1) <= row.started_ns
        ]
        rows.append(compared(row, served[-WINDOW:], _parent(row, rows, links)))

    async def load(exchange_id: str) -> Prompt | None:
        recording = recordings[exchange_id]
        return prompt_in(recording.exchange.api, recording.exchange.target, recording.request_body)

    return await turns_of(rows, numbers, load)


def _parent(row: PromptRow, rows: Iterable[PromptRow], links: dict[str, RequestRow]) -> PromptRow | None:
    """Return the row that one continues, by the rules of `recorder.store.write.request_links`."""
    link = links.get(row.exchange_id)
    if link is None or not row.continues:
        return None
    found = None
    for each in rows:
        other = links[each.exchange_id]
        if link.previous_response_id is not None:
            is_parent = other.response_id == link.previous_response_id
        else:
            is_parent = other.conversation_id == link.conversation_id and other.response_id is not None
        found = each if is_parent else found
    return found


def prompt_in(api: str, target: str, body: bytes) -> Prompt | None:
    """Return the prompt in a request body."""
    format = by_name(api).prompt
    return None if format is None else prompt_of(format, target.partition("?")[0], body)


async def turns_of(rows: Iterable[PromptRow], numbers: dict[str, int], load: Load) -> list[CacheTurn]:
    """Return the turns of compared rows, in the order of their exchanges."""
    turns: list[CacheTurn] = []
    last: tuple[str, Prompt | None] = ("", None)  # mostly it is the request that the next one is compared with
    for row in sorted(rows, key=lambda row: numbers[row.exchange_id]):
        if row.cache_class is None:
            continue
        previous = row.previous_exchange_id
        difference = None
        if previous is not None and row.path is not None and row.cache_class in _CHANGED:
            before = last[1] if last[0] == previous else await load(previous)
            last = row.exchange_id, await load(row.exchange_id)
            difference = _difference(row, before, last[1])
        turns.append(CacheTurn(numbers[row.exchange_id], row, numbers.get(previous or ""), difference))
    return turns


def difference_lines(turn: CacheTurn) -> list[str]:
    """Return the class and the path of a miss, and what stands around the first character that differs, as text."""
    found, row = turn.difference, turn.row
    path = row.path if found is None else found.path or row.path
    count = "" if row.missed_tokens is None else f", {counted(row.missed_tokens, 'token')} missed"
    head = f"exchange {turn.number}, {row.cache_class}{count}{'' if path is None else f': {path}'}"
    if found is None:
        return [safe_text(head)]
    both = ((turn.previous_number, "-", found.before), (turn.number, "+", found.after))
    return [safe_text(head), *(f"  {sign} {number}: {_flat(text)}" for number, sign, text in both)]


def _flat(text: str) -> str:
    return safe_text(text).replace("\n", "⏎").replace("\t", " ")


def cache_summary(turns: Sequence[CacheTurn]) -> str:
    """Return the number of turns by class, and the tokens that were missed."""
    counts = Counter(str(turn.row.cache_class) for turn in turns)
    missed = sum(turn.row.missed_tokens or 0 for turn in turns)
    avoidable = sum(turn.row.missed_tokens or 0 for turn in turns if turn.is_avoidable)
    classes = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    costs = [Decimal(turn.cost_usd) for turn in turns if turn.cost_usd is not None]
    cost = f", which cost {sum(costs):f} USD" if any(costs) else ""
    return (
        f"{counted(len(turns), 'turn')}: {classes}; {counted(missed, 'token')} missed{cost}, "
        f"{avoidable:,} of them avoidable"
    )


# -- the first byte that differs


def _difference(row: PromptRow, before: Prompt | None, after: Prompt | None) -> CacheDifference | None:
    if before is None or after is None or row.cache_class == "other_model":
        return None
    path = (row.path or "").removeprefix(f"{row.root}." if row.root else "")
    if path in before.suspects or path in after.suspects:
        return _of_values(row.path or "", _value(before.suspects.get(path)), _value(after.suspects.get(path)))
    pair = _first_pair(row, before.segments, after.segments)
    if pair is None:
        return None
    named = min((each for each in pair if each is not None), key=lambda each: each[:3])
    one, other = (None if each is None or each.part != named.part else each for each in pair)
    place = segment_path(format_of(row), *named[:3])
    place = f"{row.root}.{place}" if row.root else place
    if one is not None and other is not None and one[:3] == other[:3] and one.role != other.role:
        return _of_values(f"{place.partition('.')[0]}.role", _value(one.role), _value(other.role))
    found = _of_values("", _value(one and one.content), _value(other and other.content))
    is_text = (other or named).is_text and (one is None or one.is_text)
    return found._replace(path=place if is_text else f"{place}{found.path}")


def _first_pair(
    row: PromptRow, before: Sequence[PromptSegment], after: Sequence[PromptSegment]
) -> tuple[PromptSegment | None, PromptSegment | None] | None:
    """Return the first segments that differ. Of a request that continues another one, only what it repeats counts."""
    if row.continues:
        parts = format_of(row).parts
        before, after = ([s for s in each if parts[s.part].kind != "conversation"] for each in (before, after))
    for number in range(max(len(before), len(after))):
        one = before[number] if number < len(before) else None
        other = after[number] if number < len(after) else None
        if one is None or other is None or one.compared != other.compared:
            return one, other
    return None


class _Missing:
    """The value of a member that is not there."""


_MISSING = _Missing()


def _value(content: bytes | None) -> Any:
    if content is None:
        return _MISSING
    try:
        return decoded(content)
    except ValueError:
        return content.decode(errors="replace")


def _of_values(path: str, before: Any, after: Any) -> CacheDifference:
    """Return the difference of two values, at the innermost value that both have in one place."""
    while True:
        step = _step(before, after)
        if step is None:
            break
        name, before, after = step
        path += f"[{name}]" if isinstance(name, int) else f".{name}" if path or name else name
    one, other = (_shown(each) for each in (before, after))
    at = next(
        (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )
    start = max(0, at - SHOWN)
    return CacheDifference(path, at - start, one[start : at + SHOWN], other[start : at + SHOWN])


def _step(before: Any, after: Any) -> tuple[int | str, Any, Any] | None:
    """Return the first member or element that differs; None if the values differ as a whole, or in their order."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*dict.fromkeys((*after, *before))]
        shared = [name for name in after if name in before]
        if shared != [name for name in before if name in after]:
            return None
        differing = (
            n for n in names if as_json(before.get(n, "")) != as_json(after.get(n, "")) or (n in before) != (n in after)
        )
        name = next(differing, None)
        return None if name is None else (name, before.get(name, _MISSING), after.get(name, _MISSING))
    if isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            one = before[index] if index < len(before) else _MISSING
            other = after[index] if index < len(after) else _MISSING
            if one is _MISSING or other is _MISSING or as_json(one) != as_json(other):
                return index, one, other
    return None


def _shown(value: Any) -> str:
    """Return a value as text: a string as it is, nothing for one that is missing."""
    return "" if value is _MISSING else value if isinstance(value, str) else as_json(value)
