"""Requests that have only what is new, matched with those that have the whole history, and the
other way round.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from recorder.model.events import Recording
from recorder.replay.matching import Match, Matcher, Miss
from recorder.replay.matching.candidates import NEAR_LIMIT
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import Rule
from recorder.wire import logical_request
from recorder.wire.logical_request import LogicalRequest, LogicalRequests
from tests.support.conversations import (
    RESULT,
    answer,
    asks,
    by_delta,
    made,
    said,
    user,
    whole_history,
)
from tests.support.recordings import ask

STRICT = Rules(until="noise")


def bodies(recordings: list[Recording]) -> list[Any]:
    return [json.loads(each.request_body) for each in recordings]


def continuing(ids: list[str]) -> list[Any]:
    """The requests of `by_delta` but for the first, each with the id that the response before it
    has in this run.
    """
    return [
        {**body, "previous_response_id": id}
        for body, id in zip(bodies(by_delta())[1:], ids, strict=True)
    ]


def numbers(matcher: Matcher, requests: list[Any]) -> list[int]:
    found = [matcher.match(ask(body)) for body in requests]
    return [each.recorded.number if isinstance(each, Match) else -1 for each in found]


def test_a_delta_is_answered_by_a_recording_of_the_whole_history() -> None:
    assert numbers(Matcher(whole_history(), STRICT), continuing(["resp_a", "resp_b"])) == [2, 3]


@pytest.mark.parametrize("turn", [False, True])
def test_the_whole_history_is_answered_by_a_recording_of_deltas(turn: bool) -> None:
    assert numbers(Matcher(by_delta(turn=turn), STRICT), bodies(whole_history())) == [1, 2, 3]


def test_a_miss_names_what_differs_and_not_how_it_was_sent() -> None:
    other = asks([{**RESULT, "output": "12"}], "resp_a")
    found = Matcher(whole_history(), STRICT).match(ask(other))
    assert isinstance(found, Miss)
    assert found.nearest is not None
    assert found.nearest.number == 2
    assert [str(each) for each in found.differences] == [
        'input[2].output: recorded "7", asked "12"'
    ]


def test_a_link_to_nothing_recorded_is_a_difference() -> None:
    found = Matcher(by_delta(), STRICT).match(ask(asks([RESULT], "resp_x")))
    assert isinstance(found, Miss)
    assert any(each.path == "previous_response_id" for each in found.differences)


def test_of_a_long_conversation_only_requests_of_the_same_length_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []
    of = LogicalRequests.of

    def counted(self: LogicalRequests, recording: Recording) -> LogicalRequest:
        found = of(self, recording)
        lengths.append(sum(len(part.items) for part in found.parts))
        return found

    monkeypatch.setattr(LogicalRequests, "of", counted)
    count = 3 * NEAR_LIMIT
    matcher = Matcher(chain(count), STRICT)
    whole = [each for number in range(10) for each in (user(f"q{number}"), said(f"a{number}"))]
    assert numbers(matcher, [asks([*whole, user("q10")])]) == [11]
    assert set(lengths) == {21}
    assert numbers(matcher, [asks([*whole, user("Else")])]) == [-1]
    assert len(set(lengths)) <= NEAR_LIMIT < count


def test_items_that_a_rule_takes_for_noise_are_not_counted() -> None:
    matcher = Matcher(chain(2), Rules([Rule("fields", "all", "input")], until="noise"))
    assert numbers(matcher, [asks([user("1"), user("2"), user("3"), user("4")])]) == [1]


def chain(count: int) -> list[Recording]:
    """Turns of which each has only what is new."""
    return [
        made(
            number + 1,
            asks([user(f"q{number}")], f"resp_{number - 1}" if number else None),
            answer(f"resp_{number}", said(f"a{number}")),
            turn=True,
        )
        for number in range(count)
    ]


def test_without_a_link_no_response_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a response was looked into")

    monkeypatch.setattr(logical_request, "response_ids", fail)
    matcher = Matcher(whole_history(), STRICT)
    assert numbers(matcher, [*bodies(whole_history()), asks([user("Else")])]) == [1, 2, 3, -1]
