"""The rules of Managed Agents: each is broken by one change to a good stream, and nothing else is;
and what a program on anthropic-python does with a stream in which any one field is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import pytest
from anthropic import AnthropicError
from anthropic.lib.sessions import accumulate_managed_agents_event
from anthropic.types.beta.sessions import BetaManagedAgentsStreamSessionEvents
from pydantic import TypeAdapter, ValidationError

from tests.support.hosted import SESSION, custom_call, event, idle, said, sub_agent, turn
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json, Mutation, Reply, broken, named, the_rule
from tests.support.sdks import BASE, answering, anthropic_client
from tests.support.tables import table

EVENTS = turn(1, "What is here?", "One file.")
RUNNING, CALL, BEGUN, DELTA, WHOLE, SPENT, IDLE = 1, 4, 8, 9, 11, 12, 13
GOOD = Reply(tuple(EVENTS), target=f"/v1/sessions/{SESSION}/events/stream", method="GET")
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def delta(at: int, **fields: Any) -> Reply:
    return GOOD.edited(at, lambda event: event["delta"].update(fields))


MUTATIONS = [
    Mutation(
        "AS001",
        "no line",
        GOOD.put(CALL, f"data: {json.dumps(event('e', 'agent.thinking'))}\n\n".encode()),
    ),
    Mutation(
        "AS001",
        "a line of another type",
        GOOD.put(CALL, named(EVENTS[3]).replace(b"event: agent.", b"event: ")),
    ),
    Mutation("AS002", "no type", GOOD.put(CALL, named(EVENTS[3]).replace(b'"type"', b'"kind"'))),
    Mutation("AS002", "an array", GOOD.put(CALL, b"event: agent.thinking\ndata: []\n\n")),
    Mutation("AS003", "a type of another API", GOOD.put(CALL, {"type": "message_start"})),
    Mutation("AS004", "no name", GOOD.edited(CALL, lambda event: event.pop("name"))),
    Mutation(
        "AS004", "arguments as a text", GOOD.edited(CALL, lambda event: event.update(input="{}"))
    ),
    Mutation("AS004", "no usage", GOOD.edited(SPENT, lambda event: event.pop("model_usage"))),
    Mutation(
        "AS004",
        "a text without text",
        GOOD.edited(WHOLE, lambda event: event["content"][0].pop("text")),
    ),
    Mutation("AS004", "no reason", GOOD.edited(IDLE, lambda event: event.pop("stop_reason"))),
    Mutation("AS005", "no start", GOOD.without(BEGUN, DELTA)),
    Mutation("AS005", "after the whole", GOOD.moved(DELTA + 1, WHOLE)),
    Mutation(
        "AS006",
        "from one",
        GOOD.without(DELTA + 1).edited(DELTA, lambda event: event["delta"].update(index=1)),
    ),
    Mutation("AS006", "fewer than none", delta(DELTA + 1, index=-1)),
    Mutation("AS007", "another text", delta(DELTA, content={"type": "text", "text": "Two"})),
    Mutation("AS008", "no idle", GOOD.without(IDLE)),
]
GOODS = {
    "a turn": GOOD,
    "a call of the client's tool": GOOD._replace(events=tuple(custom_call(1))),
    "a sub-agent": GOOD._replace(events=tuple(sub_agent(1))),
    "a message of which less was shown": GOOD.without(DELTA + 1),
    "a message that broke off": GOOD.without(WHOLE),
    "no index of the first part": GOOD.edited(DELTA, lambda event: event["delta"].pop("index")),
    "left while it runs": GOOD.without(IDLE)._replace(outcome="client_disconnect"),
    "begun in the middle of a turn": GOOD.without(*range(CALL)),
    "deleted": GOOD.without(IDLE).put(IDLE, event("e", "session.deleted")),
    "an error in the stream": GOOD.without(IDLE).put(IDLE, ERROR),
    "a ping": GOOD.put(CALL, b'event: ping\ndata: {"type": "ping"}\n\n'),
}

# -- any one field wrong, and what a program on the SDK does with it

THREAD = {"session_thread_id": "sthr_1", "agent_name": "reader"}
RUN, PHASE = {"workflow_run_id": "run_1"}, {"workflow_run_phase_id": "phase_1"}
COUNTS = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}
COST = {"amount": "0.01", "currency": "USD"}
BUDGET = {"type": "limit", "max_list_cost": COST}
AGENT: Json = {
    "type": "agent",
    "id": "agent_1",
    "name": "main",
    "version": 1,
    "model": {"id": "claude-opus-5"},
    "mcp_servers": [],
    "skills": [],
    "tools": [],
    "execution_identity": {"type": "service_account"},
}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}
DOCUMENT = {
    "type": "document",
    "title": "x",
    "source": {"type": "text", "data": "x", "media_type": "text/plain"},
}
FOUND = {
    "type": "search_result",
    "source": "x",
    "title": "y",
    "citations": {"enabled": True},
    "content": said("z"),
}
ASKED = {"evaluated_permission": "ask", "evaluation": {"type": "always_ask"}}
FAILURE = {"type": "mcp_connection_failed_error", "mcp_server_name": "a", "message": "No"}
FAILED_RUN = {"type": "timeout_error", "message": "Late"}
OTHERS: list[Json] = [
    event("e", "user.message", content=[*said("x"), IMAGE, DOCUMENT]),
    event("e", "user.interrupt", session_thread_id="sthr_1"),
    event("e", "user.tool_confirmation", tool_use_id="t", result="deny", deny_message="No"),
    event(
        "e", "user.custom_tool_result", custom_tool_use_id="t", content=said("rain"), is_error=False
    ),
    event("e", "user.tool_result", tool_use_id="t", content=said("rain"), is_error=True),
    event(
        "e",
        "user.define_outcome",
        outcome_id="o",
        description="x",
        rubric={"type": "text", "content": "y"},
    ),
    event("e", "system.message", content=said("x")),
    event("e", "agent.thread_context_compacted"),
    event("e", "agent.mcp_tool_use", name="x", input={}, mcp_server_name="a", **ASKED),
    event("e", "agent.mcp_tool_result", mcp_tool_use_id="t", content=[FOUND], is_error=False),
    event("e", "agent.custom_tool_use", name="x", input={}, session_thread_id="sthr_1"),
    event(
        "e",
        "agent.thread_message_sent",
        to_session_thread_id="sthr_1",
        to_agent_name="x",
        content=said("x"),
    ),
    event(
        "e",
        "agent.thread_message_received",
        from_session_thread_id="s",
        from_agent_name="x",
        content=said("x"),
    ),
    event("e", "session.error", error={**FAILURE, "retry_status": {"type": "retrying"}}),
    event("e", "session.status_rescheduled"),
    event("e", "session.status_terminated"),
    event("e", "session.deleted"),
    event("e", "session.thread_created", **THREAD, workflow_run_id="run_1"),
    event("e", "session.thread_status_running", **THREAD),
    event("e", "session.thread_status_rescheduled", **THREAD),
    event("e", "session.thread_status_terminated", **THREAD),
    event("e", "session.thread_status_idle", **THREAD, stop_reason={"type": "end_turn"}),
    event("e", "session.updated", agent=AGENT, budget=BUDGET, metadata={"a": "b"}, title="x"),
    event(
        "e",
        "session.usage",
        usage={"input_tokens": 3, "output_tokens": 2, "list_cost": COST},
        budget=BUDGET,
    ),
    event("e", "span.outcome_evaluation_start", outcome_id="o", iteration=0),
    event("e", "span.outcome_evaluation_ongoing", outcome_id="o", iteration=0),
    event(
        id="e",
        type="span.outcome_evaluation_end",
        outcome_id="o",
        outcome_evaluation_start_id="s",
        iteration=0,
        result="satisfied",
        explanation="x",
        usage=COUNTS,
    ),
    event(
        "e",
        "workflow_run.created",
        **RUN,
        name="x",
        description="y",
        phases=[{"id": "p", "name": "z"}],
    ),
    event("e", "workflow_run.status_running", **RUN),
    event("e", "workflow_run.status_idle", **RUN),
    event("e", "workflow_run.status_ended", **RUN, result={"type": "error", "error": FAILED_RUN}),
    event("e", "workflow_run.error", **RUN, error=FAILED_RUN),
    event("e", "workflow_run.phase_started", **RUN, **PHASE),
    event("e", "workflow_run.phase_ended", **RUN, **PHASE, phase_started_id="s"),
    {"type": "event_start", "event": {"id": "e", "type": "agent.thinking"}},
    idle("e", "requires_action", event_ids=["t"]),
]
"""The types that no turn above has."""


def _text(event: Any) -> str:
    return "".join(part.text for part in event.content if part.type == "text")


_READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("user.message", "agent.message", "system.message"), _text),
    **dict.fromkeys(("agent.thread_message_sent", "agent.thread_message_received"), _text),
    **dict.fromkeys(
        ("agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"), lambda e: sorted(e.input)
    ),
    "session.error": lambda e: (e.error.message + "", e.error.retry_status.type),
    "session.status_idle": lambda e: (
        e.stop_reason.type,
        [*getattr(e.stop_reason, "event_ids", ())],
    ),
    "session.thread_status_idle": lambda e: e.stop_reason.type,
    "session.updated": lambda e: e.agent and e.agent.model.id,
    "session.usage": lambda e: e.usage.list_cost and e.usage.list_cost.amount,
    "span.model_request_end": lambda e: e.model_usage.input_tokens + e.model_usage.output_tokens,
    "span.outcome_evaluation_end": lambda e: (
        e.iteration + 1,
        e.usage.input_tokens + e.usage.output_tokens,
    ),
    "user.define_outcome": lambda e: e.rubric.type,
    "workflow_run.created": lambda e: [phase.id for phase in e.phases],
    "workflow_run.status_ended": lambda e: e.result.type,
    "workflow_run.error": lambda e: e.error.message,
}
"""What a program reads of an event, by its type."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(BetaManagedAgentsStreamSessionEvents)


