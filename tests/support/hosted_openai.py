"""Sessions of OpenAI's hosted agents, event by event, and what openai-python makes of the same
bytes.
"""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.hosted import Json
from tests.support.sdks import openai_client

SESSION = "asess_1"
USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}
AGENT: Json = {
    "id": "agent_1",
    "model": "gpt-5.5",
    "multi_agent": {"enabled": True},
    "reasoning": {"effort": "low"},
    "service_tier": "default",
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tools": [],
}


def event(name: str, **more: Any) -> Json:
    return {"type": f"agent.session.{name}", "session_id": SESSION, **more}


def state(name: str, status: str, **more: Any) -> Json:
    """An event that has the session."""
    session = {
        "id": SESSION,
        "object": "agent.session",
        "agent": AGENT,
        "status": status,
        "created_at": 1,
        "last_active_at": 2,
        "environment": {"type": "none"},
        "metadata": {"a": "b"},
        "required_actions": [],
        "vault_ids": [],
        **more,
    }
    return {"type": f"agent.session.{name}", "session": session}


def in_turn(turn_id: str, name: str, **more: Any) -> Json:
    return event(f"turn.{name}", turn_id=turn_id, **more)


def changed(turn: str, state: str, **more: Any) -> Json:
    """An event that has a turn."""
    status = "in_progress" if state == "created" else state
    about = {
        "object": "agent.session.turn",
        "agent_id": "agent_1",
        "session_id": SESSION,
        "created_at": 1,
    }
    return in_turn(turn, state, turn={"id": turn, "status": status, **about, **more})


def item(turn: str, step: str, index: int | None = None, **more: Any) -> Json:
    return in_turn(
        turn,
        f"item.{step}",
        output_index=index,
        item={"turn_id": turn, "status": "completed", **more},
    )


def numbered(*events: Json) -> list[Json]:
    return [{"event_id": f"evt_{number}", **each} for number, each in enumerate(events)]


def said(turn: str, id: str, text: str) -> list[Json]:
    place = {"item_id": id, "output_index": 0, "content_index": 0}
    message: Json = {"type": "message", "id": id, "role": "assistant"}
    return [
        item(turn, "added", 0, **message, content=[]),
        *(
            in_turn(turn, "output_text.delta", **place, delta=piece)
            for piece in (text[:3], text[3:])
        ),
        in_turn(turn, "output_text.done", **place, text=text),
        item(turn, "done", 0, **message, content=[{"type": "output_text", "text": text}]),
    ]


def asked(turn: str, text: str) -> Json:
    message: Json = {"type": "message", "id": f"msg_{turn}", "role": "user"}
    return item(turn, "added", **message, content=[{"type": "input_text", "text": text}])


THOUGHT = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
COMMAND = {"type": "command_execution", "id": "cmd_1", "command": "ls"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "roll",
    "arguments": {"sides": 6},
}
ACTION = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "roll",
    "arguments": {"sides": 6},
    "turn_id": "turn_2",
}
CREATE = {
    "type": "create_subagent_call",
    "id": "cs_1",
    "agent_id": "sub_1",
    "content": [{"type": "output_text", "text": "Go"}],
}
SUBAGENT = {
    "id": "sub_1",
    "object": "agent.session.subagent",
    "name": "reader",
    "status": "active",
    "session_id": SESSION,
    "parent_agent_id": "agent_1",
    "opened_at": 1,
}
ONE_TURN = numbered(
    state("created", "in_progress"),
    changed("turn_1", "created"),
    asked("turn_1", "What is here?"),
    item("turn_1", "added", 0, type="reasoning", id="rs_1", summary=[]),
    in_turn("turn_1", "reasoning_summary_text.delta", **THOUGHT, delta="Hm"),
    in_turn("turn_1", "reasoning_summary_text.done", **THOUGHT, text="Hm"),
    item(
        "turn_1",
        "done",
        0,
        type="reasoning",
        id="rs_1",
        summary=[{"type": "summary_text", "text": "Hm"}],
    ),
    item("turn_1", "added", 1, **COMMAND),
    {
        "type": "agent.output.command_execution_output.delta",
        "session_id": SESSION,
        "item_id": "cmd_1",
        "output_index": 1,
        "delta": "a.txt",
    },
    item("turn_1", "done", 1, **COMMAND, output="a.txt", exit_code=0),
    *said("turn_1", "msg_1", "One file."),
    {**changed("turn_1", "completed"), "usage": USAGE},
    state("idle", "idle"),
)
EVENTS = numbered(
    *ONE_TURN,
    changed("turn_2", "created"),
    asked("turn_2", "Roll a die."),
    item("turn_2", "added", 0, **CALL),
    item("turn_2", "done", 0, **CALL),
    state("requires_action", "requires_action", required_actions=[ACTION]),
    item("turn_2", "added", type="function_call_output", id="fo_1", call_id="call_1", output="4"),
    item("turn_2", "done", 1, **CREATE),
    event("subagent.created", subagent=SUBAGENT),
    changed("turn_s", "created", subagent_id="sub_1"),
    *said("turn_s", "msg_s", "Gone."),
    changed("turn_s", "completed", subagent_id="sub_1", usage=USAGE),
    *said("turn_2", "msg_2", "It is four."),
    changed("turn_2", "completed", usage=USAGE),
    state("idle", "idle"),
)


def openai_events(url: str, http: httpx2.Client | None = None) -> list[Any]:
    """What openai-python yields of the session's stream at a server."""
    with openai_client(url, **({} if http is None else {"http_client": http})) as client:
        with client.beta.agents.sessions.events.stream(SESSION) as stream:
            return list(stream)
