"""The comparison of two recorded sessions, for the page that draws both: the JSON of `recorder diff`, and its sides.

Only sessions of the log are compared. Files are for `recorder diff`: a URL must not choose what is read from the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
from sqlalchemy import URL

from recorder.diff import ALL, TOLERANCE, Level, Terms, diff
from recorder.diff.report import document
from recorder.errors import NotFoundError, UsageError
from recorder.model.text import safe_text
from recorder.recordings.loader import find_session
from recorder.recordings.session import RecordedSession
from recorder.replay.matching.noise import Rules
from recorder.store.queries.reader import LogReader
from recorder.ui.command_line import recorder_line

ANSWER_BYTES = 8 * 2**20
"""Bytes of differences in one answer: more is not a page that somebody reads. All are counted; of a pair that is
compared alone there are as many as `recorder diff` lists."""


def levels_of(given: str | None) -> tuple[Level, ...]:
    """Return levels by their names, with commas between; none if all are compared. Raise `UsageError`."""
    named: dict[str, Level] = {level: level for level in ALL}
    words = [word.strip() for word in (given or "").split(",") if word.strip()]
    if unknown := [word for word in words if word not in named]:
        raise UsageError(f"There is no level {unknown[0]!r}: the levels are {', '.join(ALL)}.")
    return tuple(named[word] for word in words)


def terms_of(tolerance: str | None, rules: Rules, *, exact: bool) -> Terms:
    """Return the terms of a comparison; `rules` are those of requests. Raise `UsageError`."""
    try:
        factor = float(tolerance) if tolerance else TOLERANCE
    except ValueError:
        factor = 0.0
    if not 1 <= factor < float("inf"):
        raise UsageError("The tolerance is a factor of 1 or more, as 1.25.")
    return Terms(exact, factor, rules)


async def comparison(
    log: LogReader, url: URL, a: str | None, b: str | None, only: Sequence[Level], terms: Terms
) -> dict[str, Any]:
    """Return the object of `recorder diff --json` for two sessions, or `SESSION:N` for one exchange, and `sessions`.

    Raises `NotFoundError` for a reference that leads nowhere or to no exchange, `RecorderError` if a side is too large.
    """
    if not a or not b:
        raise UsageError("Name two sessions, a and b: each by its id, its name, or latest; SESSION:N is one exchange.")
    one, other = await find_session(log, a), await find_session(log, b)
    for side in (one, other):
        if not side.recordings:
            raise NotFoundError(f"{safe_text(side.name)} has no exchanges.")
    found = await asyncio.to_thread(_compared, one, other, only, terms)
    command = recorder_line(url, "diff", a, b, *_options(only, terms))
    return {**found, "sessions": {"a": _side(one), "b": _side(other)}, "command": command}


def _compared(one: RecordedSession, other: RecordedSession, only: Sequence[Level], terms: Terms) -> dict[str, Any]:
    report = diff(one.recordings, other.recordings, only, terms, (one.continued, other.continued))
    answer = document(one.name, other.name, report)
    left_bytes = ANSWER_BYTES
    for level in chain.from_iterable(pair["levels"] for pair in answer["pairs"]):
        listed = []
        for difference in level["differences"]:
            left_bytes -= len(msgspec.json.encode(difference))
            if left_bytes < 0:
                break
            listed.append(difference)
        level["differences"] = listed
    return answer


def _side(side: RecordedSession) -> dict[str, Any]:
    session = side.session
    return {"session_id": session.session_id, "name": session.name, "exchanges": len(side.recordings)}


def _options(only: Sequence[Level], terms: Terms) -> list[str]:
    options = ["--only", ",".join(only)] if only else []
    options += ["--tolerance", f"{terms.tolerance:g}"] if terms.tolerance != TOLERANCE else []
    return [*options, "--exact"] if terms.exact else options