def program(body: bytes) -> list[Any]:
    """What a program on the SDK reads of a stream: each event, and messages as the SDK's helper
    puts them together.
    """
    read, message = [], None
    http = answering(body)
    with (
        anthropic_client(BASE, http_client=http) as client,
        client.beta.sessions.events.stream(SESSION) as stream,
    ):
        for each in stream:
            message = accumulate_managed_agents_event(message, each)
            look = _READ.get(each.type)
            read.append((each.type, look and look(each), message and _text(message)))
    return read


def judged(events: Sequence[Json]) -> Judged:
    try:
        return Judged(program(b"".join(map(named, events))), None, all(map(_is_declared, events)))
    except (AnthropicError, AttributeError, TypeError) as error:
        return Judged(None, error, False)


def _is_declared(event: Json) -> bool:
    try:
        _ADAPTER.validate_python(event)
    except ValidationError:
        return False
    return True


def found(events: Sequence[Json]) -> list[str]:
    return broken(GOOD._replace(events=(*events, idle("last"))))


def test_the_streams_have_every_type_that_the_sdk_knows() -> None:
    union = get_args(get_args(BetaManagedAgentsStreamSessionEvents)[0])
    types = {get_args(each.model_fields["type"].annotation)[0] for each in union}
    assert {each["type"] for each in (*EVENTS, *OTHERS)} == types


