"""The rules of ACP: one change to good lines breaks one rule and nothing else.

`test_acp_sdk.py` gives the same lines, and others, to the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from recorder.model.events import STDIO, SWITCHED
from tests.support.programs import played
from tests.support.recordings import Json, Mutation, Reply, assert_clean

S = "s-1"
ASKED: tuple[Json, ...] = (
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
    {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "session/prompt",
        "params": {"sessionId": S, "prompt": []},
    },
)
OPTIONS = [{"value": "m-1", "name": "One", "description": "The first"}]
MODEL = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "m-1",
    "options": OPTIONS,
}
MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask", "description": "Always"}],
}
PERMISSION = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
SHOWN = [
    {"type": "content", "content": {"type": "text", "text": "18"}},
    {"type": "diff", "path": "/a", "oldText": "b", "newText": "c"},
    {"type": "terminal", "terminalId": "t-1"},
]
CALL = {"toolCallId": "c-1", "title": "Weather", "kind": "fetch"}


def line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def update(to: str, **members: Any) -> Json:
    return {
        "method": "session/update",
        "params": {"sessionId": S, "update": {"sessionUpdate": to, **members}},
    }


def said(text: str, kind: str = "agent_message_chunk") -> Json:
    return update(kind, content={"type": "text", "text": text}, messageId="m-1")


def picture(type: str, **members: Any) -> Json:
    return update("agent_message_chunk", content={"type": type, **members})


EVENTS: tuple[Json, ...] = (
    {
        "id": 0,
        "result": {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True}},
            "agentInfo": {"name": "a", "version": "1", "title": "A"},
            "authMethods": [{"id": "key", "name": "Key", "description": "A key"}],
        },
    },
    {"id": 1, "result": {"sessionId": S, "modes": MODES, "configOptions": [MODEL]}},
    update(
        "available_commands_update",
        availableCommands=[{"name": "x", "description": "y", "input": {"hint": "z"}}],
    ),
    said("Hm.", "agent_thought_chunk"),
    said("It is"),
    picture("image", data="aGk=", mimeType="image/png"),
    picture("resource_link", name="a", uri="file:///a", size=3),
    picture("resource", resource={"uri": "file:///a", "text": "b", "mimeType": "text/plain"}),
    update("plan", entries=[{"content": "Ask", "priority": "high", "status": "pending"}]),
    update(
        "tool_call", **CALL, status="pending", content=[], locations=[{"path": "/a", "line": 1}]
    ),
    {
        "id": "p-1",
        "method": "session/request_permission",
        "params": {"sessionId": S, "toolCall": CALL, "options": [PERMISSION]},
    },
    update("tool_call_update", toolCallId="c-1", status="completed", content=SHOWN),
    update("current_mode_update", currentModeId="ask"),
    update("config_option_update", configOptions=[MODEL]),
    update("session_info_update", title="Weather", updatedAt="2026-11-28T10:00:00Z"),
    update("usage_update", used=116, size=200000, cost={"amount": 0.5, "currency": "USD"}),
    {
        "id": 2,
        "result": {
            "stopReason": "end_turn",
            "usage": {"inputTokens": 2, "outputTokens": 1, "totalTokens": 3},
        },
    },
)
INIT, NEW, TEXT, ASKS, LAST = 0, 1, 4, 10, len(EVENTS) - 1
GOOD = Reply(
    events=EVENTS,
    encoding=line,
    target="/agent",
    method=STDIO,
    status=SWITCHED,
    headers=(),
    sent=ASKED,
    program="acp",
)


def told(number: int, **members: Any) -> Reply:
    """With other members of a message; None takes one away."""

    def change(event: Json) -> None:
        event.update(members)
        for name in [name for name in members if members[name] is None]:
            del event[name]

    return GOOD.edited(number, change)


def result(number: int, **members: Any) -> Reply:
    return told(number, result={**EVENTS[number]["result"], **members})


def with_params(number: int, change: Callable[[Json], object]) -> Reply:
    """With other parameters of a message."""
    return GOOD.edited(number, lambda event: change(event["params"]))


ERROR = {"code": -32603, "message": "no"}
MUTATIONS = [
    Mutation(
        "AC001", "another version", GOOD.put(TEXT, b'{"jsonrpc":"1.0","method":"session/update"}\n')
    ),
    Mutation("AC001", "an array", GOOD.put(TEXT, b"[" + line(said("x")).strip() + b"]\n")),
    Mutation("AC001", "half an object", GOOD.put(TEXT, line(said("x"))[:30] + b"\n")),
    Mutation("AC001", "nothing", GOOD.put(TEXT, b"null\n")),
    Mutation(
        "AC001", "a result and an error", GOOD.put(LAST, {"id": 9, "result": None, "error": ERROR})
    ),
    Mutation("AC001", "an error as a text", GOOD.put(LAST, {"id": 9, "error": "no"})),
    Mutation("AC001", "an id that is an array", GOOD.put(LAST, {"id": [2], "result": {}})),
    Mutation("AC001", "a method that is a number", GOOD.put(LAST, {"method": 7})),
    Mutation("AC001", "no id", GOOD.put(LAST, {"result": {}})),
    Mutation("AC002", "twice", GOOD.put(NEW, EVENTS[INIT])),
    Mutation("AC002", "an id as a text", GOOD.put(LAST, {"id": "2", "result": {}})),
    Mutation("AC003", "no version", result(INIT, protocolVersion=None)),
    Mutation("AC003", "a version as MCP has it", result(INIT, protocolVersion="2025-06-18")),
    Mutation("AC003", "no session", told(NEW, result={})),
    Mutation(
        "AC003",
        "an option without its value",
        result(NEW, configOptions=[{**MODEL, "currentValue": None}]),
    ),
    Mutation("AC003", "another reason", result(LAST, stopReason="stop")),
    Mutation(
        "AC003",
        "usage that cannot be read",
        result(LAST, usage={"inputTokens": 2, "outputTokens": 1}),
    ),
    Mutation("AC003", "no result", told(LAST, result=[])),
    Mutation("AC004", "no session", with_params(TEXT, lambda params: params.pop("sessionId"))),
    Mutation(
        "AC004", "no kind", with_params(TEXT, lambda params: params["update"].pop("sessionUpdate"))
    ),
    Mutation("AC004", "no parameters", told(TEXT, params=None)),
    Mutation(
        "AC004", "no block", with_params(TEXT, lambda params: params["update"].update(content="x"))
    ),
    Mutation(
        "AC004",
        "an empty resource",
        GOOD.put(TEXT, picture("resource", resource={"uri": "file:///a"})),
    ),
    Mutation("AC005", "a request without an id", told(ASKS, id=None)),
    Mutation("AC005", "no call", with_params(ASKS, lambda params: params.pop("toolCall"))),
    Mutation(
        "AC005",
        "another kind",
        with_params(ASKS, lambda params: params["options"][0].update(kind="yes")),
    ),
    Mutation("AC006", "an update of another protocol", GOOD.put(TEXT, update("message_delta"))),
    Mutation(
        "AC006",
        "a request of another protocol",
        GOOD.put(TEXT, {"id": 7, "method": "tools/call", "params": {}}),
    ),
    Mutation("AC007", "no answer", GOOD.without(LAST)),
]


GOODS = {
    "a turn": GOOD,
    "an error": GOOD.without(LAST).put(LAST, {"id": 2, "error": ERROR}),
    "a line of a log": GOOD.put(TEXT, b"ready\n"),
    "an empty line": GOOD.put(TEXT, b"\n"),
    "an extension": GOOD.put(TEXT, {"method": "_x/y", "params": 1}),
    "a method that is not stable": GOOD.put(
        TEXT, {"method": "elicitation/complete", "params": {"elicitationId": "e"}}
    ),
    "an error that is of no request": GOOD.put(TEXT, {"id": None, "error": ERROR}),
    "an update of a later version": GOOD.put(TEXT, update("notice", text="x")),
    "a recorded run": played(GOOD, "acp"),
}


def test_a_request_that_waits_when_the_recorder_or_the_client_leaves_is_no_fault() -> None:
    assert_clean(GOOD.without(LAST)._replace(outcome="client_disconnect"))
