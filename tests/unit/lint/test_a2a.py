"""The rules of A2A: one change to good events breaks one rule and nothing else.

`tests/acceptance/test_a2a_faults.py` gives the same events to the SDK.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.recordings import Json, Mutation, Reply, unnamed

METHODS = {"0.3": "message/stream", "1.0": "SendStreamingMessage"}
PATHS = {"0.3": "/v1/message:stream", "1.0": "/message:stream"}
TEXT = {"text": "It is"}
OLD_TEXT = {"kind": "text", **TEXT}
SAID = {"messageId": "m", "role": "agent", "parts": [TEXT]}
IDS = {"taskId": "t", "contextId": "c"}


def response(**members: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, **members}


def old(kind: str, **members: Any) -> Json:
    return response(result={"kind": kind, **members})


def new(member: str, **members: Any) -> Json:
    return response(result={member: members})


def stream(version: str, *events: Json | bytes) -> Reply:
    asked = {"jsonrpc": "2.0", "id": 1, "method": METHODS[version], "params": {"message": SAID}}
    return Reply(events=events, encoding=unnamed, target="/agent", asked=asked)


def over_rest(version: str, reply: Reply) -> Reply:
    """The results of a reply without the responses of JSON-RPC around them."""
    events = [
        event["result"] if isinstance(event, dict) and "result" in event else event
        for event in reply.events
    ]
    return reply._replace(events=tuple(events), target=PATHS[version], asked={"message": SAID})


OLD = stream(
    "0.3",
    old("task", id="t", contextId="c", status={"state": "submitted"}),
    old("artifact-update", **IDS, artifact={"artifactId": "a", "parts": [OLD_TEXT]}),
    old("status-update", **IDS, status={"state": "completed"}, final=True),
)
NEW = stream(
    "1.0",
    new("task", id="t", contextId="c", status={"state": "TASK_STATE_SUBMITTED"}),
    new("artifactUpdate", **IDS, artifact={"artifactId": "a", "parts": [TEXT]}),
    new("statusUpdate", **IDS, status={"state": "TASK_STATE_COMPLETED"}),
)
REST = over_rest("1.0", NEW)
OLD_REST = over_rest("0.3", NEW)
TASK, ARTIFACT, END = range(3)
REFUSED = {"code": -32602, "message": "no"}


def with_(reply: Reply, number: int, *path: str, value: Any = None) -> Reply:
    """With another value at a path in a result; None takes it away."""

    def change(event: Json) -> None:
        holder = event["result"]
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = value
        if value is None:
            del holder[path[-1]]

    return reply.edited(number, change)


class Fault(NamedTuple):
    rule: str
    says: str
    reply: Reply
    gives: str  # what the SDK for Python raises; or the kinds of the events that it reads
    js: str  # the kinds of the events that the one for JavaScript reads, and what it raises then


CUT = "task artifact_update"
WHOLE = "task artifact_update status_update"
TOLD = "status_update"
INVALID = "ValidationError"
UNREAD = "ParseError"
JS_CUT = "task artifactUpdate"
JS_WHOLE = "task artifactUpdate statusUpdate"
JS_TOLD = "statusUpdate"
FAILED = f"{JS_CUT} Error"
MALFORMED = "RequestMalformedError"
PARTS = ("artifactUpdate", "artifact", "parts")
STATE = ("statusUpdate", "status", "state")
ARRAY = b"data: []\n\n"
NUMBER = {**OLD_TEXT, "text": 5}
NAMED_ERROR = b'event: error\ndata: {"error": {"code": 400, "message": "no"}}\n\n'

FAULTS = [
    Fault(
        "A2001",
        "an array",
        NEW.put(END, ARRAY),
        "A2AClientError: Invalid JSON-RPC response",
        FAILED,
    ),
    Fault("A2001", "an array in 0.3", OLD.put(END, ARRAY), "AttributeError", FAILED),
    Fault(
        "A2001",
        "an array over REST",
        REST.put(END, ARRAY),
        f"{CUT} - {TOLD}",
        f"{JS_CUT} - {JS_TOLD}",
    ),
    Fault(
        "A2001",
        "an error as a text",
        NEW.without(END).put(END, response(error="no")),
        "A2AClientError",
        FAILED,
    ),
    Fault(
        "A2001",
        "an unnamed error",
        REST.without(END).put(END, {"error": REFUSED}),
        f"{CUT} -",
        f"{JS_CUT} -",
    ),
    Fault("A2001", "no result", NEW.put(END, response()), "A2AClientError", FAILED),
    Fault("A2001", "no result in 0.3", OLD.put(END, response()), WHOLE, FAILED),
    Fault("A2001", "null", NEW.put(END, response(result=None)), "TypeError", f"{JS_CUT} TypeError"),
    Fault(
        "A2002",
        "another member",
        NEW.put(END, new("hologram")),
        f"{CUT} - {TOLD}",
        f"{JS_CUT} - {JS_TOLD}",
    ),
    Fault("A2002", "another kind", OLD.put(END, old("hologram")), WHOLE, f"{JS_CUT} {MALFORMED}"),
    Fault(
        "A2002", "two in one", with_(NEW, END, "message", value=SAID), UNREAD, f"{JS_CUT} message"
    ),
    Fault(
        "A2002",
        "none over REST",
        OLD_REST.put(END, {}),
        "ValueError",
        f"{JS_CUT} InvalidAgentResponseError",
    ),
    Fault(
        "A2003",
        "a status without its kind",
        with_(OLD, END, "kind"),
        WHOLE,
        f"{JS_CUT} {MALFORMED}",
    ),
    Fault("A2003", "a task without its context", with_(OLD, TASK, "contextId"), INVALID, JS_WHOLE),
    Fault("A2003", "a status without its task", with_(OLD, END, "taskId"), INVALID, JS_WHOLE),
    Fault(
        "A2003",
        "a status that is not said to be final",
        with_(OLD, END, "final"),
        INVALID,
        JS_WHOLE,
    ),
    Fault(
        "A2003",
        "an artifact without parts",
        with_(OLD, ARTIFACT, *PARTS[1:]),
        INVALID,
        f"task {MALFORMED}",
    ),
    Fault(
        "A2003",
        "a part without its kind",
        with_(OLD, ARTIFACT, *PARTS[1:], value=[TEXT]),
        WHOLE,
        f"task {MALFORMED}",
    ),
    Fault(
        "A2003",
        "a text as a number in 0.3",
        with_(OLD, ARTIFACT, *PARTS[1:], value=[NUMBER]),
        INVALID,
        JS_WHOLE,
    ),
    Fault(
        "A2003",
        "a state of nobody",
        with_(OLD, TASK, "status", "state", value="resting"),
        INVALID,
        JS_WHOLE,
    ),
    Fault(
        "A2003",
        "parts that are an object",
        with_(NEW, ARTIFACT, *PARTS, value={}),
        UNREAD,
        JS_WHOLE,
    ),
    Fault(
        "A2003",
        "a text as a number",
        with_(NEW, ARTIFACT, *PARTS, value=[{"text": 5}]),
        UNREAD,
        JS_WHOLE,
    ),
    Fault("A2003", "a state of 0.3", with_(NEW, END, *STATE, value="completed"), WHOLE, JS_WHOLE),
    Fault("A2004", "no end", NEW.without(END), CUT, JS_CUT),
    Fault("A2004", "no end in 0.3", OLD.without(END), CUT, JS_CUT),
    Fault("A2004", "no end over REST", REST.without(END), CUT, JS_CUT),
    Fault(
        "A2005", "another id", NEW.edited(END, lambda event: event.update(id="1")), WHOLE, FAILED
    ),
]
MUTATIONS = [Mutation(fault.rule, fault.says, fault.reply) for fault in FAULTS]
TAKEN: dict[str, tuple[Reply, str, str]] = {
    "version 0.3": (OLD, WHOLE, JS_WHOLE),
    "version 1.0": (NEW, WHOLE, JS_WHOLE),
    "version 0.3 over REST": (OLD_REST, WHOLE, JS_WHOLE),
    "version 1.0 over REST": (REST, WHOLE, JS_WHOLE),
    "a message in 0.3": (
        stream("0.3", old("message", **{**SAID, "parts": [OLD_TEXT]})),
        "message",
        "message",
    ),
    "a message": (stream("1.0", new("message", **SAID)), "message", "message"),
    "a question": (with_(NEW, END, *STATE, value="TASK_STATE_INPUT_REQUIRED"), WHOLE, JS_WHOLE),
    "an error": (
        NEW.without(END).put(END, response(error=REFUSED)),
        "InvalidParamsError: no",
        FAILED,
    ),
    "an error over REST": (
        REST.without(END).put(END, NAMED_ERROR),
        "A2AClientError",
        f"{JS_CUT} A2AError",
    ),
    "a field that nobody knows": (with_(NEW, END, "statusUpdate", "x", value=1), WHOLE, JS_WHOLE),
}
GOODS = {says: taken[0] for says, taken in TAKEN.items()}
"""Replies that break no rule."""


def spoken_by(reply: Reply) -> tuple[str, str]:
    """The version and the binding of a reply."""
    if reply.target in PATHS.values():
        return next(version for version, path in PATHS.items() if path == reply.target), "HTTP+JSON"
    return next(
        version for version, method in METHODS.items() if method == reply.asked["method"]
    ), "JSONRPC"
