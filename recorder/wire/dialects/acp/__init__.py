"""The Agent Client Protocol: JSON-RPC line by line between an editor and the agent that it starts.

A row has the method as its type, or the kind of a `session/update`, or `result` or `error`; its
item is the id of the message or of the call of a tool. Must not know: other wire formats.

Written after version 1 of the schema of `@agentclientprotocol/sdk` 2.4, and compared with what
`agent-client-protocol` 0.12 for Python reads of the lines of
`@agentclientprotocol/claude-agent-acp` 0.49.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.acp.decoder import AcpDecoder
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_rpc import LINES, error_body, renumbering
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole


class _Update(msgspec.Struct, rename="camel"):
    session_update: Text | None = None
    tool_call_id: Text | None = None
    message_id: Text | None = None


class _Params(msgspec.Struct):
    update: _Update | None = None


class _Message(Payload):
    method: Text | None = None
    id: Text | Whole | None = None
    params: _Params | None = None


def _name(message: _Message) -> Named:
    update = message.params.update if message.params else None
    if update is not None:
        return (
            update.session_update or message.method,
            None,
            update.tool_call_id or update.message_id,
            None,
        )
    id = None if message.id is None else str(message.id)
    type = message.method or (ERROR if message.error else None)
    return type or ("result" if id is not None else None), None, id, None


_VERSION = re.compile(rb'"protocolVersion"\s*:\s*\d')
"""Of `initialize`, with which a client begins. That of MCP is a text."""

_UPDATE = ("params.update.",)

DIALECT = Dialect(
    name="acp",
    routes=re.compile(r"(?!)"),  # no path
    keys=KeyExtractor(_Message, _name),
    decoder=AcpDecoder,
    terminal={},
    needs_terminal=False,
    whole_reasons=frozenset({"end_turn"}),
    profiles=("acp",),
    own_rules=frozenset({"ST002"}),  # a line that is not JSON is one of a log
    error_body=error_body,
    renumbering=renumbering,
    program=msgspec.structs.replace(
        LINES,
        media_type="application/json-rpc; protocol=acp",
        begins=lambda first: b'"jsonrpc"' in first and _VERSION.search(first) is not None,
    ),
    fields=ResponseFields(
        pieces=paths("update>content.text", update=_UPDATE),
        texts=paths(
            "update>content.text update>title update>rawInput update>rawOutput", update=_UPDATE
        ),
        usage=("result.usage",),
        noise=noise_fields(
            """
id | id | made anew for each request
id | params.sessionId result.sessionId | made anew for each session
id | update>messageId | made anew for each message
id | update>toolCallId params.toolCall.toolCallId | made anew for each call
time | update>updatedAt | when a session was used
""",
            update=_UPDATE,
        ),
    ),
    places=RequestPlaces(of_model=("params.prompt", "params.update")),
    is_of_app=True,
    operation="invoke_agent",
)
