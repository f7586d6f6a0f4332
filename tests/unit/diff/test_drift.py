"""The statistics of `recorder resend`: what an interval holds, and when something is claimed."""

from __future__ import annotations

from random import Random

import pytest

from recorder.diff.drift import Interval, Share, beyond, wilson

SEEDS = range(100)


def drawn(random: Random, rate: float, answers: int) -> Share:
    """Of so many answers those that differ, each by chance."""
    return Share(sum(random.random() < rate for _ in range(answers)), answers)


def intervals(rate: float, noise: float, answers: int) -> list[Interval]:
    """One for each seed: a model that differs at a rate, against a control with some noise."""
    found = []
    for seed in SEEDS:
        random = Random(seed)
        found.append(beyond(drawn(random, rate, answers), drawn(random, noise, answers)))
    return found


@pytest.mark.parametrize("answers", [50, 100, 300])
def test_a_planted_drift_of_ten_percent_is_in_the_interval(answers: int) -> None:
    assert sum(each.low <= 0.1 <= each.high for each in intervals(0.1, 0, answers)) >= 95


def test_a_drift_is_claimed_with_enough_answers() -> None:
    assert sum(each.is_claim for each in intervals(0.1, 0, 200)) >= 95


def test_nothing_is_claimed_where_nothing_changed() -> None:
    assert not any(each.is_claim for each in intervals(0, 0, 100))
    assert sum(each.is_claim for each in intervals(0.2, 0.2, 100)) <= 5, "noise of the model itself"


def test_the_intervals_are_those_of_the_paper() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), 873-890, table II: 56/70 - 48/80, 10/10 - 0/20
    assert [round(each, 4) for each in beyond(Share(56, 70), Share(48, 80))] == [0.0524, 0.3339]
    assert [round(each, 4) for each in beyond(Share(10, 10), Share(0, 20))] == [0.6791, 1.0]


def test_without_answers_nothing_is_known() -> None:
    assert wilson(Share(0, 0)) == (0, 1)
    assert not beyond(Share(3, 3), Share(0, 0)).is_claim
