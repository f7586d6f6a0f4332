"""Two recordings compared in a test."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from recorder.diff import ALL, TOLERANCE, Level, Report, Terms, diff
from recorder.diff.rendering import Rendering, stat_lines
from recorder.errors import UsageError
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.testing.subjects import episodes


def assert_same_stream(
    a: Any,
    b: Any,
    only: Level | Sequence[Level] | None = None,
    *,
    exact: bool = False,
    tolerance: float = TOLERANCE,
    rules: Rules = DEFAULT_RULES,
) -> None:
    """Raises `AssertionError`, which says how B differs from A, as `recorder diff` does.

    Each is what the fixture `recorder_replay` gives, what its `session` is, the path of a file, or a session's name.
    `only` is a level or several of `recorder diff --only`; without it all are compared but `timing`, since no run is as
    fast as another one, and `bytes`. Raises `UsageError` if there is no such level, `RecorderError` if something cannot
    be read.
    """
    __tracebackhide__ = True
    chosen = _levels(only, exact)
    report = diff(episodes(a), episodes(b), chosen, Terms(exact, tolerance, rules))
    if not report.is_equal:
        raise AssertionError(failure(report, called(a), called(b)))


def called(said: Any) -> str:
    """A recording by the path or name that was given, else by the name of its session."""
    if isinstance(said, str | Path):
        return str(said)
    held = said
    while held is not None and not isinstance(getattr(held, "name", None), str):
        held = getattr(held, "session", None)
    return "recording" if held is None else str(held.name)


def failure(report: Report, a: str, b: str) -> str:
    """What differs, to be read under the name of a test."""
    from recorder.model.text import safe_text

    lines = chain(stat_lines(report), Rendering().lines(report))
    return "\n".join([safe_text(f"{b} (B) differs from {a} (A):"), *(safe_text(line.plain) for line in lines)])


def _levels(only: Level | Sequence[Level] | None, exact: bool) -> Sequence[Level]:
    __tracebackhide__ = True
    if only is None:
        return [level for level in ALL if level != "timing" and (exact or level != "bytes")]
    chosen: Sequence[Any] = [only] if isinstance(only, str) else list(only)
    for level in chosen:
        if level not in ALL:
            raise UsageError(f"There is no level {level!r}: the levels are {', '.join(ALL)}.")
    return chosen
