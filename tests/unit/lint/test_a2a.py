"""The rules of A2A: one change to good events breaks one rule and nothing else.

`tests/acceptance/test_a2a_faults.py` gives the same events to the SDK.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.recordings import Json, Mutation, Reply, unnamed

METHODS = {"0.3": "message/stream", "1.0": "SendStreamingMessage"}
PIECE = {"artifactId": "a", "parts": [{"text": "It is"}]}
SAID = {"messageId": "m", "role": "agent", "parts": [{"text": "Hi"}]}
IDS = {"taskId": "t", "contextId": "c"}


def response(**members: Any) -> Json:
    return {"jsonrpc": "2.0", "id": "1", **members}


def old(kind: str, **members: Any) -> Json:
    return response(result={"kind": kind, **members})


def new(member: str, **members: Any) -> Json:
    return response(result={member: members})


def stream(version: str, *events: Json | bytes) -> Reply:
    asked = {"jsonrpc": "2.0", "id": "1", "method": METHODS[version], "params": {"message": SAID}}
    return Reply(events=events, encoding=unnamed, target="/agent", asked=asked)


OLD = stream(
    "0.3",
    old("task", id="t", contextId="c", status={"state": "submitted"}),
    old("artifact-update", **IDS, artifact=PIECE),
    old("status-update", **IDS, status={"state": "completed"}, final=True),
)
NEW = stream(
    "1.0",
    new("task", id="t", contextId="c", status={"state": "TASK_STATE_SUBMITTED"}),
    new("artifactUpdate", **IDS, artifact=PIECE),
    new("statusUpdate", **IDS, status={"state": "TASK_STATE_COMPLETED"}),
)
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
    gives: str  # what the SDK raises; or the kinds of the events that it reads


CUT = "task artifact_update"
WHOLE = "task artifact_update status_update"
TOLD = "status_update"
INVALID = "ValidationError"
UNREAD = "ParseError"
PARTS = ("artifactUpdate", "artifact", "parts")
STATE = ("statusUpdate", "status", "state")

FAULTS = [
    Fault("A2001", "an array", NEW.put(END, b"data: []\n\n"), "A2AClientError: Invalid JSON-RPC response"),
    Fault("A2001", "an array in 0.3", OLD.put(END, b"data: []\n\n"), "AttributeError"),
    Fault("A2001", "an error as a text", NEW.without(END).put(END, response(error="no")), "A2AClientError"),
    Fault("A2001", "no result", NEW.put(END, response()), "A2AClientError"),
    Fault("A2001", "no result in 0.3", OLD.put(END, response()), WHOLE),
    Fault("A2001", "null", NEW.put(END, response(result=None)), "TypeError"),
    Fault("A2002", "another member", NEW.put(END, new("hologram")), f"{CUT} - {TOLD}"),
    Fault("A2002", "another kind", OLD.put(END, old("hologram")), WHOLE),
    Fault("A2002", "two in one", with_(NEW, END, "message", value=SAID), UNREAD),
    Fault("A2003", "a task without its context", with_(OLD, TASK, "contextId"), INVALID),
    Fault("A2003", "a status without its task", with_(OLD, END, "taskId"), INVALID),
    Fault("A2003", "a status that is not said to be final", with_(OLD, END, "final"), INVALID),
    Fault("A2003", "an artifact without parts", with_(OLD, ARTIFACT, *PARTS[1:]), INVALID),
    Fault("A2003", "a text as a number in 0.3", with_(OLD, ARTIFACT, *PARTS[1:], value=[{"text": 5}]), INVALID),
    Fault("A2003", "a state of nobody", with_(OLD, TASK, "status", "state", value="resting"), INVALID),
    Fault("A2003", "parts that are an object", with_(NEW, ARTIFACT, *PARTS, value={}), UNREAD),
    Fault("A2003", "a text as a number", with_(NEW, ARTIFACT, *PARTS, value=[{"text": 5}]), UNREAD),
    Fault("A2003", "a state of 0.3", with_(NEW, END, *STATE, value="completed"), WHOLE),
    Fault("A2004", "no end", NEW.without(END), CUT),
    Fault("A2004", "no end in 0.3", OLD.without(END), CUT),
]
MUTATIONS = [Mutation(fault.rule, fault.says, fault.reply) for fault in FAULTS]
TAKEN: dict[str, tuple[Reply, str]] = {
    "version 0.3": (OLD, WHOLE),
    "version 1.0": (NEW, WHOLE),
    "a message in 0.3": (stream("0.3", old("message", **SAID)), "message"),
    "a message": (stream("1.0", new("message", **SAID)), "message"),
    "no kind": (with_(OLD, END, "kind"), WHOLE),
    "a question": (with_(NEW, END, *STATE, value="TASK_STATE_INPUT_REQUIRED"), WHOLE),
    "an error": (NEW.without(END).put(END, response(error=REFUSED)), "InvalidParamsError: no"),
    "a field that nobody knows": (with_(NEW, END, "statusUpdate", "x", value=1), WHOLE),
}
GOODS = {says: reply for says, (reply, _) in TAKEN.items()}
"""Replies that break no rule."""
