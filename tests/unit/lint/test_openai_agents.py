"""The rules of OpenAI's hosted agents: each is broken by one change to a good stream, and nothing
else is; and what a program on openai-python does with a stream in which any one field is wrong.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import pytest
from openai import OpenAIError
from openai.lib.beta.agents import AgentTurnResultError
from openai.types.beta import AgentSessionEvent
from pydantic import TypeAdapter, ValidationError

from recorder.wire.dialects.openai_agents.lint import SHAPES
from tests.support.hosted_openai import (
    EVENTS,
    ONE_TURN,
    SUBAGENT,
    THOUGHT,
    USAGE,
    changed,
    event,
    in_turn,
    item,
    state,
)
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json, Mutation, Reply, broken, named, the_rule
from tests.support.sdks import BASE, answering, openai_client
from tests.support.tables import table

CREATED, TURN, COMMAND, DELTA, WHOLE, COMPLETED, IDLE = 0, 1, 7, 11, 13, 15, 16
GOOD = Reply(tuple(ONE_TURN), target="/v1/agents/sessions", asked={"stream": True})
AGAIN = {**state("in_progress", "in_progress"), "event_id": "evt_x"}
ERROR = {**event("error", error={"type": "server_error", "message": "Later."}), "type": "error"}


def in_turn_of(at: int, **fields: Any) -> Reply:
    return GOOD.edited(at, lambda event: event["turn"].update(fields))


MUTATIONS = [
    Mutation("OA001", "no type", GOOD.edited(COMMAND, lambda event: event.pop("type"))),
    Mutation("OA001", "an array", GOOD.put(COMMAND, b"data: []\n\n")),
    Mutation("OA002", "an event of another API", GOOD.put(COMMAND, {"type": "response.created"})),
    Mutation("OA003", "no item", GOOD.edited(COMMAND, lambda event: event.pop("item"))),
    Mutation("OA003", "no turn", GOOD.edited(COMPLETED, lambda event: event.pop("turn"))),
    Mutation(
        "OA003",
        "a number as a text",
        GOOD.edited(DELTA, lambda event: event.update(delta=5)).without(WHOLE),
    ),
    Mutation(
        "OA003",
        "counts as a text",
        GOOD.edited(COMPLETED, lambda event: event["usage"].update(total_tokens="x")),
    ),
    Mutation("OA004", "no idle", GOOD.without(IDLE)),
    Mutation(
        "OA005",
        "another turn",
        GOOD.edited(COMPLETED, lambda event: event.update(turn_id="turn_x")),
    ),
    Mutation("OA005", "still in progress", in_turn_of(COMPLETED, status="in_progress")),
    Mutation(
        "OA006", "another text", GOOD.edited(WHOLE, lambda event: event.update(text="Two files."))
    ),
    Mutation("OA007", "no usage", GOOD.edited(COMPLETED, lambda event: event.pop("usage"))),
]
GOODS = {
    "a turn": GOOD,
    "a call and a sub-agent": GOOD._replace(events=tuple(EVENTS)),
    "no event lines, which the SDK does not read": GOOD._replace(
        encoding=lambda event: named(event).partition(b"\n")[2]
    ),
    "usage of the turn": GOOD.without(COMPLETED).put(
        COMPLETED, {**changed("turn_1", "completed", usage=USAGE), "event_id": "evt_x"}
    ),
    "left while it runs": GOOD.without(IDLE)._replace(outcome="client_disconnect"),
    "begun in the middle of an item": GOOD.without(*range(DELTA)),
    "an error in the stream": GOOD.without(IDLE).put(IDLE, {**ERROR, "event_id": "e"}),
}

# -- any one field wrong, and what a program on the SDK does with it

PLACE = {"item_id": "msg_1", "output_index": 0}
TEXT = {"type": "output_text", "text": "x"}
ENVIRONMENT = {"id": "env_1", "type": "openai_hosted", "status": "failed"}
FAILED = {"type": "x", "code": "y", "message": "z"}
FIELD = {"id": "a", "type": "text", "label": "Name", "required": True}
LOGIN = {
    "type": "browser_authentication",
    "fields": [FIELD],
    "options": [{"id": "b", "label": "c", "field_ids": []}],
}
APPROVAL = {"type": "computer_use_approval_request", "turn_id": "turn_1", "request_id": "r"}
MCP = {"type": "mcp_tool_call", "server_label": "a", "message": "May I?", "arguments": {}}
WAITING = [
    {"type": "mcp_approval_request", "turn_id": "turn_1", "request_id": "r", "request": MCP},
    {**APPROVAL, "request": LOGIN},
    {"type": "environment_connection", "environment_id": "env_1"},
]
BETWEEN = {"sender_agent_id": "agent_1", "recipient_agent_id": "sub_1"}


def environment(state: str) -> Json:
    return event(
        f"environment.{state}", turn_id="turn_1", environment={**ENVIRONMENT, "error": FAILED}
    )


def of_item(type: str, **more: Any) -> Json:
    return item("turn_1", "added", 0, type=type, id="i_1", **more)


OTHERS: list[Json] = [
    ERROR,
    state("failed", "failed", error="x", required_actions=WAITING, usage=USAGE),
    state("in_progress", "in_progress"),
    changed("turn_1", "in_progress"),
    {**changed("turn_1", "failed", error={"code": "server_error", "message": "y"}), "usage": USAGE},
    {**changed("turn_1", "cancelled", subagent_id="sub_1"), "usage": USAGE},
    in_turn("turn_1", "content_part.added", **PLACE, content_index=0, part=TEXT),
    in_turn("turn_1", "content_part.done", **PLACE, content_index=0, part=TEXT),
    in_turn(
        "turn_1",
        "reasoning_summary_part.added",
        **THOUGHT,
        part={"type": "summary_text", "text": "x"},
    ),
    in_turn(
        "turn_1",
        "reasoning_summary_part.done",
        **THOUGHT,
        part={"type": "summary_text", "text": "x"},
    ),
    event("subagent.active", subagent=SUBAGENT),
    event("subagent.closed", subagent={**SUBAGENT, "closed_at": 5}),
    *map(
        environment,
        ("pending", "ready", "connected", "disconnected", "suspended", "expired", "failed"),
    ),
    event("environment.reset", turn_id="turn_1", environment_id="env_1", reset_count=1),
    of_item(
        "agent_message",
        content=[{"type": "encrypted_content", "encrypted_content": "x"}],
        **BETWEEN,
    ),
    of_item("mcp_call", server_label="a", name="b", arguments={}, output=None, error=None),
    of_item(
        "computer_use_call",
        title="x",
        output={"type": "computer_screenshot", "image_url": "data:,"},
    ),
    of_item("computer_use_approval_request", request_id="r", request=LOGIN),
    of_item(
        "computer_use_approval_request_result",
        request_id="r",
        response={"type": "browser_authentication", "action": "cancel"},
    ),
    of_item("web_search_call", action={"type": "search", "query": "x", "queries": ["x"]}),
    of_item("send_subagent_input_call", content=[TEXT], **BETWEEN),
    *(of_item(f"{verb}_subagent_call", **BETWEEN) for verb in ("resume", "interrupt", "close")),
    of_item("wait_for_subagents_call", sender_agent_id="agent_1", recipient_agent_ids=["sub_1"]),
]
"""The types of events, and of items, that no turn in `EVENTS` has."""


def _text(parts: Any) -> str:
    return "".join(
        part.text for part in parts if part.type in ("output_text", "input_text", "summary_text")
    )


def _spent(event: Any) -> Any:
    usage = getattr(event, "usage", None) or event.turn.usage
    return usage and usage.total_tokens


_ITEMS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("message", "agent_message"), lambda item: _text(item.content)),
    **dict.fromkeys(
        ("create_subagent_call", "send_subagent_input_call"), lambda item: _text(item.content)
    ),
    "reasoning": lambda item: _text(item.summary),
    "function_call": lambda item: (item.name + "(", sorted(item.arguments)),
    "web_search_call": lambda item: item.action and item.action.type,
    "wait_for_subagents_call": lambda item: [*item.recipient_agent_ids],
    "computer_use_approval_request": lambda item: item.request.type,
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "error": lambda e: e.error.message + "",
    **dict.fromkeys(
        [
            f"agent.session.{state}"
            for state in ("created", "idle", "in_progress", "requires_action", "failed")
        ],
        lambda e: (
            e.session.agent.model + "",
            [action.type for action in e.session.required_actions],
        ),
    ),
    **dict.fromkeys(
        [
            f"agent.session.turn.{state}"
            for state in ("created", "in_progress", "completed", "failed", "cancelled")
        ],
        lambda e: (e.turn.id + "", e.turn.error and e.turn.error.message, _spent(e)),
    ),
    **dict.fromkeys(
        ("agent.session.turn.item.added", "agent.session.turn.item.done"),
        lambda e: _ITEMS.get(e.item.type, str)(e.item) if e.item.type in _ITEMS else e.item.id,
    ),
    "agent.session.turn.output_text.delta": lambda e: e.delta + "",
    "agent.session.turn.reasoning_summary_text.delta": lambda e: e.delta + "",
    "agent.output.command_execution_output.delta": lambda e: e.delta + "",
    "agent.session.turn.content_part.added": lambda e: e.part.text + "",
    **dict.fromkeys(
        [f"agent.session.environment.{state}" for state in ("ready", "failed")],
        lambda e: e.environment.status,
    ),
    **dict.fromkeys(
        [f"agent.session.subagent.{state}" for state in ("created", "active", "closed")],
        lambda e: e.subagent.id,
    ),
}
"""What a program reads of an event, by its type."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(AgentSessionEvent)


