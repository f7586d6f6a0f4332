"""Times in options: a moment of a session (`--at`), a date or an age (`--since`, `--until`), a
duration.
"""

from __future__ import annotations

import datetime
import re
import time
from typing import NamedTuple

import click

from recorder.commands.terminal.options import Parsed, joined_options
from recorder.errors import UsageError

UNITS_NS = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
LARGEST_NS = 2**62  # what a database takes as a number, with room for a difference

_NUMBER = r"(\d+(?:\.\d+)?)"
_SPAN = re.compile(rf"{_NUMBER}\s*({'|'.join(UNITS_NS)})", re.ASCII)
_SHARE = re.compile(rf"{_NUMBER}\s*%", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class At(NamedTuple):
    """A moment: a time after the beginning, or a share of the whole time."""

    after_ns: int = 0
    share: float | None = None


def _moment(given: str) -> At:
    text = given.strip()
    if share := _SHARE.fullmatch(text):
        if float(share[1]) > 100:
            raise ValueError(
                f"{text!r} is after the end: give a share up to 100%, or a time like 1.5s."
            )
        return At(share=float(share[1]) / 100)
    after_ns = _span_ns(text)
    if after_ns is None:
        raise ValueError(f"{text!r} is not a moment of a session: give 350ms, 1.5s, 2m or 50%.")
    return At(after_ns)


def _instant(given: str) -> int:
    text = given.strip()
    ago_ns = _span_ns(text)
    at_ns = _date_ns(text) if ago_ns is None else time.time_ns() - ago_ns
    if at_ns is None:
        raise ValueError(
            f"{text!r} is not a time: give 30m, 12h, 7d, 2w, a date, or date and time (ISO 8601)."
        )
    return max(-LARGEST_NS, min(LARGEST_NS, at_ns))


def _span(given: str) -> int:
    span_ns = _span_ns(given.strip())
    if span_ns is None:
        raise ValueError(f"{given!r} is not a length of time: give 90s, 30m, 1h or 2d.")
    return span_ns


MOMENT = Parsed("1.5s|50%", _moment)
"""A moment as text: `1.5s`, `350ms`, `2m`, `1h` after the beginning, or `50%` of the whole time."""
INSTANT = Parsed("7d|DATE", _instant)
"""A past time as text: an age (`7d`, `12h`) or a date, with or without a time; nanoseconds since
the epoch.
"""
SPAN = Parsed("1h", _span)
"""A duration as text: `90s`, `30m`, `1h`; nanoseconds."""


def _span_ns(text: str) -> int | None:
    span = _SPAN.fullmatch(text)
    return None if span is None else int(min(float(span[1]) * UNITS_NS[span[2]], float(LARGEST_NS)))


def _date_ns(text: str) -> int | None:
    """Parse an ISO 8601 date or time. Without a zone it is local; a date is its midnight."""
    try:
        since_epoch = datetime.datetime.fromisoformat(text).astimezone() - _EPOCH
    except (ValueError, OverflowError, OSError):
        return None
    return since_epoch // datetime.timedelta(microseconds=1) * 1000


class Period(NamedTuple):
    """A time from and to a moment, each of which may be open."""

    since_ns: int | None = None
    until_ns: int | None = None


def period_of(since: int | None, until: int | None) -> Period:
    """Return a period. Raise `UsageError` if it ends before it begins."""
    if since is not None and until is not None and since > until:
        raise UsageError("--since is later than --until: nothing can be in between.")
    return Period(since, until)


between = joined_options(
    "period",
    period_of,
    click.option(
        "--since",
        type=INSTANT,
        metavar="7d|DATE",
        help="Only what began since then: an age (7d), a date, or a date and time (local if it has no zone).",
    ),
    click.option("--until", type=INSTANT, metavar="7d|DATE", help="Only what began before then."),
)
"""Add `--since` and `--until`, which the command gets as `period`."""
