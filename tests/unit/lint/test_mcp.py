"""The rules of MCP: one change to good messages breaks one rule and nothing else.

`tests/acceptance/test_mcp_faults.py` gives the same messages to the SDK.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from recorder.model.events import STDIO, SWITCHED
from tests.support.recordings import Json, Mutation, Reply, assert_clean
from tests.support.tables import table

INFO = {"name": "shop", "version": "1"}
AGREED = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
TOOLS = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
THREE = {"content": [{"type": "text", "text": "3"}]}
ASKED: list[Json] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"},
    },
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "add", "arguments": {}}},
]
JSON = ("content-type", "application/json")


def message(event: Json) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(event).encode() + b"\r\n\r\n"


def line(event: Json) -> bytes:
    return json.dumps(event).encode() + b"\n"


def response(id: Any, **members: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, **members}


def notice(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def over_http(asked: Json, *events: Json | bytes) -> Reply:
    return Reply(events=events, encoding=message, target="/mcp", asked=asked)


PROGRESS = notice("notifications/progress", progressToken=3, progress=1)
INIT = over_http(ASKED[0], response(1, result=AGREED))
LIST = over_http(ASKED[1], response(2, result=TOOLS))
CALL = over_http(ASKED[2], PROGRESS, response(3, result=THREE))
RESULT = 1  # of CALL
LINES = Reply(
    events=(
        response(1, result=AGREED),
        response(2, result=TOOLS),
        PROGRESS,
        response(3, result=THREE),
    ),
    encoding=line,
    target="/mcp",
    method=STDIO,
    status=SWITCHED,
    headers=(),
    sent=tuple(ASKED),
)
LAST = 3  # of LINES


def document(*messages: Any) -> Reply:
    return CALL._replace(events=(), body=json.dumps(*messages).encode(), headers=(JSON,))


def with_result(reply: Reply, **members: Any) -> Reply:
    """With other members of a result; None takes one away."""

    def change(event: Json) -> None:
        event["result"] = {**event["result"], **members}
        for name in [name for name in members if members[name] is None]:
            del event["result"][name]

    return reply.edited(-1, change)


def with_content(**part: Any) -> Reply:
    return with_result(CALL, content=[part])


def with_tool(**members: Any) -> Reply:
    return with_result(LIST, tools=[{**TOOLS["tools"][0], **members}])


def told(reply: Reply, **members: Any) -> Reply:
    """With other members of the last message."""
    return reply.edited(-1, lambda event: event.update(members))


class Fault(NamedTuple):
    rule: str
    says: str
    reply: Reply
    gives: str  # what the SDK raises, or what the call gives


UNREAD = "MCPError: Failed to parse"
LATE = "MCPError: Request 'tools/call' timed out"
MISFIT = "ValidationError: "
UNSUPPORTED = "RuntimeError: Unsupported protocol version from the server"
REFUSED = {"code": -1, "message": "no"}

FAULTS = [
    Fault("MC001", "another version of JSON-RPC", told(CALL, jsonrpc="1.0"), UNREAD),
    Fault(
        "MC001",
        "several in one",
        CALL.without(RESULT).put(
            RESULT, b"data: [%b]\n\n" % line(response(3, result=THREE)).strip()
        ),
        UNREAD,
    ),
    Fault("MC001", "a result as a text", told(CALL, result="3"), UNREAD),
    Fault("MC001", "half a number as id", told(CALL, id=1.5), UNREAD),
    Fault(
        "MC001",
        "an error as a text",
        CALL.without(RESULT).put(RESULT, response(3, error="no")),
        UNREAD,
    ),
    Fault("MC001", "no JSON", CALL.without(RESULT).put(RESULT, b"data: {\r\n\r\n"), UNREAD),
    Fault(
        "MC001",
        "another version in a document",
        document({**response(3, result=THREE), "jsonrpc": "1"}),
        UNREAD,
    ),
    Fault("MC001", "another version on a line", told(LINES, jsonrpc="1.0"), LATE),
    Fault("MC002", "both", told(CALL, error=REFUSED), "MCPError: no"),
    Fault("MC002", "both on a line", told(LINES, error=REFUSED), "MCPError: no"),
    Fault("MC003", "another id", told(LINES, id=9), LATE),
    Fault("MC003", "twice", LINES.put(LAST, response(3, result=THREE)), "3"),
    Fault("MC003", "another one after it", CALL.put(2, response(4, result=THREE)), "3"),
    Fault(
        "MC004",
        "no response",
        CALL.without(RESULT),
        "MCPError: SSE stream ended without a response",
    ),
    Fault(
        "MC005",
        "a name",
        CALL.without(0).put(0, b"event: progress\ndata: " + line(PROGRESS) + b"\n"),
        "3",
    ),
    Fault("MC006", "no content", with_result(CALL, content=None), MISFIT),
    Fault("MC006", "a text as content", with_result(CALL, content="3"), MISFIT),
    Fault("MC006", "a text without text", with_content(type="text"), MISFIT),
    Fault("MC006", "an image without its type", with_content(type="image", data="aGk="), MISFIT),
    Fault("MC006", "no tools", with_result(LIST, tools=None), MISFIT),
    Fault("MC006", "a tool without schema", with_tool(inputSchema=None), MISFIT),
    Fault("MC006", "a schema without type", with_tool(inputSchema={}), MISFIT),
    Fault("MC006", "no version of the protocol", with_result(INIT, protocolVersion=None), MISFIT),
    Fault("MC006", "no name of the server", with_result(INIT, serverInfo={"version": "1"}), MISFIT),
    Fault("MC007", "a later version", with_result(INIT, protocolVersion="2027-01-01"), UNSUPPORTED),
    Fault(
        "MC007", "a version that is not one", with_result(INIT, protocolVersion="1.0"), UNSUPPORTED
    ),
]
MUTATIONS = [Mutation(fault.rule, fault.says, fault.reply) for fault in FAULTS]
TAKEN: dict[str, tuple[Reply, str]] = {
    "a call": (CALL, "3"),
    "a list": (LIST, "3"),
    "a beginning": (INIT, "3"),
    "an older version": (with_result(INIT, protocolVersion="2024-11-05"), "3"),
    "a document": (document(response(3, result=THREE)), "3"),
    "lines": (LINES, "3"),
    "a line of a log": (LINES.put(LAST, b"ready\n"), "3"),
    "an id as a text": (told(LINES, id="3"), "3"),
    "an error": (CALL.without(RESULT).put(RESULT, response(3, error=REFUSED)), "MCPError: no"),
    "a notice that nobody knows": (CALL.put(0, notice("notifications/x")), "3"),
    "something to hear": (with_content(type="audio", data="aGk=", mimeType="audio/wav"), ""),
}
GOODS = {says: reply for says, (reply, _) in TAKEN.items()}
"""Replies that break no rule."""


@table(
    "reply",
    [
        CALL._replace(events=(b"id: 1\ndata: \n\n",)),  # to be resumed
        CALL._replace(
            events=(), body=b"Accepted", status=202, headers=(("content-type", "text/plain"),)
        ),
        CALL._replace(events=(), outcome="client_disconnect"),
    ],
)
def test_an_answer_that_is_still_to_come_is_no_fault(reply: Reply) -> None:
    assert_clean(reply)