def program(body: bytes, *, has_result: bool) -> list[Any]:
    """What a program on the SDK reads of a run: each event, and the answer as the SDK collects it."""
    read: list[Any] = []
    asked: Any = {"agent": {"model": "gpt-5.5"}, "environment": {"type": "none"}, "input": "x"}
    with warnings.catch_warnings(), openai_client(BASE, http_client=answering(body)) as client:
        warnings.simplefilter("ignore")
        with client.beta.agents.sessions.create(
            **asked, stream=True
        ).with_result_collection() as stream:
            for each in stream:
                look = _READ.get(each.type)
                read.append((each.type, look and look(each)))
            if has_result:
                result = stream.get_final_result()
                usage = result.turn.usage
                read.append((result.output_text, result.session_id, usage and usage.total_tokens))
    return read


def judged(events: Sequence[Json]) -> Judged:
    body = b"".join(map(named, events))
    try:
        read = program(body, has_result=len(events) == len(ONE_TURN))
        return Judged(read, None, all(map(_is_declared, events)))
    except (OpenAIError, AttributeError, TypeError) as error:
        return Judged(None, error, False)


def _is_declared(event: Json) -> bool:
    try:
        _ADAPTER.validate_python(event)
    except ValidationError:
        return False
    return True


def found(events: Sequence[Json]) -> list[str]:
    return broken(GOOD._replace(events=(*events, *([ONE_TURN[IDLE]] if len(events) == 1 else []))))


