"""Level `shape`: what a model says again does not differ, what its provider or its tools changed
does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recorder.diff.report import Difference
from tests.support.recordings import GOOD, RESPONSES, Json, Reply, compared, replaced
from tests.support.tables import table

every_api = table("good", GOOD.values())


def shapes(a: Reply, b: Reply) -> list[tuple[str, str, str | None, str | None]]:
    found: list[Difference] = compared(a, b, "shape").pairs[0].levels[0].differences
    return [(each.change, each.where, each.a, each.b) for each in found]


def changed(change: Callable[[Json], None]) -> Reply:
    """The good stream, with a change in each of its events."""
    events = [{**event} for event in RESPONSES.events if isinstance(event, dict)]
    for event in events:
        change(event)
    return RESPONSES._replace(events=tuple(events))


@every_api
@table(
    ("old", "new"),
    [("sunny", "rainy, as it often is"), ("Lyon", "Nice"), ("87", "12"), ("3}", "4}")],
)
def test_other_words_arguments_and_counts_have_the_same_shape(
    good: Reply, old: str, new: str
) -> None:
    if old in str(good.events):
        assert shapes(good, replaced(good, old, new)) == []


@every_api
def test_how_many_deltas_a_text_has_is_not_a_part_of_the_shape(good: Reply) -> None:
    which = next(number for number, event in enumerate(good.events) if " sunny" in str(event))
    twice = good._replace(events=(*good.events[:which], good.events[which], *good.events[which:]))
    assert shapes(good, twice) == shapes(twice, good) == []


@every_api
def test_another_tool_is_another_shape(good: Reply) -> None:
    missing, added = (
        ("missing", "items", "tool_call look_up", None),
        ("added", "items", None, "tool_call look_out"),
    )
    assert shapes(good, replaced(good, "look_up", "look_out")) == [missing, added]


@pytest.mark.parametrize("name", ["openai-responses", "anthropic"])
def test_an_event_of_a_new_kind_is_another_shape(name: str) -> None:
    good = GOOD[name]
    more = good._replace(
        events=(*good.events[:-1], {"type": "model.mused", "about": 1}, good.events[-1])
    )
    [(change, where, one, other)] = shapes(good, more)
    assert (change, where, one) == ("added", "model.mused", None)
    assert str(other).startswith('{"about":1,')


def test_a_field_that_is_missing_is_named_with_its_value() -> None:
    assert shapes(RESPONSES, changed(lambda event: event.pop("logprobs", None))) == [
        ("missing", "response.output_text.delta · logprobs", "[]", None),
        ("missing", "response.output_text.done · logprobs", "[]", None),
    ]


def test_a_field_of_another_type_is_named_with_both_values() -> None:
    def as_text(event: Json) -> None:
        event["output_index"] = str(event.get("output_index"))

    one = RESPONSES._replace(events=RESPONSES.events[3:5])
    other = changed(as_text)._replace(events=changed(as_text).events[3:5])
    assert shapes(one, other) == [
        ("changed", "response.output_text.delta · output_index", "0", '"0"')
    ]


def test_a_field_of_an_item_is_named_with_the_type_of_the_item() -> None:
    def without_role(event: Json) -> None:
        if event["type"] == "response.output_item.done":
            event["item"] = {name: value for name, value in event["item"].items() if name != "role"}

    assert shapes(RESPONSES, changed(without_role)) == [
        ("missing", "response.output_item.done · item[message].role", '"assistant"', None)
    ]


def test_a_value_that_may_be_null_has_the_same_shape_without_it() -> None:
    assert shapes(RESPONSES, replaced(RESPONSES, '"logprobs": []', '"logprobs": null')) == []


def test_another_status_and_a_response_that_breaks_off_are_other_shapes() -> None:
    error = RESPONSES._replace(status=429)
    assert ("changed", "response · status", "200", "429") in shapes(RESPONSES, error)
    cut = RESPONSES._replace(events=RESPONSES.events[:-1])
    assert ("changed", "end · status", '"completed"', '"incomplete"') in shapes(RESPONSES, cut)


def test_an_object_that_one_side_lacks_is_named_once() -> None:
    def with_trace(event: Json) -> None:
        event["trace"] = {"id": 1, "spans": [{"name": "a"}]}

    found = shapes(RESPONSES, changed(with_trace))
    assert {each[1].partition(" · ")[2] for each in found} == {"trace"}
