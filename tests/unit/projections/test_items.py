"""Items: what deltas, their ends and the end of the response come to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from recorder.model.facts import (
    AnnotationAdded,
    ExchangeEnded,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    ResponseFinished,
    ResponseItems,
    TextAdded,
    TextFinished,
    ToolResult,
)
from recorder.model.text import STORABLE_LIMIT
from recorder.projections import items
from recorder.projections.rows import ITEMS
from tests.support.facts import MS, Outcome, Told, event, fold
from tests.support.tables import table

MESSAGE = ItemState("message", "message", item_id="msg_1", role="assistant", status="in_progress")
CALL = ItemState("tool_call", "function_call", item_id="fc_1", name="get_weather", call_id="call_1")


def told(*facts: Told) -> Outcome:
    return fold(ITEMS, facts)


def said(*pieces: str) -> list[Fact]:
    return [TextAdded(0, "text", 0, piece) for piece in pieces]


def done(text: str) -> ItemState:
    return ItemState(
        "message", "message", item_id="msg_1", status="completed", texts=(("text", 0, text),)
    )


SETTLED = TextFinished(0, "text", 0, "Hello")


def test_deltas_are_a_text_at_every_point() -> None:
    assert told(ItemStarted(0, 0, MESSAGE)).row.text is None
    pieces = ["Hel", "lo ", "world"]
    for count in range(1, len(pieces) + 1):
        row = told(ItemStarted(0, 0, MESSAGE), *said(*pieces[:count])).row
        assert (row.text, row.status, row.ended_ns) == (
            "".join(pieces[:count]),
            "in_progress",
            None,
        )


def test_an_item_knows_when_it_began_and_ended() -> None:
    started = event(1, t_ms=5), [ItemStarted(0, 0, MESSAGE)]
    finished = event(2, t_ms=9), [ItemFinished(0, 0, done("Hi"))]
    row = told(started, finished).row
    assert (row.began_ns, row.ended_ns, row.status) == (5 * MS, 9 * MS, "completed")


AGREED = (
    *said("Hel", "lo"),
    SETTLED,
    ItemFinished(0, 0, done("Hello")),
    ResponseItems((done("Hello"),)),
)
ANOTHER_ID = ItemState("message", "message", item_id="msg_other", texts=(("text", 0, "Hello"),))
NO_TEXT = ItemState("message", "message")


@table(
    ("facts", "text", "kinds"),
    [
        (AGREED, "Hello", []),
        ((*said("Hel"), SETTLED), "Hello", ["delta_mismatch"]),
        ((*said("Hel"), ItemFinished(0, 0, done("Hello"))), "Hello", ["item_mismatch"]),
        (
            (ItemFinished(0, 0, done("Hello")), ResponseItems((done("Hello!"),))),
            "Hello!",
            ["final_mismatch"],
        ),
        # nothing is taken away
        ((*said("Hello"), ItemFinished(0, 0, done(""))), "Hello", ["item_mismatch"]),
        ((*said("Hello"), ItemFinished(0, 0, NO_TEXT)), "Hello", []),
        ((*said("Hello"), ResponseItems(())), "Hello", []),
        # it is found by its place and type
        ((*said("Hello"), ResponseItems((ANOTHER_ID,))), "Hello", []),
        ((*said("Hello"), ItemStarted(0, 0, MESSAGE)), "Hello", ["item_repeated"]),
    ],
)
def test_what_is_stated_later_stands_and_what_differs_is_reported(
    facts: Sequence[Fact], text: str, kinds: list[str]
) -> None:
    outcome = told(ItemStarted(0, 0, MESSAGE), *facts)
    assert (outcome.row.text, outcome.row.item_id, outcome.kinds) == (text, "msg_1", kinds)


def test_an_item_that_has_finished_is_completed_though_it_states_no_status() -> None:
    assert told(ItemStarted(0, 0, MESSAGE), ItemFinished(0, 0, NO_TEXT)).row.status == "completed"


def test_a_final_list_brings_items_that_were_never_streamed() -> None:
    listed = ItemState("other", "mcp_list_tools", item_id="mcpl_1")
    outcome = told(
        ItemStarted(0, 0, MESSAGE), *said("Hello"), ResponseItems((listed, done("Hello")))
    )
    assert [(row.type, row.output_index) for row in outcome.rows] == [
        ("message", 0),
        ("mcp_list_tools", 0),
    ]
    assert outcome.kinds == []


def test_a_document_is_its_items() -> None:
    row = told(ResponseItems((done("Hello"),))).row
    assert (row.text, row.output_index, row.status, row.kind) == (
        "Hello",
        0,
        "completed",
        "message",
    )


def test_parts_are_joined_in_their_order_and_summaries_stay_apart() -> None:
    reasoning = ItemState("reasoning", "reasoning")
    summary = TextAdded(0, "summary", 1, "second"), TextAdded(0, "summary", 0, "first")
    row = told(ItemStarted(0, 0, reasoning), *summary, TextAdded(0, "reasoning", 0, "raw")).row
    assert (json.loads(row.summary), row.summary_text, row.text) == (
        ["first", "second"],
        "first\n\nsecond",
        "raw",
    )


def test_reasoning_that_only_the_provider_can_read_is_marked() -> None:
    assert (
        told(ItemStarted(0, 0, ItemState("reasoning", "reasoning", encrypted=True))).row.encrypted
        is True
    )
    assert told(ItemStarted(0, 0, MESSAGE)).row.encrypted is None


def test_arguments_are_kept_as_sent_and_as_json_only_if_they_are() -> None:
    begun = ItemStarted(0, 0, CALL), TextAdded(0, "arguments", 0, '{"city": ')
    row = told(*begun).row
    assert (row.arguments, row.arguments_json) == ('{"city": ', None)
    row = told(*begun, TextAdded(0, "arguments", 0, '"Oslo"}')).row
    assert row.arguments == row.arguments_json == '{"city": "Oslo"}'
    assert (row.name, row.call_id, row.call_key) == ("get_weather", "call_1", "call_1")


def test_calls_without_ids_are_told_apart_by_name_and_number() -> None:
    nameless = ItemState("tool_call", "function_call", name="look")
    other = ItemState("tool_call", "function_call", name="go")
    started = [ItemStarted(key, 0, each) for key, each in enumerate((nameless, other, nameless))]
    assert [row.call_key for row in told(*started).rows] == ["look[0]", "go[0]", "look[1]"]


def test_a_result_within_the_stream_goes_to_its_call() -> None:
    search = ItemState("tool_call", "server_tool_use", name="web_search", call_id="srv_2")
    other = ItemState("tool_call", "server_tool_use", name="web_search", call_id="srv_1")
    outcome = told(
        ItemStarted(0, 0, other), ItemStarted(1, 1, search), ToolResult("srv_2", None, "[]", False)
    )
    expected = [("srv_1", None, None), ("srv_2", "[]", False)]
    assert [(row.call_id, row.output, row.failed) for row in outcome.rows] == expected
    assert told(ToolResult("srv_9", None, "[]")).kinds == ["item_undeclared"]


def test_annotations_and_logprobs_are_arrays_of_all_that_came() -> None:
    annotations = AnnotationAdded(0, '{"url":"a"}'), AnnotationAdded(0, '{"url":"b"}')
    logprobs = (
        LogprobsAdded(0, '[{"token":"a"}]'),
        LogprobsAdded(0, '[{"token":"b"},{"token":"c"}]'),
    )
    row = told(ItemStarted(0, 0, MESSAGE), *annotations, *logprobs).row
    assert json.loads(row.annotations) == [{"url": "a"}, {"url": "b"}]
    assert [each["token"] for each in json.loads(row.logprobs)] == ["a", "b", "c"]


def test_a_delta_of_an_item_that_did_not_begin_makes_one() -> None:
    at = event(4, output_index=2, item_id="rs_1")
    outcome = told(
        (at, [TextAdded(2, "summary", 0, "Hm")]), (at, [TextAdded(2, "summary", 0, "m")])
    )
    assert (outcome.row.kind, outcome.row.summary_text, outcome.row.item_id) == (
        "reasoning",
        "Hmm",
        "rs_1",
    )
    assert [(each.kind, each.pos, each.count) for each in outcome.anomalies] == [
        ("item_undeclared", 4, 1)
    ]


def test_an_item_that_begins_late_is_still_one() -> None:
    outcome = told(
        TextAdded(0, "text", 0, "Hel"), ItemStarted(0, 0, MESSAGE), TextAdded(0, "text", 0, "lo")
    )
    assert (outcome.row.text, outcome.row.type, outcome.kinds) == (
        "Hello",
        "message",
        ["item_undeclared"],
    )


def test_rotating_ids_are_counted_once_an_item() -> None:
    deltas = [
        (event(pos, item_id=f"other_{pos}"), [TextAdded(0, "text", 0, "x")]) for pos in range(1, 6)
    ]
    [anomaly] = told(ItemStarted(0, 0, MESSAGE), *deltas).anomalies
    assert (anomaly.kind, anomaly.count, anomaly.pos, anomaly.detail) == (
        "id_rotation",
        5,
        1,
        "message 0",
    )


def test_text_that_no_database_takes_is_mended() -> None:
    row = told(ItemStarted(0, 0, MESSAGE), *said("a\0b\ud83d", "\ude00c\ud800")).row
    assert row.text == "a\ufffdb😀c\ufffd"


def test_items_are_numbered_in_order_of_appearance() -> None:
    outcome = told(ItemStarted(3, 3, CALL), ItemStarted(1, 1, MESSAGE))
    assert [(row.item, row.kind, row.output_index) for row in outcome.rows] == [
        (0, "tool_call", 3),
        (1, "message", 1),
    ]


def test_an_item_that_did_not_end_although_its_response_did_is_reported() -> None:
    begun = ItemStarted(0, 0, MESSAGE), ItemStarted(1, 1, CALL), ItemFinished(1, 1, CALL)
    ended = ExchangeEnded("completed", "eof")
    [anomaly] = told(*begun, ResponseFinished("stop"), ended).anomalies
    assert (anomaly.kind, anomaly.detail) == ("item_unfinished", "message 0")
    assert told(*begun, ended).kinds == []


def test_items_have_a_bound_and_what_is_over_it_is_reported() -> None:
    outcome = told(*(ItemStarted(key, key, MESSAGE) for key in range(items.ITEMS_LIMIT + 3)))
    assert len(outcome.rows) == items.ITEMS_LIMIT
    assert [(each.kind, each.count) for each in outcome.anomalies] == [("cut", 3)]


def test_a_text_over_the_limit_is_cut_and_reported_and_json_is_not_halved() -> None:
    long = "x" * (STORABLE_LIMIT + 5)
    logprobs, ended = LogprobsAdded(0, f'["{long}"]'), ExchangeEnded("completed", "eof")
    outcome = told(ItemStarted(0, 0, MESSAGE), *said(long), logprobs, ended)
    assert (len(outcome.row.text), outcome.row.logprobs) == (STORABLE_LIMIT, None)
    assert outcome.kinds == ["cut"]


def test_a_final_item_with_another_id_at_another_place_is_the_next_of_its_type() -> None:
    """Reasoning is left out of the final list, and gateways give other ids."""
    reasoning = ItemState("reasoning", "reasoning", item_id="rs_1")
    begun = ItemStarted(0, 0, reasoning), ItemStarted(1, 1, MESSAGE)
    outcome = told(*begun, TextAdded(1, "text", 0, "Hello"), ResponseItems((ANOTHER_ID,)))
    assert [(row.type, row.text) for row in outcome.rows] == [
        ("reasoning", None),
        ("message", "Hello"),
    ]


def test_a_result_without_an_id_goes_to_a_call_of_its_name() -> None:
    calls = [ItemState("tool_call", name, name=name) for name in ("web_search", "tool_search")]
    started = [ItemStarted(key, key, call) for key, call in enumerate(calls)]
    assert [row.output for row in told(*started, ToolResult(None, "tool_search", "[]")).rows] == [
        None,
        "[]",
    ]
