"""Levels `usage`, `timing` and `bytes`: measures of two responses, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

from recorder.diff.compared import ComparedRecording, json_of
from recorder.diff.noise_filter import NoiseFilter, in_usage
from recorder.diff.report import Difference, LevelReport, Measure, Terms, cut, found, ratio, unknown
from recorder.diff.request import compared
from recorder.model.events import BODY_KINDS
from recorder.model.facts import Usage
from recorder.model.text import shared_length
from recorder.replay.matching.fingerprint import NO_JSON

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
    known: list[Measure] = []
    for name in Usage.__struct_fields__:
        one, other = getattr(a.usage, name), getattr(b.usage, name)
        if one is not None or other is not None:
            known.append(Measure(name.removesuffix("_tokens"), "tokens", one, other, ratio(one, other), one != other))
    differing = {(str(each.a), str(each.b)) for each in known if each.differs}
    further = list(_further(a, b, differing, terms))
    if not differing and not further:
        further = list(_earlier(a, b, terms))
    return found("usage", further, known)


def _further(
    a: ComparedRecording, b: ComparedRecording, reported: set[tuple[str, str]], terms: Terms
) -> Iterator[Difference]:
    """Yield differences of the reports, less the fields that repeat a count under the provider's name."""
    for each in compared("", _report(a, a.usage.usage_raw, terms), _report(b, b.usage.usage_raw, terms)):
        if (str(each.a), str(each.b)) not in reported:
            yield each


def _earlier(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    """Yield differences of reports before the last; streams that are cut otherwise have more or fewer of them."""
    if len(a.noted.reports) != len(b.noted.reports):
        return
    for number, (one, other) in enumerate(zip(a.noted.reports, b.noted.reports, strict=True)):
        if one != other:
            yield from compared(f"report {number}", _report(a, one, terms), _report(b, other, terms))


def _report(side: ComparedRecording, raw: str | None, terms: Terms) -> Any:
    value = json_of(None if raw is None else raw.encode("utf-8", "surrogatepass"))
    if value is NO_JSON:
        return {}
    return NoiseFilter(in_usage(side.exchange.api), exact=terms.exact).apply(value, (), ()).value


# -- timing: the times of each side, and their ratio


def timing(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare times. Times that only one side has (no text was sent, or it has not ended) belong to other levels."""
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
    """Return whether an import made the times up: no real head comes at 0 ns, and no event every 10 ms sharp."""
    head = side.first("response")
    if head is None or head.t_ns or not any(side.first(kind) for kind in BODY_KINDS):
        return False
    times = (each.t_ns for each in side.events if each.kind in BODY_KINDS)
    return all(after - before in (0, MADE_UP_NS) for before, after in pairwise(chain([0], times)))


# -- bytes: the bodies as they are, nothing taken for noise


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
