"""`recorder.diff` of conversations that are sent as a whole, and by what is new."""

from __future__ import annotations

import msgspec
import pytest

from recorder.diff import Report, Terms, diff
from recorder.model.events import Recording
from tests.support.conversations import RESULT, answer, asks, by_delta, made, said, whole_history
from tests.support.tables import table


def requests(a: list[Recording], b: list[Recording]) -> Report:
    return diff(a, b, ("request",))


@pytest.mark.parametrize("turn", [False, True])
def test_both_ways_to_send_a_conversation_are_equal(turn: bool) -> None:
    for one, other in [
        (whole_history(), by_delta(turn=turn)),
        (by_delta(turn=turn), whole_history()),
    ]:
        report = requests(one, other)
        assert [(pair.a.number, pair.b.number, pair.how) for pair in report.pairs] == [
            *((1, 1, "exact"), (2, 2, "exact"), (3, 3, "exact")),
        ]
        assert report.is_equal


def test_ids_of_responses_are_no_difference() -> None:
    again = by_delta()
    other = [
        again[0],
        made(2, asks([RESULT], "resp_1"), answer("resp_9", said("You rolled 7."))),
        made(3, asks("Again?", "resp_9"), answer("resp_3", said("No."))),
    ]
    assert requests(by_delta(), other).is_equal


def test_a_difference_is_named_where_it_is() -> None:
    other = by_delta()
    other[1] = made(
        2, asks([{**RESULT, "output": "12"}], "resp_1"), answer("resp_2", said("You rolled 7."))
    )
    report = requests(whole_history()[:2], other[:2])
    [found] = report.pairs[1].levels[0].differences
    assert (found.where, found.a, found.b) == ("input[2].output", '"7"', '"12"')


def test_a_link_that_leads_to_nothing_is_a_difference() -> None:
    found = requests(by_delta()[1:2], by_delta()[2:]).pairs[0].levels[0].differences
    assert "previous_response_id" in [each.where for each in found]


def test_one_exchange_is_compared_with_what_it_continues() -> None:
    deltas = by_delta()
    report = diff(whole_history()[2:], deltas[2:], ("request",), None, ((), deltas[:2]))
    assert report.is_equal


def test_exactly_nothing_is_put_together() -> None:
    report = diff(whole_history()[2:], by_delta()[2:], ("request",), Terms(exact=True))
    assert "previous_response_id" in [each.where for each in report.pairs[0].levels[0].differences]


def test_bodies_that_are_no_json_are_still_compared() -> None:
    one, other = (made(4, None) for _ in range(2))
    form = (
        msgspec.structs.replace(one, request_body=b"--x"),
        msgspec.structs.replace(other, request_body=b"--y"),
    )
    report = requests([*by_delta(), form[0]], [*by_delta(), form[1]])
    assert [each.where for each in report.pairs[3].levels[0].differences] == ["(the body)"]


@table(
    ("a", "b", "differences"),
    [
        ("", "?trace=REDACTED", [("query · trace", None, '"REDACTED"')]),
        ("?trace=REDACTED", "", [("query · trace", '"REDACTED"', None)]),
        ("?trace=REDACTED", "?trace=2", []),  # nobody knows
        ("?alt=sse&alt=json", "?alt=sse", [("query · alt", '"sse, json"', '"sse"')]),
        ("", "?key=REDACTED", []),  # the same key may be in a header
    ],
)
def test_a_parameter_is_a_difference_even_where_its_value_is_not_kept(
    a: str, b: str, differences: object
) -> None:
    one = made(1, asks("Hello"), answer("resp_1", said("Hi.")))
    sides = []
    for query in (a, b):
        head = msgspec.structs.replace(one.request, target=f"/v1/responses{query}")
        sides.append([msgspec.structs.replace(one, request=head)])
    found = requests(*sides).pairs[0].levels[0].differences
    assert [(each.where, each.a, each.b) for each in found] == differences
