"""What the events of a session of Claude Managed Agents mean, and that it is what anthropic-python
yields.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from anthropic.types.beta.sessions import BetaManagedAgentsStreamSessionEvents
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import RequestHead
from recorder.projections.fold import Rows
from recorder.wire.dialects.anthropic_sessions import DIALECT
from recorder.wire.dialects.anthropic_sessions.decoder import EVENTS
from recorder.wire.grouping.session import HOSTED, group
from tests.support.facts import captured, folded
from tests.support.hosted import (
    SessionReading,
    anthropic_reading,
    bytes_of,
    custom_call,
    event,
    idle,
    previewed,
    said,
    spent,
    sub_agent,
    turn,
)
from tests.support.sdks import BASE, answering

API = "anthropic-sessions"
STREAMS = {
    "two turns": [*turn(1, "What is here?", "One file."), *turn(2, "And now?", "Still one.")],
    "a call of the client's tool": custom_call(1),
    "a sub-agent": sub_agent(1),
}


def rows_of(*events: Any, **how: Any) -> Rows:
    return folded(*captured(bytes_of(events), API, **how))


def assert_agree(rows: Rows, sdk: SessionReading) -> None:
    items, [usage] = rows["items"], rows["usage"]
    messages = [item for item in items if item.type == "agent.message"]
    calls = [item for item in items if item.kind == "tool_call"]
    assert [item.text for item in messages] == sdk.texts
    assert [item.text for item in items if item.role == "user"] == sdk.asked
    assert [(call.call_id, call.name, json.loads(call.arguments)) for call in calls] == sdk.calls
    assert {call.call_id: call.output for call in calls if call.output is not None} == sdk.results
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_write_input_tokens or 0)
    assert (usage.input_tokens - cached, usage.output_tokens) == sdk.tokens


@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data())
def test_a_session_is_what_the_sdk_yields_of_it_however_it_is_cut(
    name: str, data: st.DataObject
) -> None:
    body = bytes_of(STREAMS[name])
    cuts = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=6))
    rows = folded(*captured(body, API, cuts=cuts))
    assert_agree(rows, anthropic_reading(BASE, answering(body)))
    assert rows["anomalies"] == []
    assert rows["exchanges"][0].status == "completed"


def test_every_type_of_event_that_the_sdk_knows_is_read() -> None:
    [union, *_] = get_args(BetaManagedAgentsStreamSessionEvents)
    types = {get_args(each.model_fields["type"].annotation)[0] for each in get_args(union)}
    assert len(types) == 44
    assert types == set(EVENTS)


def test_a_turn_is_an_item_with_its_own_tokens() -> None:
    turns = [item for item in rows_of(*STREAMS["two turns"])["items"] if item.type == "turn"]
    assert [turn.status for turn in turns] == ["end_turn", "end_turn"]
    assert json.loads(turns[1].output)["input_tokens"] == 10 + 100 + 20 + 3


def test_a_turn_that_waited_for_the_client_is_one() -> None:
    rows = rows_of(*STREAMS["a call of the client's tool"])
    [turn] = [item for item in rows["items"] if item.type == "turn"]
    assert (turn.status, json.loads(turn.output)["output_tokens"]) == ("end_turn", 7)


def test_what_is_of_a_sub_agent_has_its_thread() -> None:
    rows = rows_of(*STREAMS["a sub-agent"])
    of_thread = [
        (item.type, item.text or item.arguments)
        for item in rows["items"]
        if item.thread_id == "sthr_1"
    ]
    assert of_thread == [
        ("thread", None),
        ("agent.thread_message_sent", "Read a.txt"),
        ("agent.tool_use", '{"command":"cat a.txt"}'),
        ("agent.thread_message_received", "It is empty."),
    ]


def test_an_event_that_comes_again_is_not_told_again() -> None:
    events = STREAMS["two turns"]
    once, twice = rows_of(*events), rows_of(*events[:9], *events[4:])
    assert [(item.type, item.text, item.output) for item in twice["items"]] == [
        (item.type, item.text, item.output) for item in once["items"]
    ]
    assert twice["usage"][0].total_tokens == once["usage"][0].total_tokens


def test_a_message_that_broke_off_ends_with_its_request() -> None:
    failed = {**spent("sevt_2", "sevt_1", 5, 1), "is_error": True}
    rows = rows_of(
        event("sevt_0", "session.status_running"),
        *previewed("sevt_1", "Hel"),
        failed,
        idle("sevt_3"),
    )
    [message] = [item for item in rows["items"] if item.kind == "message"]
    assert (message.text, message.status) == ("Hel", "incomplete")


@pytest.mark.parametrize(
    ("reason", "status"),
    [("end_turn", "completed"), ("budget_reached", "incomplete"), ("retries_exhausted", "failed")],
)
def test_the_reason_for_which_a_session_rests_is_that_of_its_stream(
    reason: str, status: str
) -> None:
    [exchange] = rows_of(event("sevt_0", "session.status_running"), idle("sevt_1", reason))[
        "exchanges"
    ]
    assert (exchange.finish_reason, exchange.status) == (reason, status)


@pytest.mark.parametrize(("last", "outcome"), [("retrying", "completed"), ("exhausted", "failed")])
def test_an_error_counts_that_the_provider_does_not_try_to_mend(last: str, outcome: str) -> None:
    error = {
        "type": "model_overloaded_error",
        "message": "Overloaded",
        "retry_status": {"type": last},
    }
    [exchange] = rows_of(event("sevt_0", "session.error", error=error), idle("sevt_1"))["exchanges"]
    assert exchange.status == outcome


def test_a_client_that_leaves_a_session_at_rest_is_done() -> None:
    rows = rows_of(*STREAMS["two turns"], outcome="client_disconnect")
    assert rows["exchanges"][0].status == "completed"
    rows = rows_of(*STREAMS["two turns"][:-1], outcome="client_disconnect")
    assert rows["exchanges"][0].status == "client_disconnect"


@pytest.mark.parametrize(
    ("method", "path", "thread", "resumes"),
    [
        ("POST", "/v1/sessions/sesn_1/events", None, None),
        ("GET", "/v1/sessions/sesn_1/events/stream?beta=true", None, "sesn_1"),
        ("GET", "/v1/sessions/sesn_1/events?beta=true", None, "sesn_1"),
        ("GET", "/v1/sessions/sesn_1/threads/sthr_1/stream", "sthr_1", "sesn_1/sthr_1"),
        ("GET", "/v1/sessions/sesn_1", None, None),
    ],
)
def test_a_request_is_of_the_session_and_the_thread_in_its_path(
    method: str, path: str, thread: str | None, resumes: str | None
) -> None:
    head = RequestHead("x", "s", 0, method, path, "anthropic", [("x-session-id", "another")])
    found = group(head, b"")
    assert (found.name, found.source, found.thread_id) == ("sesn_1", HOSTED, thread)
    assert found.resumes_response_id == resumes


def test_what_a_client_sends_is_read_with_the_results_of_its_tools() -> None:
    result = {
        "type": "user.custom_tool_result",
        "custom_tool_use_id": "sevt_1",
        "content": said("rain"),
    }
    asked = {"type": "user.message", "content": said("And tomorrow?")}
    facts = DIALECT.request_facts(
        "/v1/sessions/sesn_1/events", json.dumps({"events": [result, asked]}).encode()
    )
    assert (facts.text, facts.is_turn) == ("And tomorrow?", True)
    assert [(each.call_id, each.output) for each in facts.results] == [("sevt_1", "rain")]
