"""The rules of A2A: responses of JSON-RPC with one result each, its fields, and the end of a task.

Must not know: other APIs, and where recordings come from.

The behaviour of the clients of `a2a-sdk` 1.3 for Python and `@a2a-js/sdk` 1.3 for JavaScript was
measured, in versions 0.3 and 1.0, over JSON-RPC and REST.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.a2a.lint.responses import Responses

RULES = rules(
    """
A2001 error
An event is not a response of JSON-RPC with a result or an error; over REST it is not an object, or an unnamed error.
The Python SDK ends the stream with A2AClientError, AttributeError or TypeError; one without either is in version 0.3
 passed over, and lost. The one for JavaScript ends it with Error. Over REST both pass over it: an error must be an
 event of the name `error`.
a2aproject/a2a-python, a2a/client/transports/jsonrpc.py: _check_jsonrpc_response; a2aproject/a2a-js, rest_transport.ts

A2002 error
A result is not one of a task, a message, a status and an artifact.
The SDKs pass over it: what it says is lost. In version 0.3 the one for JavaScript ends the stream, and over REST both
 do. Of several in one Python's raises ParseError, and the other one loses all but the first.
A2A, StreamResponse; a2aproject/a2a-python, a2a/compat/v0_3/jsonrpc_transport.py

A2003 error
A field of a result is missing, or has another type than A2A declares.
The Python SDK ends the stream: ValidationError in version 0.3, ParseError in 1.0. The one for JavaScript ends it with
 RequestMalformedError where a `kind` or the parts are missing in 0.3. A state that 1.0 does not know is read as none,
 so that a client waits for the end of a task which has ended.
A2A, Data Model; a2aproject/a2a-python, a2a/compat/v0_3/types.py, a2a/types/a2a_pb2.py

A2004 error
The stream ends before its task does, and without an error.
Clients raise nothing: they take what came for all of it.
A2A, Streaming and Asynchronous Operations

A2005 error
A response has another id than its request.
The SDK for JavaScript ends the stream: `JSON-RPC response ID mismatch`. `1` and `"1"` are not the same.
JSON-RPC 2.0, section 5; a2aproject/a2a-js, src/client/transports/json_rpc_transport.ts
""",
    of_answer(Responses),
    "a2a",
)
