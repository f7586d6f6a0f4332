"""Level `events`: each change of a sequence is named where it is, and no other event is told with
it.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from recorder.cassettes.plain import STEP_NS, PlainStream
from recorder.diff import diff
from recorder.diff.levels import MADE_UP_NS
from recorder.diff.report import Difference, stat_lines
from recorder.recordings.files import NAMES
from recorder.replay.matching.miss import differences
from recorder.wire.recording import recording_of
from tests.support.recordings import (
    CHAT_REPLY,
    GOOD,
    MESSAGES,
    RESPONSES,
    Json,
    Reply,
    assembled,
    compared,
    differing,
    recorded,
)
from tests.support.tables import table

_PLACE = {"item_id": "msg_1", "output_index": 0}
_ITEM = {"id": "msg_1", "type": "message", "role": "assistant"}
DELTA = "response.output_text.delta"


def _message(*parts: list[str]) -> Reply:
    """A message in parts, and each of them in deltas; told by its deltas, its ends, its item and
    the whole response.
    """
    events: list[Json] = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**_ITEM, "content": []}}
    ]
    for index, words in enumerate(parts):
        where, text = {**_PLACE, "content_index": index}, "".join(words)
        events += [{"type": DELTA, **where, "delta": word} for word in words]
        events.append({"type": "response.output_text.done", **where, "text": text})
        part = {"type": "output_text", "text": text}
        events.append({"type": "response.content_part.done", **where, "part": part})
    item = {
        **_ITEM,
        "content": [{"type": "output_text", "text": "".join(words)} for words in parts],
    }
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": {"id": "resp_1", "output": [item]}})
    return Reply(tuple(events)).numbered()


LONG = _message([f"w{number} " for number in range(48)])


def told(a: Reply, b: Reply, **terms: Any) -> list[Difference]:
    report = compared(a, b, **terms)
    assert report.differing == ("events",)
    return report.pairs[0].levels[5].differences


@table("is_numbered_again", [False, True])
@table("number", [1, 20, 48])
def test_a_delta_that_is_missing_is_named_alone(number: int, is_numbered_again: bool) -> None:
    less = LONG.without(number)
    [found] = told(LONG, less.numbered() if is_numbered_again else less)
    assert (found.change, found.where, found.a, found.a_pos) == (
        "missing",
        DELTA,
        f'"w{number - 1} "',
        number + 2,
    )


def test_a_delta_that_its_end_contradicts_is_named_alone() -> None:
    [found] = told(LONG, LONG.edited(20, lambda event: event.update(delta="X ")))
    assert (found.where, found.a, found.b, found.b_pos) == (
        f"{DELTA} · its text",
        '"w19 "',
        '"X "',
        22,
    )


def test_a_delta_of_another_type_breaks_no_run() -> None:
    found = told(LONG, LONG.edited(20, lambda event: event.update(type="response.other.delta")))
    assert [(each.change, each.where) for each in found] == [
        ("missing", DELTA),
        ("added", "response.other.delta"),
    ]


def test_a_dropped_chunk_is_named_where_nothing_else_says_its_text() -> None:
    report = compared(CHAT_REPLY, CHAT_REPLY.without(2))
    assert report.differing == ("answer", "events")
    [found] = report.pairs[0].levels[5].differences
    assert (found.change, found.a) == ("missing", '" sunny"')


def test_deltas_that_say_something_else_than_their_end_are_compared_word_by_word() -> None:
    other = LONG.edited(DELTA, lambda event: event.update(delta=event["delta"].upper()))
    [found] = told(LONG, other)
    assert found.where == f"{DELTA} · text of the deltas"


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_an_event_that_was_not_ended_is_not_the_same(good: Reply) -> None:
    unended = good._replace(events=(*good.events[:-1], good.blocks()[-1].rstrip()))
    assert any("unended" in (each.b or "") for each in told(good, unended))


# -- texts that stand elsewhere


def test_a_boundary_between_parts_that_moved_is_told() -> None:
    found = told(_message(["ab"], ["c"]), _message(["a"], ["bc"]))
    assert [(each.a, each.b) for each in found] == [('"ab"', '"a"'), ('"c"', '"bc"')]


def test_a_boundary_between_parts_of_a_document_that_moved_is_told() -> None:
    def document(*parts: str) -> Reply:
        content = [{"type": "output_text", "text": text} for text in parts]
        body = {"id": "resp_1", "output": [{**_ITEM, "content": content}]}
        return Reply(body=json.dumps(body).encode()).headed("content-type", "application/json")

    found = told(document("ab", "c"), document("a", "bc"))
    assert [(each.a, each.b) for each in found] == [('"ab"', '"a"'), ('"c"', '"bc"')]


def test_text_that_moved_past_an_annotation_is_told() -> None:
    annotation = {
        "type": "response.output_text.annotation.added",
        **_PLACE,
        "content_index": 0,
        "annotation": {},
    }
    found = told(LONG.put(20, annotation).numbered(), LONG.put(21, annotation).numbered())
    assert {(each.change, each.a or each.b) for each in found} == {
        ("missing", '"w19 "'),
        ("added", '"w19 "'),
    }


def _search(query: str) -> Reply:
    action = {
        "type": "search",
        "query": query,
        "queries": [query],
        "sources": [{"type": "url", "url": "u"}],
    }
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": action}
    begun = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "in_progress",
        "action": {"type": "search"},
    }
    items = (("added", begun), ("done", item))
    events = [
        {"type": f"response.output_item.{step}", "output_index": 0, "item": each}
        for step, each in items
    ]
    completed = {"type": "response.completed", "response": {"id": "resp_1", "output": [item]}}
    return Reply((*events, completed)).numbered()


def test_what_a_tool_of_the_provider_is_called_with_is_told_by_the_tools_alone() -> None:
    report = compared(_search("one"), _search("two"))
    assert report.differing == ("tools",)
    places = [
        each.where.rpartition("arguments.")[2] for each in report.pairs[0].levels[2].differences
    ]
    assert places == ["query", "queries[0]"]


def test_what_a_search_found_is_told() -> None:
    def find(event: Json) -> None:
        event["item"]["action"]["sources"][0]["url"] = "v"

    [found] = told(_search("one"), _search("one").edited(1, find))
    assert found.where == "response.output_item.done · item.action.sources[0].url"


# -- numbers


@pytest.mark.parametrize("numbers", [(1, 2, 4), (1, 3, 2), (1, 1, 3)])
def test_numbers_within_a_run_are_compared_one_by_one(numbers: tuple[int, ...]) -> None:
    other = RESPONSES
    for number, said in zip((3, 4, 5), numbers, strict=True):
        other = _with(other, {"sequence_number": said + 2}, number)
    first = next(number for number, said in zip((1, 2, 3), numbers, strict=True) if number != said)
    [found] = told(RESPONSES, other)
    assert (found.a_pos, found.where) == (first + 5, f"{DELTA} · sequence_number")


# -- noise, where its API puts it


def _with(reply: Reply, more: Json, number: int = 0) -> Reply:
    return reply.edited(number, lambda event: event.update(more))


@table(
    ("good", "field"),
    [
        (RESPONSES, "p"),
        (MESSAGES, "p"),
        (MESSAGES, "obfuscation"),
        (MESSAGES, "created_at"),
        (RESPONSES, "system_fingerprint"),
        (CHAT_REPLY, "item_id"),
        (GOOD["gemini"], "id"),
    ],
)
def test_a_field_of_another_api_is_not_noise(good: Reply, field: str) -> None:
    assert differing(_with(good, {field: "one"}), _with(good, {field: "two"})) == ("events",)
    assert differing(_with(good, {field: "one"}), good) == ("events",)


@pytest.mark.parametrize("field", ["p", "obfuscation", "id", "system_fingerprint"])
def test_a_field_of_this_api_is_noise_at_its_place_only(field: str) -> None:
    assert compared(_with(CHAT_REPLY, {field: "one"}), _with(CHAT_REPLY, {field: "two"})).is_equal
    inner = [_with(CHAT_REPLY, {"more": {field: value}}) for value in ("one", "two")]
    assert differing(*inner) == ("events",)


def test_a_response_that_ends_with_another_id_differs() -> None:
    other = RESPONSES.edited(
        "response.completed", lambda event: event["response"].update(id="resp_2")
    )
    assert differing(RESPONSES, other) == ("events",)


def test_the_ids_of_a_list_of_models_are_compared() -> None:
    def models(name: str) -> Reply:
        body = {"object": "list", "data": [{"id": name, "created": 1}], "id": name}
        reply = Reply(target="/v1/models", method="GET", body=json.dumps(body).encode())
        return reply.headed("content-type", "application/json")

    assert {each.where for each in told(models("one"), models("two"))} == {
        "body · data[0].id",
        "body · id",
    }


# -- what is not the same to JSON


@table(
    ("one", "other", "is_same"),
    [
        (1, True, False),
        (0, False, False),
        (1, 1.0, True),
        ([0], [False], False),
        ({"x": {"a": 1}}, {"x": {"a": 1.0}}, True),
    ],
)
def test_values_are_the_same_as_json_has_it(one: Any, other: Any, is_same: bool) -> None:
    assert (differences({"a": one}, {"a": other}, 9) == []) == is_same
    assert (
        compared(_with(RESPONSES, {"a": one}), _with(RESPONSES, {"a": other})).is_equal == is_same
    )


# -- headers


def test_how_long_to_wait_is_always_compared() -> None:
    [found] = told(RESPONSES, RESPONSES.headed("Retry-After", "7"))
    assert (found.where, found.b) == ("response · retry-after", '"7"')


def test_headers_and_the_error_at_the_end_are_compared_exactly() -> None:
    other = RESPONSES.headed("x-region", "eu")
    assert compared(RESPONSES, other).is_equal
    [found] = told(RESPONSES, other, exact=True)
    assert found.where == "response · x-region"


# -- what cannot be compared


def _as_imported(reply: Reply) -> list[Any]:
    body = b"".join(reply.blocks())
    foreign = PlainStream(BytesIO(body), "sse", None, None)
    session = foreign.session("stored", NAMES)
    return [recording_of(*assembled(foreign.entries(session, NAMES)))]


def test_times_that_were_made_up_are_not_compared() -> None:
    report = diff(
        _as_imported(RESPONSES), [recording_of(*recorded(RESPONSES._replace(pauses={3: 2.0})))]
    )
    [timing] = [level for level in report.pairs[0].levels if level.level == "timing"]
    assert (timing.is_compared, timing.count, timing.note) == (
        False,
        0,
        "not compared: the times of A are made up",
    )
    assert MADE_UP_NS == STEP_NS


def test_real_times_are_compared_wherever_they_come_from() -> None:
    report = compared(RESPONSES, RESPONSES._replace(pauses={3: 2.0}), "timing")
    assert report.pairs[0].levels[0].is_compared
    assert report.differing == ("timing",)


def test_what_was_compared_in_no_pair_is_not_called_equal() -> None:
    said = [
        line.plain for line in stat_lines(diff(_as_imported(RESPONSES), _as_imported(RESPONSES)))
    ]
    assert {"timing     not compared", "request    not compared", "events     equal"} <= {*said}
    twice = [recording_of(*recorded(RESPONSES), number=number) for number in (1, 2)]
    alone = diff(twice, [recording_of(*recorded(CHAT_REPLY))])
    first, *others = [line.plain for line in stat_lines(alone)]
    assert first == "exchanges  2 missing, 1 added"
    assert {line.split(None, 1)[1] for line in others} == {"not compared"}


def test_a_request_is_told_by_its_parts() -> None:
    def named(target: str) -> Reply:
        return RESPONSES._replace(target=target)

    def where(a: Reply, b: Reply, **terms: Any) -> list[str]:
        return [
            str(each.where)
            for each in compared(a, b, "request", **terms).pairs[0].levels[0].differences
        ]

    assert where(named("/openai/v1/responses"), named("/v1/other")) == ["path"]
    assert where(named("/v1/responses?a=1"), named("/v1/responses?a=2")) == ["query · a"]
    assert where(named("/v1/responses?a=1"), named("/v1/responses?a=2"), exact=True) == [
        "path and query"
    ]
