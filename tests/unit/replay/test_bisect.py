"""`recorder.replay.bisect`: which turn is named, after how many runs, and what is said where none
can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import ceil, log2

import pytest

from recorder.errors import UsageError
from recorder.replay.bisect import CheckedRun, Search, dearest

Recorded = Callable[[int], Collection[int]]


def prefix(until: int) -> range:
    """What a client asks for that is answered as it was recorded."""
    return range(1, until + 1)


def ended(
    search: Search, turns: int, wrong: Collection[int], recorded: Recorded = prefix
) -> list[int]:
    """Search where one of the `wrong` answers makes the check fail; return what each run was to
    answer.
    """
    runs: list[int] = []
    while search.verdict is None:
        assert len(runs) < turns + 2, "it does not end"
        runs.append(search.until)
        given = recorded(search.until)
        search.take(
            CheckedRun(search.until, given, turns - len(given), not set(wrong) & set(given))
        )
    return runs


def test_each_step_is_named_within_log2_and_two_runs() -> None:
    for turns in range(1, 70):
        for step in range(1, turns + 1):
            search = Search(turns)
            runs = ended(search, turns, [step])
            assert (search.verdict, search.step) == ("step", step)
            assert len(runs) <= ceil(log2(turns)) + 2


def test_of_several_wrong_answers_the_first_is_named() -> None:
    search = Search(20)
    ended(search, 20, [7, 8, 15])
    assert search.step == 7


def test_a_verdict_counts_for_the_turns_that_were_answered_from_the_recording() -> None:
    search = Search(9)
    ended(search, 9, [7], lambda until: [turn for turn in prefix(until) if turn not in (4, 5, 6)])
    assert search.step == 7
    with_hole = Search(9)
    ended(with_hole, 9, [5], lambda until: [turn for turn in prefix(until) if turn != 5])
    assert (with_hole.verdict, with_hole.step) == ("undecided", None), (
        "what was not replayed is not named"
    )


@pytest.mark.parametrize("turns", [1, 2, 7, 40])
def test_no_step_is_named_where_none_is_wrong_or_all_runs_fail(turns: int) -> None:
    always, never = Search(turns), Search(turns)
    assert ended(always, turns, []) == [turns]
    assert always.verdict == "always passes"
    for count in (1, 2):
        never.take(CheckedRun(never.until, prefix(never.until), 0, passes=False))
        assert (never.verdict is None) == (count == 1)
    assert never.verdict == "not in the model's answers"


def test_a_client_that_asks_otherwise_each_time_is_undecided() -> None:
    search = Search(8)
    search.take(CheckedRun(8, prefix(8), 0, passes=False))
    search.take(CheckedRun(0, (), 8, passes=True))
    search.take(CheckedRun(4, (), 8, passes=True))
    assert search.verdict == "undecided"
    assert "other turns in each run" in search.why


def test_what_is_known_is_not_run_again() -> None:
    search = Search(16, passes=4, fails=12)
    assert ended(search, 16, [9]) == [8, 10, 9]
    assert search.step == 9
    assert Search(16, passes=4, fails=5).step == 5
    for passes, fails in ((5, 5), (16, None), (None, 17)):
        with pytest.raises(UsageError, match=r"--(passes|fails) \d+"):
            Search(16, passes, fails)


def test_no_search_asks_for_more_than_the_dearest_one() -> None:
    assert dearest(8) == [8, 0, 4, 2, 1]
    for turns in range(1, 40):
        for step in range(1, turns + 1):
            runs = ended(Search(turns), turns, [step])
            assert len(runs) <= len(dearest(turns))
            assert all(here >= there for here, there in zip(runs, dearest(turns), strict=False))
