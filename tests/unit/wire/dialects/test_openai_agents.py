"""What the events of a session of OpenAI's hosted agents mean, and that it is what openai-python yields."""

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
from tests.support.hosted import bytes_of
from tests.support.sdks import BASE, answering, openai_client

API, SESSION = "openai-agents", "asess_1"
USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}
AGENT = {"id": "agent_1", "model": "gpt-5.5"}

Json = dict[str, Any]


def event(name: str, **more: Any) -> Json:
    return {"type": f"agent.session.{name}", "session_id": SESSION, **more}


def in_turn(turn_id: str, name: str, **more: Any) -> Json:
    return event(f"turn.{name}", turn_id=turn_id, **more)


def changed(turn: str, state: str, **more: Any) -> Json:
    return in_turn(turn, state, turn={"id": turn, "agent_id": "agent_1", "status": state, **more})


def item(turn: str, step: str, index: int | None = None, **more: Any) -> Json:
    return in_turn(turn, f"item.{step}", output_index=index, item={"turn_id": turn, "status": "completed", **more})


def numbered(*events: Json) -> list[Json]:
    return [{"event_id": f"evt_{number}", **each} for number, each in enumerate(events)]


def said(turn: str, id: str, text: str) -> list[Json]:
    place = {"item_id": id, "output_index": 0, "content_index": 0}
    message: Json = {"type": "message", "id": id, "role": "assistant"}
    return [
        item(turn, "added", 0, **message, content=[]),
        *(in_turn(turn, "output_text.delta", **place, delta=piece) for piece in (text[:3], text[3:])),
        in_turn(turn, "output_text.done", **place, text=text),
        item(turn, "done", 0, **message, content=[{"type": "output_text", "text": text}]),
    ]


def asked(turn: str, text: str) -> Json:
    message: Json = {"type": "message", "id": f"msg_{turn}", "role": "user"}
    return item(turn, "added", **message, content=[{"type": "input_text", "text": text}])


THOUGHT = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
COMMAND = {"type": "command_execution", "id": "cmd_1", "command": "ls"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "roll", "arguments": {"sides": 6}}
CREATE = {
    "type": "create_subagent_call",
    "id": "cs_1",
    "agent_id": "sub_1",
    "content": [{"type": "output_text", "text": "Go"}],
}
SUBAGENT = {"id": "sub_1", "name": "reader", "status": "active", "session_id": SESSION}
EVENTS_OF_A_SESSION = numbered(
    event("created", session={"id": SESSION, "agent": AGENT, "status": "in_progress"}),
    changed("turn_1", "created"),
    asked("turn_1", "What is here?"),
    item("turn_1", "added", 0, type="reasoning", id="rs_1", summary=[]),
    in_turn("turn_1", "reasoning_summary_text.delta", **THOUGHT, delta="Hm"),
    in_turn("turn_1", "reasoning_summary_text.done", **THOUGHT, text="Hm"),
    item("turn_1", "done", 0, type="reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "Hm"}]),
    item("turn_1", "added", 1, **COMMAND),
    {"type": "agent.output.command_execution_output.delta", "item_id": "cmd_1", "output_index": 1, "delta": "a.txt"},
    item("turn_1", "done", 1, **COMMAND, output="a.txt", exit_code=0),
    *said("turn_1", "msg_1", "One file."),
    {**changed("turn_1", "completed"), "usage": USAGE},
    event("idle", session={"id": SESSION, "agent": AGENT, "status": "idle"}),
    changed("turn_2", "created"),
    asked("turn_2", "Roll a die."),
    item("turn_2", "added", 0, **CALL),
    item("turn_2", "done", 0, **CALL),
    event("requires_action", session={"id": SESSION, "agent": AGENT, "status": "requires_action"}),
    item("turn_2", "added", type="function_call_output", id="fo_1", call_id="call_1", output="4"),
    item("turn_2", "done", 1, **CREATE),
    event("subagent.created", subagent=SUBAGENT),
    changed("turn_s", "created", subagent_id="sub_1"),
    *said("turn_s", "msg_s", "Gone."),
    changed("turn_s", "completed", subagent_id="sub_1", usage=USAGE),
    *said("turn_2", "msg_2", "It is four."),
    changed("turn_2", "completed", usage=USAGE),
    event("idle", session={"id": SESSION, "agent": AGENT, "status": "idle"}),
)


def rows_of(*events: Json, **how: Any) -> Rows:
    return folded(*captured(bytes_of(events), API, **how))


def yielded(body: bytes) -> list[Any]:
    with openai_client(BASE, http_client=answering(body)) as client:
        with client.beta.agents.sessions.events.stream(SESSION) as stream:
            return list(stream)


@given(data=st.data())
def test_a_session_is_what_the_sdk_yields_of_it_however_it_is_cut(data: st.DataObject) -> None:
    body = bytes_of(EVENTS_OF_A_SESSION)
    cuts = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=6))
    rows, events = folded(*captured(body, API, cuts=cuts)), yielded(body)
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
    assert [(item.item_id, item.thread_id, item.status) for item in items if item.type == "turn"] == [
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
    [exchange] = rows_of(*numbered(changed("turn_1", "created"), changed("turn_1", "failed", error=error)))["exchanges"]
    assert (exchange.status, exchange.error_code, exchange.error) == ("failed", "server_overloaded", "Busy")


@pytest.mark.parametrize(("method", "resumes"), [("GET", SESSION), ("POST", None)])
def test_a_request_is_of_the_session_in_its_path(method: str, resumes: str | None) -> None:
    found = group(RequestHead("x", "s", 0, method, f"/v1/agents/sessions/{SESSION}/events", "openai", []), b"")
    assert (found.name, found.source, found.resumes_response_id) == (SESSION, HOSTED, resumes)


def test_what_a_client_sends_is_read_with_the_results_of_its_tools() -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]}
    result = {"type": "agent.session.input.tool_result", "call_id": "call_1", "success": True, "output": "4"}
    given = [result, {"type": "agent.session.input.message", "input": [message]}]
    facts = DIALECT.request_facts("/v1/agents/sessions/asess_1/events", json.dumps({"events": given}).encode())
    assert (facts.text, [(each.call_id, each.output) for each in facts.results]) == ("And now?", [("call_1", "4")])
