"""The rules of ACP: messages of JSON-RPC, each request with one response, and what a client needs
of an agent.

Must not know: other APIs, and where recordings come from.

The behaviour of the client of `agent-client-protocol` 0.12 for Python was measured; that of
`@agentclientprotocol/sdk` 2.4 for TypeScript was read in its source: its types are the same.
"""

from __future__ import annotations

from recorder.lint.rule import rules
from recorder.wire.dialects.acp.lint.lines import Lines

RULES = rules(
    """
AC001 error
A line is not a message of JSON-RPC 2.0.
The SDK for TypeScript drops it, and answers with an error (-32700 or -32600). That for Python passes over what is not
 JSON; an array, or an id that is one, ends its connection: each request raises ConnectionError “Connection closed”.
 A request whose error is a text waits for ever.
agentclientprotocol/typescript-sdk, src/core/jsonrpc.ts: isResponseMessage; python-sdk, acp/connection.py:
 _receive_loop

AC002 error
A response is one to no request that waits: its id is another one, or it is the second.
The SDKs drop it without a word, and the request that it was meant for waits for ever. `1` and `"1"` are not the same.
agentclientprotocol/python-sdk, acp/connection.py: _handle_response

AC003 error
A field of a result is missing, or has another value than its method declares.
The SDK for Python raises ValidationError. Of what the protocol lets be wrong, as `usage` or a `modes` that cannot be
 read, or one of its options, it and that for TypeScript hand on nothing, without a word.
agentclientprotocol/python-sdk, acp/schema.py; agentclientprotocol/typescript-sdk, src/core/schema-deserialize.ts

AC004 error
A field of an update is missing, or has another value than ACP declares.
The SDKs drop the update, with an error in their log: text that the user never sees. Of what the protocol lets be wrong,
 as the `status` of a call, they hand on nothing, without a word.
agentclientprotocol/python-sdk, acp/connection.py: _run_notification; acp/schema.py: SessionNotification

AC005 error
A field of a request to the client is missing, or has another value than ACP declares.
The SDKs refuse it with “Invalid params” (-32602): no user is asked for a permission, and no file is read.
agentclientprotocol/python-sdk, acp/connection.py: _execute_request

AC006 warning
An update is of a kind, or a request of a method, that ACP does not have.
The SDKs drop such an update, with an error in their log, and refuse such a request with “Method not found” (-32601).
 What begins with `_` is an extension.
agentclientprotocol/python-sdk, acp/router.py: MessageRouter; acp/schema.py: SessionNotification

AC007 error
The agent ends before it has answered a request.
The request of the SDK for Python raises ConnectionError “Connection closed”.
agentclientprotocol/python-sdk, acp/connection.py: _disconnect
""",
    Lines,
    "acp",
)
