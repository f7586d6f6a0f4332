"""Levels `usage`, `timing` and `bytes`: measures of two responses, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

from recorder.diff.compared import NOT_JSON, ComparedRecording, json_of
from recorder.diff.noise import in_usage
from recorder.diff.noise_filter import NoiseFilter
from recorder.diff.report import Difference, LevelReport, Measure, Terms, cut, found, ratio, unknown
from recorder.diff.request import compared
from recorder.model.events import BODY_KINDS
from recorder.model.facts import Usage

BYTES_SHOWN = 40  # from the first difference on

LEAST_NS = 50_000_000
"""What is less apart is not a difference: a network and a busy machine make as much, and nobody feels it."""

TOLERANCE = 1.25
"""How many times as long the longer of two may take: the same request to the same provider mostly stays below it."""

MADE_UP_NS = 10_000_000
"""From one event to the next, where whoever stored a stream did not write down when they came: an import then makes the
times up, with the response head at the very beginning."""

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


# -- usage: the tokens as each side reports them at its end, and on the way there


def usage(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare counts by their common names; then the rest of the provider's own report."""
    measures = [
        _token_measure(name, getattr(a.usage, name), getattr(b.usage, name)) for name in Usage.__struct_fields__
    ]
    known = [each for each in measures if each.a is not None or each.b is not None]
    differing = {(str(each.a), str(each.b)) for each in known if each.differs}
    further = list(_further(a, b, differing, terms))
    if not differing and not further:
        further = list(_earlier(a, b, terms))
    return found("usage", further, known)


def _token_measure(name: str, a: int | None, b: int | None) -> Measure:
    return Measure(name.removesuffix("_tokens"), "tokens", a, b, ratio(a, b), a != b)


def _further(
    a: ComparedRecording, b: ComparedRecording, reported: set[tuple[str, str]], terms: Terms
) -> Iterator[Difference]:
    """Yield differences of the reports, less the fields that repeat a count under the provider's name."""
    for each in compared("", *(_report(side, side.usage.usage_raw, terms) for side in (a, b))):
        if (str(each.a), str(each.b)) not in reported:
            yield each


def _earlier(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    """Yield differences of reports before the last; streams that are cut otherwise have more or fewer of them."""
    if len(a.reports) != len(b.reports):
        return
    pairs = [
        (number, *pair) for number, pair in enumerate(zip(a.reports, b.reports, strict=True)) if pair[0] != pair[1]
    ]
    for number, one, other in pairs:
        yield from compared(f"report {number}", _report(a, one, terms), _report(b, other, terms))


def _report(side: ComparedRecording, raw: str | None, terms: Terms) -> Any:
    value = json_of(None if raw is None else raw.encode("utf-8", "surrogatepass"))
    return (
        {}
        if value is NOT_JSON
        else NoiseFilter(in_usage(side.exchange.api), exact=terms.exact).apply(value, (), ()).value
    )


# -- timing: the times of each side, and their ratio


def timing(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare times. Times that only one side has (no text was sent, or it has not ended) belong to other levels."""
    made_up = [name for name, side in (("A", a), ("B", b)) if are_made_up(side)]
    if made_up:
        return unknown("timing", f"the times of {' and '.join(made_up)} are made up")
    measures = [_time_measure(name, getattr(a.timing, of), getattr(b.timing, of), terms) for name, of in _TIMES]
    return found("timing", (), [each for each in measures if each.a is not None or each.b is not None])


def _time_measure(name: str, a: int | None, b: int | None, terms: Terms) -> Measure:
    differs = a is not None and b is not None and _times_differ(a, b, terms.tolerance)
    return Measure(name, "ns", a, b, ratio(a, b), differs)


def _times_differ(a: int, b: int, tolerance: float) -> bool:
    return abs(a - b) > LEAST_NS and max(a, b) > tolerance * min(a, b)


def are_made_up(side: ComparedRecording) -> bool:
    """Return whether an import made the times up: no real head comes at 0 ns, and no event every 10 ms sharp."""
    head = side.first("response")
    if head is None or head.t_ns or not any(side.first(kind) for kind in BODY_KINDS):
        return False
    times = (each.t_ns for each in side.events if each.kind in BODY_KINDS)
    return all(after - before in (0, MADE_UP_NS) for before, after in pairwise(chain([0], times)))


# -- bytes: the bodies as they are, nothing taken for noise


def body(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare sizes and digests, and show the first difference."""
    if a.body == b.body:
        return found("bytes", ())
    one, other = (f"{len(each.body):,} bytes, sha256 {sha256(each.body).hexdigest()[:16]}…" for each in (a, b))
    at = parting(a.body, b.body)
    after_a, after_b = (
        cut(each.body[at : at + BYTES_SHOWN + 1].decode("utf-8", "backslashreplace"), BYTES_SHOWN) for each in (a, b)
    )
    return found(
        "bytes",
        [Difference("body", "changed", one, other), Difference(f"from byte {at:,} on", "changed", after_a, after_b)],
    )


def parting(a: bytes, b: bytes) -> int:
    """Count the bytes that the beginnings share, by halving: comparing slices is cheap, a loop is not."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low
