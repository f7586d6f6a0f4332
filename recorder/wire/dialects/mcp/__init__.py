"""The Model Context Protocol: JSON-RPC messages over streamable HTTP, or line by line between a
client and its server.

A POST is one message of the client. What answers it is a JSON document, or server-sent events of
which the last is the response; a GET is a stream of what the server says unasked. The path is the
server's own, often `/mcp`: headers that only MCP has say it elsewhere, and of the first request,
which has none of them, what it accepts and its body.

In the transport of 2024 a GET of `/sse` is the stream of all answers. Its first event is the target
of the POSTs, whose path, often `/messages`, means something else in another format, and the
response to `initialize` says what it is.

A row has the method as its type, or `result` or `error`, and the id of the message as its item.
Must not know: other wire formats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recorder.model.events import Header, header
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
)
from recorder.wire.dialects.json_rpc import LINES, MEMBERS, error_body, renumbering
from recorder.wire.dialects.json_values import Object, text
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.mcp.decoder import RESULT, McpDecoder

_HEADERS = ("mcp-session-id", "mcp-protocol-version")
_ACCEPTED = ("application/json", "text/event-stream")
"""A client of streamable HTTP accepts both, and says so in each POST."""


class _Message(Payload):
    method: Text | None = None
    id: Text | Whole | None = None


def _name(message: _Message) -> Named:
    id = None if message.id is None else str(message.id)
    type = message.method or (ERROR if message.error else None)
    return type or (RESULT if id is not None else None), None, id, None


def is_asked(headers: Sequence[Header], body: bytes) -> bool:
    """Return whether a request is one of MCP, whatever its path."""
    if any(header(headers, name) for name in _HEADERS):
        return True
    accepted = header(headers, "accept")
    return b'"jsonrpc"' in body and all(each in accepted for each in _ACCEPTED)


def speaks(payload: Object) -> bool:
    """Return whether a payload is the response to `initialize`: with it a stream of the transport
    of 2024 begins.
    """
    return "jsonrpc" in payload and text(payload, "result", "protocolVersion") is not None


DIALECT = Dialect(
    name="mcp",
    session_headers=frozenset({"mcp-session-id"}),
    harmless_headers="mcp-(?:protocol-version|method|name)",
    routes=re.compile(r"^\S+ /(?:.*/)?mcp/?$"),
    is_asked=is_asked,
    told_targets=re.compile(r"^POST /(?:.*/)?messages?/?\?(?:.*&)?session_?[iI]d="),
    telling=re.compile(r"^GET /(?:.*/)?sse$"),
    speaks=speaks,
    keys=KeyExtractor(_Message, _name),
    decoder=McpDecoder,
    terminal={RESULT: "completed", ERROR: "failed"},
    needs_terminal=True,
    endless=re.compile(r"^GET "),
    profiles=("mcp",),
    # an event without data is one to resume from, a line that is not JSON a log's
    own_rules=frozenset({"ST002"}),
    error_body=error_body,
    renumbering=renumbering,
    program=LINES,  # the last in the table: of whatever else is JSON-RPC, the first line says it
    fields=ResponseFields(
        texts=("result.content.*.text", "params.message"),
        noise=noise_fields("""
id | id | made anew for each request
id | params.progressToken | of one request
"""),
    ),
    request_noise=(
        RequestNoise("fields", "mcp-id", "id", "made anew for each request", MEMBERS),
        RequestNoise(
            "fields", "mcp-meta", "params._meta", "what a client says beside a request", MEMBERS
        ),
        RequestNoise(
            "fields", "mcp-client", "params.clientInfo", "the version of a client", MEMBERS
        ),
        RequestNoise("fields", "mcp-cancelled", "params.requestId", "names a request", MEMBERS),
    ),
    # which are ids, and no secrets
    places=RequestPlaces(of_model=("_meta.progressToken", "params.progressToken")),
    operation="execute_tool",
)
