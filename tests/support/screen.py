"""Streams to the screen of an app: what an SDK for JavaScript makes of one, and what our rows say
of it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from recorder.projections.fold import Rows

Json = dict[str, Any]

UI_ASKED: Json = {
    "id": "chat-1",
    "messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "Roll."}]}],
    "trigger": "submit-message",
}
AG_UI_ASKED: Json = {
    "threadId": "t-1",
    "runId": "r-1",
    "state": {},
    "messages": [{"id": "m-1", "role": "user", "content": "Roll."}],
    "tools": [{"name": "roll", "description": "Roll dice.", "parameters": {"type": "object"}}],
    "context": [],
    "forwardedProps": {},
}


class ScreenReading(NamedTuple):
    """What a message has in the end."""

    text: str
    reasoning: str
    calls: list[list[Any]]  # a name and arguments
    results: list[list[Any]]  # the id of a call, and what it gave


def sse(*events: Json, done: bool = False) -> bytes:
    body = b"".join(
        b"data: %b\n\n" % json.dumps(event, ensure_ascii=False).encode() for event in events
    )
    return body + (b"data: [DONE]\n\n" if done else b"")


def read(rows: Rows) -> ScreenReading:
    """Return what the rows of a stream have."""

    def said(kind: str) -> str:
        return "".join(item.text or "" for item in rows["items"] if item.kind == kind)

    calls = [item for item in rows["items"] if item.kind == "tool_call"]
    return ScreenReading(
        said("message"),
        said("reasoning"),
        [[call.name, json.loads(call.arguments)] for call in calls],
        [[call.call_id, call.output] for call in calls if call.output is not None],
    )
