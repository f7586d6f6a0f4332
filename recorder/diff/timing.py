"""Level `timing`: when things came on each side, and by how much that differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from recorder.diff.compared import ComparedRecording
from recorder.diff.report import LevelReport, Measure, Terms, found, ratio, unknown
from recorder.model.events import BODY_KINDS

LEAST_NS = 50_000_000
"""What is less apart is no difference: a network and a busy machine make as much, and nobody feels it."""

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


def timing(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Times that only one side has (it said nothing, or is not over) are a matter of other levels."""
    made_up = [name for name, side in (("A", a), ("B", b)) if are_made_up(side)]
    if made_up:
        return unknown("timing", f"the times of {' and '.join(made_up)} are made up")
    measures = [_measure(name, getattr(a.timing, of), getattr(b.timing, of), terms) for name, of in _TIMES]
    return found("timing", (), [each for each in measures if each.a is not None or each.b is not None])


def _measure(name: str, a: int | None, b: int | None, terms: Terms) -> Measure:
    differs = a is not None and b is not None and _differ(a, b, terms.tolerance)
    return Measure(name, "ns", a, b, ratio(a, b), differs)


def _differ(a: int, b: int, tolerance: float) -> bool:
    return abs(a - b) > LEAST_NS and max(a, b) > tolerance * min(a, b)


def are_made_up(side: ComparedRecording) -> bool:
    """Whether an import made them up: no real response head comes at 0 ns, and no event every 10 ms sharp."""
    head = next(side.of("response"), None)
    times = [each.t_ns for each in side.events if each.kind in BODY_KINDS]
    if head is None or head.t_ns or not times:
        return False
    return all(after - before in (0, MADE_UP_NS) for before, after in pairwise([0, *times]))
