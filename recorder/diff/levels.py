"""The levels that compare values: `request`, `usage`, `timing`, `bytes`, `answer` and `tools`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

from recorder.diff.alignment import changes
from recorder.diff.compared import ComparedRecording, json_of, summaries
from recorder.diff.noise_filter import NoiseFilter, in_usage
from recorder.diff.pairing import directories_of
from recorder.diff.report import (
    DIFFERENCES_LIMIT,
    Change,
    Difference,
    LevelReport,
    Measure,
    Terms,
    cut,
    found,
    ratio,
    unknown,
)
from recorder.model.events import BODY_KINDS
from recorder.model.facts import Usage
from recorder.model.text import shared_length
from recorder.projections.rows import ItemRow
from recorder.replay.matching.fingerprint import NO_JSON, Fingerprint, json_value, parameters, place
from recorder.replay.matching.miss import differences
from recorder.wire.dialects.canonical import canonical
from recorder.wire.redaction.headers import REDACTED

# -- request: method, path, query and headers, and the body path by path


def request(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare the requests. A stream that was stored alone has none."""
    lacking = [name for name, side in (("A", a), ("B", b)) if _is_unknown(side)]
    if lacking:
        verb = "does" if len(lacking) == 1 else "do"
        return unknown("request", f"{' and '.join(lacking)} {verb} not say what was asked")
    return found("request", _differences(a, b, terms))


def _is_unknown(side: ComparedRecording) -> bool:
    return side.exchange.method != "GET" and not side.request.headers and not side.request.body


