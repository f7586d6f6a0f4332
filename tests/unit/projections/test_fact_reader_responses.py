"""What is unusual in streams and bodies of the Responses format, from bytes to rows."""

from __future__ import annotations

import itertools
import json
import random
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.fold import Folding, Rows
from tests.support.facts import EXCHANGE, MS, captured, folded
from tests.support.sdks import BASE, answering, openai_client
from tests.support.tables import table

Json = dict[str, Any]

MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "in_progress",
    "content": [],
}
PART = {"type": "output_text", "text": "", "annotations": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "roll", "arguments": ""}


def response(**said: Any) -> Json:
    return {"id": "resp_1", "object": "response", "model": "m", "output": [], **said}


def numbered(*events: Json) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def of_item(type: str, index: int = 0, **said: Any) -> Json:
    return {"type": f"response.{type}", "output_index": index, **said}


def text_delta(text: str, index: int = 0) -> Json:
    return of_item("output_text.delta", index, item_id="msg_1", content_index=0, delta=text)


CREATED: Json = {"type": "response.created", "response": response(status="in_progress")}
BEGUN = (CREATED, of_item("output_item.added", item=MESSAGE))


def completed(**said: Any) -> Json:
    return {"type": "response.completed", "response": response(status="completed", **said)}


def bytes_of(events: list[Json]) -> bytes:
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events
    )


def rows_of(events: list[Json]) -> Rows:
    body = bytes_of(events)
    ends = itertools.accumulate(len(bytes_of([each])) for each in events)
    return folded(*captured(body, cuts=ends))


def kinds(rows: Rows) -> set[str]:
    return {row.kind for row in rows["anomalies"]}


# -- order


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_deltas_stand_in_order_of_their_numbers(chance: random.Random, count: int) -> None:
    deltas = numbered(*BEGUN, *(text_delta(f"{number},", number % 2) for number in range(count)))
    shuffled = [*deltas[:2], *chance.sample(deltas[2:], count)]
    rows = rows_of(shuffled)
    texts = {row.output_index: row.text for row in rows["items"]}
    for index in (0, 1):
        assert (texts.get(index) or "") == "".join(
            f"{number}," for number in range(count) if number % 2 == index
        )
    assert ("sequence_repeat" in kinds(rows)) == (shuffled != deltas)


@given(st.randoms(use_true_random=False))
def test_every_prefix_of_what_came_is_told_in_order(chance: random.Random) -> None:
    deltas = numbered(*BEGUN, *(text_delta(each) for each in "abcdefg"))
    shuffled = [*deltas[:2], *chance.sample(deltas[2:], 7)]
    exchange, events = captured(bytes_of(shuffled))
    for cut in range(len(events)):
        folding = Folding(exchange)
        folding.apply_all(events[:cut])
        came = sorted(each["delta"] for each in shuffled[: max(0, cut - 2)] if "delta" in each)
        texts = [row.text for row in folding.rows()["items"] if row.text]
        assert texts == (["".join(came)] if came else [])


def test_a_delta_that_comes_after_the_end_of_its_text_was_in_it() -> None:
    done = of_item("output_text.done", item_id="msg_1", content_index=0, text="abc")
    ended = of_item(
        "output_item.done",
        item={**MESSAGE, "content": [{**PART, "text": "abc"}], "status": "completed"},
    )
    for end in (done, ended):
        events = numbered(*BEGUN, *map(text_delta, "abc"), end)
        late = events.pop(3)
        assert rows_of([*events, late])["items"][0].text == "abc"


@pytest.mark.parametrize("number", [None, 0, 7])
def test_deltas_without_numbers_or_with_one_stand_as_they_came(number: int | None) -> None:
    events = [{**each, "sequence_number": number} for each in (*BEGUN, *map(text_delta, "bca"))]
    assert rows_of(events)["items"][0].text == "bca"


# -- what only stands where an item or part begins, or beside the items


def test_the_text_of_a_part_that_begins_is_its_first_as_the_sdk_has_it() -> None:
    part = of_item(
        "content_part.added", item_id="msg_1", content_index=0, part={**PART, "text": "Hel"}
    )
    events = numbered(*BEGUN, part, text_delta("lo"))
    rows = rows_of(events)
    assert rows["items"][0].text == "Hello"
    with openai_client(BASE, http_client=answering(bytes_of(events))) as client:
        with client.responses.stream(model="m", input="x") as stream:
            snapshots = [
                each.snapshot for each in stream if each.type == "response.output_text.delta"
            ]
    assert snapshots == ["Hello"]


REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


@table(
    ("family", "item", "type", "column"),
    [
        ("content", MESSAGE, "output_text", "text"),
        ("reasoning", REASONING, "reasoning_text", "text"),
        ("reasoning_summary", REASONING, "summary_text", "summary_text"),
    ],
)
def test_the_text_of_a_part_without_an_end_is_kept(
    family: str, item: Json, type: str, column: str
) -> None:
    added = of_item("output_item.added", item=item)
    part = of_item(
        f"{family}_part.added", item_id=item["id"], part={"type": type, "text": "only here"}
    )
    [row] = rows_of(numbered(CREATED, added, part, completed()))["items"]
    assert getattr(row, column) == "only here"


def test_what_an_item_says_as_it_begins_stands_until_more_comes() -> None:
    said = {**CALL, "arguments": '{"n":1}'}
    delta = of_item("function_call_arguments.delta", item_id="fc_1", delta='{"n":2}')
    for events, arguments in (((), '{"n":1}'), ((delta,), '{"n":2}')):
        rows = rows_of(numbered(CREATED, of_item("output_item.added", item=said), *events))
        assert rows["items"][0].arguments == arguments
        assert kinds(rows) == {"missing_terminal"}


