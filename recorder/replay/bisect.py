"""Bisect: the search for the turn whose recorded answer makes a check fail. Pure.

Rules of this file:

* A run answers turns 1 to N from the recording, and asks for the others. Its verdict counts for the
  turns that were answered from it, whichever these were: a client may ask otherwise than it was
  recorded.
* One answer is looked for: a run fails if that was among them, and passes if not. Of several, the
  first is found.
* All recorded, then all live: without one run that fails and one that passes there is nothing to
  search between.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from recorder.errors import UsageError

BisectVerdict = Literal["step", "not in the model's answers", "always passes", "undecided"]


class CheckedRun(NamedTuple):
    """A run that has ended, and what the check said."""

    until: int  # the last turn that could be answered from the recording
    recorded: Collection[int]  # the turns that were
    live: int  # requests that were asked
    passes: bool


class Search:
    """The turns of which one may be it.

    Run what `until` says, and give the result to `take`, as long as there is no verdict.
    """

    def __init__(self, turns: int, passes: int | None = None, fails: int | None = None) -> None:
        """Take the number of turns, and what is known before: with how many recorded turns the
        check passes, or fails.

        Raises `UsageError` if that leaves nothing to search.
        """
        if fails is not None and fails > turns:
            raise UsageError(f"--fails {fails} is more than the {turns} turns of the recording.")
        last = turns if fails is None else fails
        if passes is not None and passes >= last:
            raise UsageError(
                f"--passes {passes} leaves no turn to search: it must be less than {last}."
            )
        self._turns = turns
        self._suspects = list(range((passes or 0) + 1, last + 1))
        self._has_passed, self._has_failed = passes is not None, fails is not None
        self.why = ""  # it is undecided
        self.verdict: BisectVerdict | None = None
        self._conclude()

    @property
    def step(self) -> int | None:
        """The turn that was found."""
        return self._suspects[0] if self.verdict == "step" else None

    @property
    def until(self) -> int:
        """The last turn that the next run is to answer from the recording."""
        if not self._has_failed:
            return self._turns
        if not self._has_passed:
            return 0
        return self._suspects[(len(self._suspects) - 1) // 2]

    @property
    def known(self) -> tuple[int | None, int | None]:
        """How many recorded turns the check passes with, and fails with: the nearest of what is
        known.
        """
        passes = self._suspects[0] - 1 if self._has_passed and self._suspects else None
        fails = self._suspects[-1] if self._has_failed and self._suspects else None
        return passes, fails

    def take(self, run: CheckedRun) -> None:
        """Take the result of the run that `until` asked for."""
        is_search = self._has_passed and self._has_failed
        if run.passes and not self._has_failed:
            self._conclude_good(run)
            return
        if not run.passes and not run.recorded and not self._has_passed:
            self.verdict = "not in the model's answers"
            return
        left = [turn for turn in self._suspects if (turn in run.recorded) != run.passes]
        if is_search and len(left) == len(self._suspects):
            self._give_up("PROGRAM asks for other turns in each run")
            return
        self._suspects = left
        self._has_passed |= run.passes
        self._has_failed |= not run.passes
        self._conclude()

    def _conclude_good(self, run: CheckedRun) -> None:
        """Conclude from a pass of the run that was to fail."""
        if not run.live:
            self.verdict = "always passes"
            return
        self._give_up("CMD passes already, but PROGRAM asked otherwise than it was recorded")

    def _conclude(self) -> None:
        if not self._suspects:
            self._give_up("CMD passes and fails with the same recorded turns")
        elif self._has_passed and self._has_failed and len(self._suspects) == 1:
            self.verdict = "step"

    def _give_up(self, why: str) -> None:
        self.verdict, self.why = "undecided", why


def dearest(turns: int, passes: int | None = None, fails: int | None = None) -> list[int]:
    """Return how many turns each run answers from the recording if the first that may be it is it.

    No other search has more runs, and none of its runs asks for more turns than the one of that
    place here.
    """
    search = Search(turns, passes, fails)
    step = (passes or 0) + 1
    found: list[int] = []
    while search.verdict is None:
        until = search.until
        found.append(until)
        search.take(CheckedRun(until, range(1, until + 1), turns - until, until < step))
    return found