# What an agent is made of.
UNJUDGED = re.compile(r" agent\.(mcp_servers|skills|tools|execution_identity)\b")


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_or_that_its_types_exclude_is_found_and_no_other() -> None:
    streams = [*([each] for each in OTHERS), EVENTS]
    told = [compared(stream, judged, found, UNJUDGED) for stream in streams]
    assert [
        each for each in told if (each.missed, each.undeclared, each.false) != ([], [], [])
    ] == []
    assert sum(each.stopped for each in told) >= 60


@table(
    ("rule", "says", "error", "words"),
    [
        ("AS002", "an array", AttributeError, "'list' object has no attribute 'type'"),
        ("AS004", "no usage", AttributeError, ""),
        ("AS004", "a text without text", TypeError, ""),
        ("AS005", "no start", AnthropicError, "event_delta for … received before its event_start"),
        ("AS006", "from one", AnthropicError, "event_delta index … is beyond the end of content"),
    ],
)
def test_a_program_on_the_sdk_stops_as_the_rule_says(
    rule: str, says: str, error: type[Exception], words: str
) -> None:
    [reply] = [each.reply for each in MUTATIONS if (each.rule, each.says) == (rule, says)]
    with pytest.raises(error) as raised:
        program(b"".join(reply.blocks()))
    why = the_rule(rule).why
    assert error.__name__ in why
    assert words in why
    assert all(piece.strip() in str(raised.value) for piece in words.split("…"))