@table("is_stream", [True, False])
@table("output", [{}, {"output": None}, {"output": []}])
def test_a_body_that_has_only_its_text_is_a_message(is_stream: bool, output: Json) -> None:
    said = {**response(status="completed", output_text="Hi", output_reasoning="Hm."), **output}
    if not output:
        del said["output"]
    if is_stream:
        rows = rows_of(numbered(CREATED, {"type": "response.completed", "response": said}))
    else:
        rows = folded(*captured(json.dumps(said).encode(), content_type="application/json"))
    assert [(row.kind, row.text) for row in rows["items"]] == [
        ("reasoning", "Hm."),
        ("message", "Hi"),
    ]


def test_a_text_that_was_streamed_is_not_told_again() -> None:
    done = of_item("output_item.done", 1, item={**MESSAGE, "content": [{**PART, "text": "Hi"}]})
    events = numbered(
        CREATED, of_item("output_item.added", 1, item=MESSAGE), text_delta("Hi", 1), done
    )
    rows = rows_of([*events, {**completed(output_text="Hi"), "sequence_number": 4}])
    assert [row.text for row in rows["items"]] == ["Hi"]
    assert kinds(rows) == set()


# -- names, errors


@pytest.mark.parametrize(
    ("begun", "mismatches"),
    [({"name": None}, set()), ({}, set()), ({"name": "x"}, {"item_mismatch"})],
)
def test_arguments_that_end_may_name_the_tool(begun: Json, mismatches: set[str]) -> None:
    ended = of_item("function_call_arguments.done", item_id="fc_1", arguments="{}", name="roll")
    rows = rows_of(numbered(CREATED, of_item("output_item.added", item={**CALL, **begun}), ended))
    assert rows["items"][0].name == "roll"
    assert kinds(rows) - {"missing_terminal"} == mismatches


def test_an_error_says_what_of_the_request_is_wrong() -> None:
    error = {
        "type": "invalid_request_error",
        "code": "x",
        "message": "no",
        "param": "tools[0].name",
    }
    for events in ([{"type": "error", "error": error}], [{**error, "type": "error"}]):
        assert rows_of(events)["exchanges"][0].error_param == "tools[0].name"
    body = json.dumps({"error": error}).encode()
    [row] = folded(*captured(body, "openai-chat", content_type="application/json", status=400))[
        "exchanges"
    ]
    assert row.error_param == "tools[0].name"


def test_of_ids_that_rotate_the_first_and_the_last_are_known() -> None:
    [row] = rows_of([CREATED, {**completed(), "response": {**response(), "id": "resp_2"}}])[
        "exchanges"
    ]
    assert (row.response_id, row.last_response_id) == ("resp_1", "resp_2")


# -- phases


def test_the_phases_of_a_tool_have_their_times() -> None:
    steps = ["in_progress", "searching", "completed"]
    events = numbered(
        CREATED,
        *(of_item(f"web_search_call.{step}", item_id="ws_1") for step in steps),
        completed(),
    )
    rows = rows_of(events)
    expected = [(step, "web_search_call", phase, "ws_1", 0) for step, phase in enumerate(steps)]
    assert [
        (row.step, row.type, row.phase, row.item_id, row.output_index) for row in rows["phases"]
    ] == expected
    times = [(3 * MS, 4 * MS), (4 * MS, 5 * MS), (5 * MS, None)]
    assert [(row.began_ns, row.ended_ns) for row in rows["phases"]] == times
    assert kinds(rows) == set()


def test_the_phases_of_two_tools_do_not_end_each_other() -> None:
    searching = [of_item("file_search_call.searching", index) for index in (0, 1)]
    ended = of_item("file_search_call.completed", 0)
    phases = rows_of(numbered(CREATED, *searching, ended))["phases"]
    assert [row.ended_ns for row in phases] == [5 * MS, None, None]


def test_a_partial_image_is_known_by_size_and_digest() -> None:
    step = of_item(
        "image_generation_call.partial_image", partial_image_index=1, partial_image_b64="AAEC"
    )
    [row] = rows_of([step])["phases"]
    digest = sha256(b"\0\1\2").hexdigest()
    assert json.loads(row.detail) == {"partial_image_index": 1, "size_bytes": 3, "sha256": digest}


@table(
    "type",
    [
        *(
            "code_interpreter_call.interpreting",
            "image_generation_call.generating",
            "mcp_call.failed",
        ),
        *("mcp_list_tools.in_progress", "compaction.compacting", "x_search_call.searching"),
    ],
)
def test_a_step_of_any_tool_is_a_phase(type: str) -> None:
    [row] = rows_of([of_item(type)])["phases"]
    assert f"{row.type}.{row.phase}" == type


def test_the_phases_of_a_resumed_response_are_those_of_the_whole() -> None:
    steps = [
        of_item(f"web_search_call.{step}") for step in ("in_progress", "searching", "completed")
    ]
    events = numbered(CREATED, *steps, completed())
    resumed = msgspec.structs.replace(
        EXCHANGE, exchange_id="e-2", resumes_response_id="resp_1", resumes_after=2
    )
    exchange, rest = captured(bytes_of(events[3:]), exchange=resumed)
    folding = Folding(exchange)
    for each in captured(bytes_of(events[:3]))[1]:
        if each.kind == "frame":
            folding.recall(each)
    folding.apply_all(rest)
    assert [row.phase for row in folding.rows()["phases"]] == [
        "in_progress",
        "searching",
        "completed",
    ]
