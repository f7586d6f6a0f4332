"""The rules of MCP: messages of JSON-RPC, each request with one response, and what a client needs
of a result.

Must not know: other APIs, and where recordings come from.

The behaviour of the client of the package `mcp` 2.3 for Python was measured, over HTTP and over
stdio.
"""

from __future__ import annotations

from recorder.lint.rule import rules
from recorder.wire.dialects.mcp.lint.messages import Messages

RULES = rules(
    """
MC001 error
A message is not one of JSON-RPC 2.0, or several come in one.
The Python SDK cannot parse it: over HTTP the request fails with an error of its own (-32700), over stdio the message
 is dropped, and the request waits for its timeout.
modelcontextprotocol/python-sdk, mcp/client/streamable_http.py: _handle_sse_event; stdio.py: _parse_line

MC002 error
A response has a result and an error.
The Python SDK raises the error, and the result is lost.
JSON-RPC 2.0, 5 Response object; modelcontextprotocol/python-sdk, mcp_types: jsonrpc_message_adapter

MC003 error
A response is one to no request that waits: its id is another one, or it is the second.
The Python SDK drops it without a word: over stdio, the request that it was meant for waits for its timeout.
modelcontextprotocol/python-sdk, mcp/shared/jsonrpc_dispatcher.py: _resolve_pending

MC004 error
The answer to a POST ends without the response to its request, and without an id to resume from.
The Python SDK raises MCPError “SSE stream ended without a response”; what the server did is lost.
modelcontextprotocol/python-sdk, mcp/client/streamable_http.py: _handle_sse_response

MC005 error
An event has another name than `message`.
The Python SDK passes over it, with a warning in its log: what the event says is lost.
modelcontextprotocol/python-sdk, mcp/client/streamable_http.py: _handle_sse_event

MC006 error
A field of a result is missing, or has another type than its method declares.
The Python SDK raises ValidationError: of `initialize`, it does not connect; of `tools/list`, it has no tool at all.
modelcontextprotocol/python-sdk, mcp_types: InitializeResult, ListToolsResult, CallToolResult

MC007 error
The server answers `initialize` with a version of the protocol that is not one, or later than the client's.
The Python SDK raises RuntimeError “Unsupported protocol version from the server”, and does not connect.
Model Context Protocol, Lifecycle: Version Negotiation
""",
    Messages,
    "mcp",
)
