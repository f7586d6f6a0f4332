"""The prompt cache of a session, turn by turn: the comparisons of `prompts`, and the first byte
that differs.

Must not know: the database, whose rows `recorder.recordings.logged_cache` reads.

The rows have no text. Where a prompt changed, the two requests are loaded, one pair at a time, and
of each only the segment that differs is decoded: memory is that of two requests, however long the
session is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, NamedTuple

from recorder.model.text import counted, safe_text, shared_length
from recorder.projections.cache_misses import WINDOW, compared
from recorder.projections.digests import format_of
from recorder.projections.rows import AVOIDABLE, CacheClass, PromptRow, RequestRow
from recorder.recordings.session import RecordedSession, projected
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import as_json, decoded
from recorder.wire.dialects.prompt import Prompt, PromptSegment, prompt_of, segment_path

SHOWN = 40
"""Characters on either side of the first that differs."""

_CHANGED: tuple[CacheClass, ...] = (
    "prefix_changed",
    "history_shortened",
    "other_parameters",
    "other_model",
)

Load = Callable[[str], Awaitable[Prompt | None]]
"""Returns the prompt of an exchange; None if it cannot be read."""


class CacheDifference(NamedTuple):
    """The first value that differs between two requests.

    `offset` is the place of the first character that does.
    """

    path: str
    offset: int
    before: str
    after: str


class CacheTurn(NamedTuple):
    """One request of a session: its row, its number, that of the request it is compared with, and
    the difference.
    """

    number: int
    row: PromptRow
    previous_number: int | None = None
    difference: CacheDifference | None = None
    # of the missed tokens, more than if they had come from the cache; decimal text
    cost_usd: str | None = None

    @property
    def is_avoidable(self) -> bool:
        return self.row.cache_class in AVOIDABLE

    def document(self) -> dict[str, Any]:
        """Return the turn as in `recorder show --cache --json`; its keys are in docs/formats.md."""
        row = self.row
        shown: dict[str, Any] = {"path": row.path, "offset": None, "before": None, "after": None}
        if self.difference is not None:
            shown = self.difference._asdict()
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
            **shown,
        }


async def cache_of_recordings(session: RecordedSession) -> list[CacheTurn]:
    """Return the turns of a session in memory, compared as the store compares them."""
    recordings = {each.exchange.exchange_id: each for each in session.recordings}
    numbers = {exchange_id: number for number, exchange_id in enumerate(recordings, 1)}
    links: dict[str, RequestRow] = {}
    prompts: list[PromptRow] = []
    for each in session.recordings:
        projection = projected(each.exchange, each.events)
        links |= {row.exchange_id: row for row in projection["requests"]}
        prompts += projection["prompts"]
    rows: list[PromptRow] = []
    for row in sorted(prompts, key=lambda row: row.exchange_id):
        served = []
        for earlier in rows:
            # Its answer had begun when the same provider got this request.
            if (
                earlier.provider == row.provider
                and earlier.served_ns
                and earlier.served_ns <= row.started_ns
            ):
                served.append(earlier)
        rows.append(compared(row, served[-WINDOW:], _parent(row, rows, links)))

    async def load(exchange_id: str) -> Prompt | None:
        recording = recordings[exchange_id]
        return prompt_in(recording.exchange.api, recording.exchange.target, recording.request_body)

    return await turns_of(rows, numbers, load)


def _parent(
    row: PromptRow, rows: Iterable[PromptRow], links: dict[str, RequestRow]
) -> PromptRow | None:
    """Return the row that one continues, by the rules of `recorder.store.write.links`."""
    link = links.get(row.exchange_id)
    if link is None or not row.continues:
        return None
    found = None
    for each in rows:
        other = links[each.exchange_id]
        if link.previous_response_id is not None:
            is_parent = other.response_id == link.previous_response_id
        else:
            is_parent = (
                other.conversation_id == link.conversation_id and other.response_id is not None
            )
        if is_parent:
            found = each
    return found


def prompt_in(api: str, target: str, body: bytes) -> Prompt | None:
    """Return the prompt in a request body."""
    format = by_name(api).prompt
    return None if format is None else prompt_of(format, target.partition("?")[0], body)


async def turns_of(
    rows: Iterable[PromptRow], numbers: dict[str, int], load: Load
) -> list[CacheTurn]:
    """Return the turns of compared rows, in the order of their exchanges."""
    turns: list[CacheTurn] = []
    # The last request is kept: mostly it is the one that the next is compared with.
    loaded_id, loaded = "", None
    for row in sorted(rows, key=lambda row: numbers[row.exchange_id]):
        if row.cache_class is None:
            continue
        previous = row.previous_exchange_id
        difference = None
        if previous is not None and row.path is not None and row.cache_class in _CHANGED:
            before = loaded if loaded_id == previous else await load(previous)
            loaded_id, loaded = row.exchange_id, await load(row.exchange_id)
            difference = _difference(row, before, loaded)
        turns.append(
            CacheTurn(numbers[row.exchange_id], row, numbers.get(previous or ""), difference)
        )
    return turns


def difference_lines(turn: CacheTurn) -> list[str]:
    """Return the class and the path of a miss, and what stands around the first character that
    differs, as text.
    """
    difference, row = turn.difference, turn.row
    path = row.path
    if difference is not None and difference.path:
        path = difference.path
    head = f"exchange {turn.number}, {row.cache_class}"
    if row.missed_tokens is not None:
        head += f", {counted(row.missed_tokens, 'token')} missed"
    if path is not None:
        head += f": {path}"
    if difference is None:
        return [safe_text(head)]
    before = f"  - {turn.previous_number}: {_flat(difference.before)}"
    after = f"  + {turn.number}: {_flat(difference.after)}"
    return [safe_text(head), before, after]


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


def _difference(
    row: PromptRow, before: Prompt | None, after: Prompt | None
) -> CacheDifference | None:
    if before is None or after is None or row.cache_class == "other_model":
        return None
    root = f"{row.root}." if row.root else ""
    path = (row.path or "").removeprefix(root)
    if path in before.suspects or path in after.suspects:
        return _of_values(
            row.path or "", _value(before.suspects.get(path)), _value(after.suspects.get(path))
        )
    pair = _first_pair(row, before.segments, after.segments)
    return None if pair is None else _of_segments(row, root, *pair)


def _of_segments(
    row: PromptRow, root: str, before: PromptSegment | None, after: PromptSegment | None
) -> CacheDifference:
    """Return the difference of two segments, of which one may be missing."""
    first = min((each for each in (before, after) if each is not None), key=_position)
    place = root + segment_path(format_of(row), *_position(first))
    # A segment of a later part stands where the other request has none.
    if before is not None and before.part != first.part:
        before = None
    if after is not None and after.part != first.part:
        after = None
    if before and after and _position(before) == _position(after) and before.role != after.role:
        return _of_values(
            f"{place.partition('.')[0]}.role", _value(before.role), _value(after.role)
        )
    found = _of_values("", _value(before and before.content), _value(after and after.content))
    is_text = (after or first).is_text and (before is None or before.is_text)
    return found._replace(path=place if is_text else place + found.path)


def _position(segment: PromptSegment) -> tuple[int, int, int]:
    """Return the place of a segment in its prompt."""
    return segment.part, segment.element, segment.block


def _first_pair(
    row: PromptRow, before: Sequence[PromptSegment], after: Sequence[PromptSegment]
) -> tuple[PromptSegment | None, PromptSegment | None] | None:
    """Return the first segments that differ.

    Of a request that continues another one, only what it repeats counts.
    """
    if row.continues:
        before, after = _repeated(row, before), _repeated(row, after)
    for one, other in zip_longest(before, after):
        if one is None or other is None or one.compared != other.compared:
            return one, other
    return None


def _repeated(row: PromptRow, segments: Sequence[PromptSegment]) -> Sequence[PromptSegment]:
    parts = format_of(row).parts
    return [each for each in segments if parts[each.part].kind != "conversation"]


_MISSING = object()
"""The value of a member that is not there."""


def _value(content: bytes | None) -> Any:
    if content is None:
        return _MISSING
    try:
        return decoded(content)
    except ValueError:
        return content.decode(errors="replace")


def _of_values(path: str, before: Any, after: Any) -> CacheDifference:
    """Return the difference of two values, at the innermost value that both have in one place."""
    while (step := _step(before, after)) is not None:
        path = _joined(path, step.name)
        before, after = step.before, step.after
    one, other = _shown(before), _shown(after)
    at = shared_length(one, other)
    start = max(0, at - SHOWN)
    return CacheDifference(path, at - start, one[start : at + SHOWN], other[start : at + SHOWN])


class _Step(NamedTuple):
    """A member or element that differs, and its value on each side."""

    name: int | str
    before: Any
    after: Any


def _step(before: Any, after: Any) -> _Step | None:
    """Return the first member or element that differs; None if the values differ as a whole, or in
    their order.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        if [name for name in after if name in before] != [name for name in before if name in after]:
            return None
        steps = (
            _Step(name, before.get(name, _MISSING), after.get(name, _MISSING))
            for name in dict.fromkeys((*after, *before))
        )
    elif isinstance(before, list) and isinstance(after, list):
        pairs = zip_longest(before, after, fillvalue=_MISSING)
        steps = (_Step(number, *pair) for number, pair in enumerate(pairs))
    else:
        return None
    return next((step for step in steps if _differs(step)), None)


def _differs(step: _Step) -> bool:
    if step.before is _MISSING or step.after is _MISSING:
        return True
    return as_json(step.before) != as_json(step.after)


def _joined(path: str, name: int | str) -> str:
    """Return a path with one more step; an empty name alone is not one."""
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path or name else path


def _shown(value: Any) -> str:
    """Return a value as text: a string as it is, nothing for one that is missing."""
    if value is _MISSING:
        return ""
    return value if isinstance(value, str) else as_json(value)
