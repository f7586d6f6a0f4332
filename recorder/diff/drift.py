"""Drift: whether answers differ from a recording more than the same model's answers differ from it.

Pure. Rules of this file:

* An answer differs at a level, or it does not; how much is not counted.
* The interval of a share is Wilson's; that of the difference of two shares is Newcombe's (1998,
  method 10), which is made of two of those. Both hold with few answers, and with shares of 0 and 1.
* A claim is made where the whole interval is above 0.
* The answers of one request count as if each were of another request. For these requests, whatever
  others there are, that makes the interval wider, never narrower: the variance of several shares is
  at most that of their mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import NamedTuple

from recorder.diff import Level, Terms, diff
from recorder.model.events import Recording

LEVELS: Mapping[Level, str] = {"shape": "shape", "tools": "next action"}
"""The levels that are compared, and what they are called: the next action is which tools are
called, and with what.
"""

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Share(NamedTuple):
    """How many of some answers differ."""

    differing: int
    answers: int


class Interval(NamedTuple):
    """Where a share, or a difference of two, is likely to be."""

    low: float
    high: float

    @property
    def is_claim(self) -> bool:
        return self.low > 0


def shares(pairs: Iterable[tuple[Recording, Recording]], terms: Terms) -> dict[Level, Share]:
    """Return how many answers differ at each level, of pairs of a recorded answer and another one
    to its request.
    """
    found = {level: Share(0, 0) for level in LEVELS}
    for recorded, answer in pairs:
        report = diff([recorded], [answer], tuple(LEVELS), terms)
        for level, share in found.items():
            differing = share.differing + (1 if report.count(level) else 0)
            found[level] = Share(differing, share.answers + 1)
    return found


def wilson(share: Share) -> Interval:
    """Return the interval of a share. Without answers it may be anything."""
    if not share.answers:
        return Interval(0.0, 1.0)
    n, p = share.answers, share.differing / share.answers
    middle = p + _Z**2 / (2 * n)
    half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    scale = 1 + _Z**2 / n
    return Interval(max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))


def beyond(share: Share, control: Share) -> Interval:
    """Return the interval of how much larger a share is than that of the control."""
    if not share.answers or not control.answers:
        return Interval(-1.0, 1.0)
    p, q = share.differing / share.answers, control.differing / control.answers
    of_share, of_control = wilson(share), wilson(control)
    low = p - q - math.hypot(p - of_share.low, of_control.high - q)
    high = p - q + math.hypot(of_share.high - p, q - of_control.low)
    return Interval(max(-1.0, low), min(1.0, high))
