"""A2A (Agent2Agent): messages between agents over JSON-RPC or REST, in version 1.0 and in 0.3.

`SendStreamingMessage` (`message/stream`) and `SubscribeToTask` (`tasks/resubscribe`) are answered
with server-sent events, each a response with the same id. Its result is a task, a message, or a
change of a task: of its status or of an artifact. In 1.0 a member says which, in 0.3 `kind`. The
path is the agent's own: the method says that it is A2A. Over REST (`message:stream`,
`tasks/ID:subscribe`) each event is a result alone, in both versions as in 1.0.

The type of an event is what its result is, and of a task or its status the state as well.
Must not know: other wire formats. Its binding to gRPC is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from recorder.model.events import Header
from recorder.wire.dialects.a2a.conversation import A2aConversation
from recorder.wire.dialects.a2a.decoder import ENDINGS, MEMBERS_OF, REST, A2aDecoder, state_of
from recorder.wire.dialects.dialect import (
    Dialect,
    Ending,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
)
from recorder.wire.dialects.dialect import paths as paths_below
from recorder.wire.dialects.json_rpc import MEMBERS, error_body, renumbering
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text

_METHOD = re.compile(
    rb'"method"\s*:\s*"(?:message/(?:send|stream)|tasks/(?:get|list|cancel|resubscribe|pushNotificationConfig/\w+)'
    rb"|agent/getAuthenticatedExtendedCard|(?:Send(?:Streaming)?Message|SubscribeToTask|(?:Get|List|Cancel)Tasks?"
    rb'|(?:Create|Get|List|Delete)TaskPushNotificationConfigs?|GetExtendedAgentCard))"'
)


class _Status(msgspec.Struct):
    state: Text | None = None


class _Of(Payload, rename="camel"):
    status: _Status | None = None


class _Result(_Of, rename="camel"):
    kind: Text | None = None
    task: _Of | None = None
    message: object = None
    status_update: _Of | None = None
    artifact_update: object = None


class _Response(_Result, rename="camel"):
    result: _Result | None = None


def _name(response: _Response) -> Named:
    if response.error:
        return ERROR, None, None, None
    result = response.result or response
    kind = result.kind
    of: _Of = result
    for name, member in (("task", result.task), ("status-update", result.status_update)):
        if member is not None:
            kind, of = name, member
    if kind is None:
        kind = (
            "message" if result.message else "artifact-update" if result.artifact_update else None
        )
    state = state_of(of.status.state if of.status else None)
    return f"{kind}.{state}" if kind and state else kind, None, None, None


def is_asked(headers: Sequence[Header], body: bytes) -> bool:
    """Return whether a request has a method of A2A, or its header.

    MCP has some of the same, and headers of its own.
    """
    given = [name.lower() for name, _ in headers]
    if any(name.startswith("mcp-") for name in given):
        return False
    return "a2a-version" in given or (b'"jsonrpc"' in body and _METHOD.search(body) is not None)


_TERMINAL: dict[str, Ending] = {"message": "completed", ERROR: "failed"}
for _state, _ending in ENDINGS.items():
    _TERMINAL |= {f"task.{_state}": _ending, f"status-update.{_state}": _ending}

_PLACES = ("", "result.")
_BELOW = {"of": (*_PLACES, *(f"{place}{member}." for place in _PLACES for member in MEMBERS_OF))}


def _request_noise(name: str, message: str, beside: str, fields: str) -> tuple[RequestNoise, ...]:
    """Return the ids in a message at this path, by the names of its members."""
    of_message, of_task, of_context, earlier = (f"{message}.{field}" for field in fields.split())
    return (
        RequestNoise("fields", f"{name}-message", of_message, "made anew for each message", beside),
        RequestNoise("fields", f"{name}-task", of_task, "names a task", beside),
        RequestNoise("fields", f"{name}-context", of_context, "names a conversation", beside),
        RequestNoise("fields", f"{name}-earlier", earlier, "names earlier tasks", beside),
    )


_IDS = "messageId taskId contextId referenceTaskIds"

DIALECT = Dialect(
    name="a2a",
    routes=REST,
    is_asked=is_asked,
    keys=KeyExtractor(_Response, _name),
    decoder=A2aDecoder,
    terminal=_TERMINAL,
    needs_terminal=True,
    is_of_app=True,
    profiles=("a2a",),
    error_body=error_body,
    error_event="error",  # over REST clients take no other event for one
    renumbering=renumbering,
    conversation=A2aConversation,
    fields=ResponseFields(
        texts=paths_below(
            "of>parts.*.text of>content.*.text of>artifact.parts.*.text"
            " of>status.message.parts.*.text of>status.message.content.*.text",
            **_BELOW,
        ),
        noise=noise_fields(
            """
id | id | made anew for each request
id | of>id of>taskId of>contextId of>messageId of>artifact.artifactId of>artifacts.*.artifactId
 | made anew for each task, message and artifact
id | of>status.message.messageId of>status.message.taskId of>status.message.contextId
 | the same of the message of a status
id | of>history.*.messageId of>history.*.taskId of>history.*.contextId | the same of earlier messages
time | of>status.timestamp | when a status began
""",
            **_BELOW,
        ),
    ),
    request_noise=(
        *_request_noise("a2a", "params.message", MEMBERS, _IDS),
        *_request_noise("a2a-rest", "message", "message", _IDS),
        *_request_noise(
            "a2a-python", "request", "request", "message_id task_id context_id reference_task_ids"
        ),
    ),
    places=RequestPlaces(of_model=paths_below("message.parts message.content request.content")),
    operation="invoke_agent",
)