def _differences(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    bodies = _bodies(a, b, terms)
    yield from _heads(a, b, terms)
    if NO_JSON not in bodies:
        yield from compared("", *bodies)
    elif a.request.body != b.request.body:
        one, other = (f"{len(side.request.body):,} bytes" for side in (a, b))
        yield Difference("(the body)", "changed", one, other)


def _heads(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    one, other = (place(side.request, terms.rules) for side in (a, b))
    yield from compared("method", one.method, other.method)
    if terms.exact:
        yield from compared("path and query", a.request.target, b.request.target)
    else:
        if one.path != other.path:
            yield from compared("path", _path(a), _path(b))
        yield from compared("query", *_queries(a, b, terms))
    one_by_name, other_by_name = (_headers(side, terms) for side in (a, b))
    for name in sorted({*one_by_name, *other_by_name}):
        yield from compared(f"header {name}", one_by_name.get(name), other_by_name.get(name))


def _queries(
    a: ComparedRecording, b: ComparedRecording, terms: Terms
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters of both.

    Of one whose value is not kept, only whether it is there is known.
    """
    one, other = (_parameters(side, terms) for side in (a, b))
    for name in one.keys() & other.keys():
        if REDACTED in one[name] or REDACTED in other[name]:
            one[name] = other[name] = REDACTED
    return one, other


def _parameters(side: ComparedRecording, terms: Terms) -> dict[str, str]:
    query = side.request.target.partition("#")[0].partition("?")[2]
    return joined_by_name(parameters(query, terms.rules))


def joined_by_name(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values of fields by name; of a name that comes several times, all with commas
    between.
    """
    found: dict[str, str] = {}
    for name, value in fields:
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _path(side: ComparedRecording) -> str:
    return side.request.target.partition("?")[0]


def _headers(side: ComparedRecording, terms: Terms) -> dict[str, str]:
    headers = side.request.headers if terms.exact else terms.rules.headers(side.request.headers)
    return joined_by_name(sorted((name.lower(), value) for name, value in headers))


def _bodies(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> tuple[Any, Any]:
    if terms.exact:
        return json_value(a.request.body), json_value(b.request.body)
    directories = directories_of((a, b), terms.rules)
    one = Fingerprint(a.compared_request, terms.rules, directories)
    other = Fingerprint(b.compared_request, terms.rules, directories)
    return one.value(), other.value()


def compared(
    where: str, a: Any, b: Any, a_pos: int | None = None, b_pos: int | None = None
) -> Iterator[Difference]:
    """Yield the differences of two JSON values. `None` as a whole is nothing."""
    if canonical(a) == canonical(b):
        return
    for each in differences(a, b, DIFFERENCES_LIMIT):
        one, other = each.recorded, each.requested
        if not each.path:
            one, other = (None if a is None else one), (None if b is None else other)
        change: Change = "changed"
        if one is None:
            change = "added"
        elif other is None:
            change = "missing"
        path = " · ".join(filter(None, (where, _OURS.sub(r"\1", each.path))))
        yield Difference(path or "(the body)", change, one, other, a_pos, b_pos)


_OURS = re.compile(r'\["\(([a-z ]+)\)"\]')
"""Steps of paths that are not members of what was sent: the lines of an event beside its data."""


# -- usage, timing and bytes: measures, side by side


BYTES_SHOWN = 40  # from the first difference on

LEAST_NS = 50_000_000
"""What is less apart is not a difference: a network and a busy machine make as much, and nobody
feels it.
"""

TOLERANCE = 1.25
"""How many times as long the longer of two may take: the same request to the same provider mostly
stays below it.
"""

MADE_UP_NS = 10_000_000
"""From one event to the next, where whoever stored a stream did not write down when they came: an
import then makes the times up, with the response head at the very beginning."""

_TIMES: Sequence[tuple[str, str]] = (
    ("response head", "head_ns"),
    ("first byte", "first_byte_ns"),
    ("first event", "first_event_ns"),
    ("first reasoning", "first_reasoning_ns"),
    ("first text", "first_text_ns"),
    ("first arguments", "first_arguments_ns"),
    ("gap, median", "gap_p50_ns"),
    ("gap, 95 %", "gap_p95_ns"),
    ("gap, longest", "longest_silence_ns"),
    ("duration", "duration_ns"),
)
"""What is shown, and its column of `timing`."""


# usage: the tokens as each side reports them at its end, and on the way there


def usage(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare counts by their common names; then the rest of the provider's own report."""
    known: list[Measure] = []
    for name in Usage.__struct_fields__:
        one, other = getattr(a.usage, name), getattr(b.usage, name)
        if one is not None or other is not None:
            known.append(
                Measure(
                    name.removesuffix("_tokens"),
                    "tokens",
                    one,
                    other,
                    ratio(one, other),
                    one != other,
                )
            )
    differing = {(str(each.a), str(each.b)) for each in known if each.differs}
    further = list(_further(a, b, differing, terms))
    if not differing and not further:
        further = list(_earlier(a, b, terms))
    return found("usage", further, known)


def _further(
    a: ComparedRecording, b: ComparedRecording, reported: set[tuple[str, str]], terms: Terms
) -> Iterator[Difference]:
    """Yield differences of the reports, less the fields that repeat a count under the provider's
    name.
    """
    for each in compared(
        "", _report(a, a.usage.usage_raw, terms), _report(b, b.usage.usage_raw, terms)
    ):
        if (str(each.a), str(each.b)) not in reported:
            yield each


def _earlier(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    """Yield differences of reports before the last; streams that are cut otherwise have more or
    fewer of them.
    """
    if len(a.noted.reports) != len(b.noted.reports):
        return
    for number, (one, other) in enumerate(zip(a.noted.reports, b.noted.reports, strict=True)):
        if one != other:
            yield from compared(
                f"report {number}", _report(a, one, terms), _report(b, other, terms)
            )


def _report(side: ComparedRecording, raw: str | None, terms: Terms) -> Any:
    value = json_of(None if raw is None else raw.encode("utf-8", "surrogatepass"))
    if value is NO_JSON:
        return {}
    return NoiseFilter(in_usage(side.exchange.api), exact=terms.exact).apply(value, (), ()).value


# timing: the times of each side, and their ratio


def timing(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare times.

    Times that only one side has (no text was sent, or it has not ended) belong to other levels.
    """
    made_up = [name for name, side in (("A", a), ("B", b)) if are_made_up(side)]
    if made_up:
        return unknown("timing", f"the times of {' and '.join(made_up)} are made up")
    measures: list[Measure] = []
    for name, column in _TIMES:
        one, other = getattr(a.timing, column), getattr(b.timing, column)
        if one is not None or other is not None:
            differs = _times_differ(one, other, terms.tolerance)
            measures.append(Measure(name, "ns", one, other, ratio(one, other), differs))
    return found("timing", (), measures)


def _times_differ(a: int | None, b: int | None, tolerance: float) -> bool:
    if a is None or b is None:
        return False
    return abs(a - b) > LEAST_NS and max(a, b) > tolerance * min(a, b)


def are_made_up(side: ComparedRecording) -> bool:
    """Return whether an import made the times up, or had none: no real head comes at 0 ns, and no
    event every 10 ms sharp.
    """
    if isinstance(side.recording.request.derived, str):
        return True
    head = side.first("response")
    if head is None or head.t_ns or not any(side.first(kind) for kind in BODY_KINDS):
        return False
    times = (each.t_ns for each in side.events if each.kind in BODY_KINDS)
    return all(after - before in (0, MADE_UP_NS) for before, after in pairwise(chain([0], times)))


# bytes: the bodies as they are, nothing taken for noise


def body(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare sizes and digests, and show the first difference."""
    one, other = a.recording.body, b.recording.body
    if one == other:
        return found("bytes", ())
    at = shared_length(one, other)
    whole = Difference("body", "changed", _digest(one), _digest(other))
    rest = Difference(f"from byte {at:,} on", "changed", _after(one, at), _after(other, at))
    return found("bytes", [whole, rest])


def _digest(body: bytes) -> str:
    return f"{len(body):,} bytes, sha256 {sha256(body).hexdigest()[:16]}…"


def _after(body: bytes, at: int) -> str:
    return cut(body[at : at + BYTES_SHOWN + 1].decode("utf-8", "backslashreplace"), BYTES_SHOWN)


# -- answer and tools: the final items, item by item; partners by kind and output index, else by
# their order


_WITH_TEXT = ("message", "reasoning", "other")
_CALLS = ("tool_call", "other")


Partners = list[tuple[ItemRow | None, ItemRow | None]]


def answer(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare messages, reasoning and refusals, word by word."""
    return found("answer", _each(a, b, _WITH_TEXT, _texts))


def tools(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare calls: their names, and their arguments path by path; exactly, as the text that was
    sent.
    """
    return found("tools", _each(a, b, _CALLS, _called_exactly if terms.exact else _called))


def item_pairs(a: ComparedRecording, b: ComparedRecording) -> list[tuple[int | None, int | None]]:
    """Return the items that are partners, as their indices on each side; None where one has no
    partner.
    """
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


_KEYS: Sequence[Callable[[ItemRow], Hashable]] = (
    lambda row: (row.kind, row.output_index),
    lambda row: row.kind,
)


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
        left = {id(other) for other in chain.from_iterable(waiting.values())}
        left_a, left_b = unmatched, [other for other in left_b if id(other) in left]
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
    return row is not None and (
        row.kind == "tool_call" or row.name is not None or row.arguments is not None
    )


def _name(name: str, a: ItemRow, b: ItemRow) -> Iterator[Difference]:
    if a.name != b.name:
        yield Difference(f"{name} · name", "changed", a.name, b.name)
