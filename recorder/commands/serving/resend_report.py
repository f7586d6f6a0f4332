"""The result of `recorder resend`: how often the answers differ from the recorded ones, and whether
that is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from recorder.diff import Level
from recorder.diff.drift import LEVELS, Interval, Share, beyond
from recorder.model.fork import ResentFrom

Shares = Mapping[Level, Share]

NO_CONTROL = (
    "No claim: there is no other session of the recorded model as a control; `recorder resend` without --model, and "
    "without --to, makes one."
)


class Control(NamedTuple):
    """The recorded model, asked again: the session, and how often its answers differ from the
    recorded ones.
    """

    session: str
    shares: Shares


class ComparedShare(NamedTuple):
    """A level at which the answers and those of a control were compared with the recorded ones."""

    level: Level
    share: Share
    control: Share | None

    @property
    def interval(self) -> Interval | None:
        """Return how much more the answers differ than the control; None without one."""
        return None if self.control is None else beyond(self.share, self.control)

    @property
    def is_claim(self) -> bool:
        return self.interval is not None and self.interval.is_claim


def compared(shares: Shares, control: Control | None) -> list[ComparedShare]:
    found = []
    for level in LEVELS:
        of_control = None if control is None else control.shares[level]
        found.append(ComparedShare(level, shares[level], of_control))
    return found


def lines(levels: Sequence[ComparedShare], control: Control | None) -> Iterator[str]:
    """Yield a line for each level, and one that says why there is no claim."""
    for each in levels:
        line = f"{LEVELS[each.level]}: {_text(each.share)} differ from the recording"
        if each.control is not None and each.interval is not None:
            low, high = each.interval
            verdict = "it differs more than it differs from itself" if each.is_claim else "no claim"
            line += f", of the control {_text(each.control)}; difference {low:+.0%} to {high:+.0%}: {verdict}"
        yield line
    if control is None:
        yield NO_CONTROL


def _text(share: Share) -> str:
    return f"{share.differing} of {share.answers}"


class Resent(NamedTuple):
    """What a call has sent, or with `is_dry_run` would send."""

    session: str
    labels: ResentFrom
    requests: int
    # of as long answers as the recorded ones; None if a price is not known
    estimated_usd: Decimal | None
    is_dry_run: bool


def document(
    resent: Resent, levels: Sequence[ComparedShare], control: Control | None
) -> dict[str, Any]:
    """Return the result as a JSON value."""
    return {
        "session": resent.session,
        "resent_from": resent.labels,
        "is_dry_run": resent.is_dry_run,
        "requests": resent.requests,
        "estimated_usd": None if resent.estimated_usd is None else str(resent.estimated_usd),
        "control": None if control is None else control.session,
        "is_claim": any(each.is_claim for each in levels),
        "levels": [_row(each) for each in levels],
    }


def _row(level: ComparedShare) -> dict[str, Any]:
    row: dict[str, Any] = {
        "level": level.level,
        **level.share._asdict(),
        "control": None,
        "difference": None,
    }
    if level.control is not None and level.interval is not None:
        row["control"], row["difference"] = level.control._asdict(), level.interval._asdict()
    return {**row, "is_claim": level.is_claim}