def test_the_streams_have_every_type_that_the_sdk_knows() -> None:
    types = {
        get_args(each.model_fields["type"].annotation)[0]
        for each in get_args(get_args(AgentSessionEvent)[0])
    }
    assert {each["type"] for each in (*EVENTS, *OTHERS)} == types


def kind(event: Json) -> tuple[int, Any]:
    """What distinguishes events whose fields are not the same: types that share a shape are one
    kind.
    """
    return id(SHAPES.by_name[f"event.{event['type']}"]), event.get("item", {}).get("type")


# What an agent and its environment are made of, and what of a call is missing.
UNJUDGED = re.compile(
    r"session\.agent\.(multi_agent|reasoning|text|tools|instructions)\b|session\.environment\b"
    r"|(item|request|required_actions\.0)\.(output|error|arguments) missing"
    r"|item\.done item\.id (missing|null)"  # of a message: those of old users have none
)


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_or_that_its_types_exclude_is_found_and_no_other() -> None:
    kinds = {kind(each): each for each in (*EVENTS, *OTHERS)}
    singles = [{"event_id": "evt_x", **each} for each in kinds.values()]
    streams = [*([each] for each in singles), ONE_TURN]
    told = [compared(stream, judged, found, UNJUDGED) for stream in streams]
    assert [
        each for each in told if (each.missed, each.undeclared, each.false) != ([], [], [])
    ] == []
    assert sum(each.stopped for each in told) >= 60


@table(
    ("rule", "says", "error", "words"),
    [
        ("OA001", "an array", AttributeError, "'list' object has no attribute 'type'"),
        ("OA003", "no turn", AttributeError, ""),
        ("OA003", "a number as a text", TypeError, ""),
        (
            "OA004",
            "no idle",
            AgentTurnResultError,
            "Could not collect the agent turn result: incomplete",
        ),
        ("OA005", "another turn", AgentTurnResultError, ""),
        ("OA005", "still in progress", AgentTurnResultError, ""),
    ],
)
def test_a_program_on_the_sdk_stops_as_the_rule_says(
    rule: str, says: str, error: type[Exception], words: str
) -> None:
    [reply] = [each.reply for each in MUTATIONS if (each.rule, each.says) == (rule, says)]
    with pytest.raises(error) as raised:
        program(b"".join(reply.blocks()), has_result=True)
    why = the_rule(rule).why
    assert error.__name__ in why
    assert words in " ".join(why.split())
    assert words in str(raised.value)
