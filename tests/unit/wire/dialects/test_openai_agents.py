"""What the events of a session of OpenAI's hosted agents mean, and that it is what openai-python
yields.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.beta import AgentSessionEvent

from recorder.model.events import RequestHead
from recorder.projections.fold import Rows
from recorder.wire.dialects.keys import ERROR
from recorder.wire.dialects.openai_agents import DIALECT
from recorder.wire.dialects.openai_agents.decoder import EVENTS
from recorder.wire.grouping.session import HOSTED, group
from tests.support.facts import captured, folded
from tests.support.hosted import Json, bytes_of
from tests.support.hosted_openai import EVENTS as EVENTS_OF_A_SESSION
from tests.support.hosted_openai import SESSION, changed, numbered, openai_events
from tests.support.sdks import BASE, answering

API = "openai-agents"


def rows_of(*events: Json, **how: Any) -> Rows:
    return folded(*captured(bytes_of(events), API, **how))


@given(data=st.data())
def test_a_session_is_what_the_sdk_yields_of_it_however_it_is_cut(data: st.DataObject) -> None:
    body = bytes_of(EVENTS_OF_A_SESSION)
    cuts = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=6))
    rows, events = folded(*captured(body, API, cuts=cuts)), openai_events(BASE, answering(body))
    items = rows["items"]
    done = [each.item for each in events if each.type.endswith("item.done")]
    messages = [item.content[0].text for item in done if item.type == "message"]
    assert [item.text for item in items if item.role == "assistant"] == messages
    assert [item.summary_text for item in items if item.kind == "reasoning"] == [
        item.summary[0].text for item in done if item.type == "reasoning"
    ]
    calls = {item.id: item for item in done if item.type in ("function_call", "command_execution")}
    assert {item.item_id for item in items if item.kind == "tool_call"} == {*calls, "cs_1"}
    [call] = [item for item in items if item.type == "function_call"]
    assert (json.loads(call.arguments), call.output) == (calls["fc_1"].arguments, "4")
    turns = [each for each in events if each.type == "agent.session.turn.completed"]
    used = [each.usage or each.turn.usage for each in turns]
    assert rows["usage"][0].total_tokens == sum(each.total_tokens for each in used)
    assert (rows["anomalies"], rows["exchanges"][0].status) == ([], "completed")
    assert rows["exchanges"][0].response_model == "gpt-5.5"


def test_every_type_of_event_that_the_sdk_knows_is_read() -> None:
    union = get_args(AgentSessionEvent)[0]
    types = {get_args(each.model_fields["type"].annotation)[0] for each in get_args(union)}
    assert len(types) == 33
    assert types == {*EVENTS, ERROR}


def test_a_turn_is_an_item_and_that_of_a_sub_agent_has_its_thread() -> None:
    items = rows_of(*EVENTS_OF_A_SESSION)["items"]
    assert [
        (item.item_id, item.thread_id, item.status) for item in items if item.type == "turn"
    ] == [
        ("turn_1", None, "completed"),
        ("turn_2", None, "completed"),
        ("turn_s", "sub_1", "completed"),
    ]
    assert [item.text for item in items if item.thread_id and item.kind == "message"] == ["Gone."]


def test_an_event_that_comes_again_is_not_told_again() -> None:
    twice = rows_of(*EVENTS_OF_A_SESSION[:18], *EVENTS_OF_A_SESSION[9:])
    once = rows_of(*EVENTS_OF_A_SESSION)
    assert [(item.type, item.text, item.output) for item in twice["items"]] == [
        (item.type, item.text, item.output) for item in once["items"]
    ]
    assert twice["usage"][0].total_tokens == once["usage"][0].total_tokens


def test_a_turn_that_failed_says_why() -> None:
    error = {"code": "server_overloaded", "message": "Busy"}
    [exchange] = rows_of(
        *numbered(changed("turn_1", "created"), changed("turn_1", "failed", error=error))
    )["exchanges"]
    assert (exchange.status, exchange.error_code, exchange.error) == (
        "failed",
        "server_overloaded",
        "Busy",
    )


@pytest.mark.parametrize(("method", "resumes"), [("GET", SESSION), ("POST", None)])
def test_a_request_is_of_the_session_in_its_path(method: str, resumes: str | None) -> None:
    found = group(
        RequestHead("x", "s", 0, method, f"/v1/agents/sessions/{SESSION}/events", "openai", []), b""
    )
    assert (found.name, found.source, found.resumes_response_id) == (SESSION, HOSTED, resumes)


def test_what_a_client_sends_is_read_with_the_results_of_its_tools() -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]}
    result = {
        "type": "agent.session.input.tool_result",
        "call_id": "call_1",
        "success": True,
        "output": "4",
    }
    given = [result, {"type": "agent.session.input.message", "input": [message]}]
    facts = DIALECT.request_facts(
        "/v1/agents/sessions/asess_1/events", json.dumps({"events": given}).encode()
    )
    assert (facts.text, [(each.call_id, each.output) for each in facts.results]) == (
        "And now?",
        [("call_1", "4")],
    )
