"""The rules of A2A: responses of JSON-RPC with one result each, its fields, and the end of a task.

Must not know: other APIs, and where recordings come from.

The behaviour of the client of the package `a2a-sdk` 1.3 for Python was measured, in versions 0.3 and 1.0.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.a2a.lint.responses import Responses

RULES = rules(
    """
A2001 error
An event is not a response of JSON-RPC with a result or an error.
The Python SDK ends the stream with A2AClientError, AttributeError or TypeError; one without either is in version 0.3
 passed over, and lost.
a2aproject/a2a-python, a2a/client/transports/jsonrpc.py: _check_jsonrpc_response

A2002 error
A result is not one of a task, a message, a status and an artifact.
The Python SDK passes over it: what it says is lost. Of several in one it raises ParseError.
A2A, StreamResponse; a2aproject/a2a-python, a2a/compat/v0_3/jsonrpc_transport.py

A2003 error
A field of a result is missing, or has another type than A2A declares.
The Python SDK ends the stream: ValidationError in version 0.3, ParseError in 1.0. A state that 1.0 does not know is
 read as none, so that a client waits for the end of a task which has ended.
A2A, Data Model; a2aproject/a2a-python, a2a/compat/v0_3/types.py, a2a/types/a2a_pb2.py

A2004 error
The stream ends before its task does, and without an error.
Clients raise nothing: they take what came for all of it.
A2A, Streaming and Asynchronous Operations
""",
    of_answer(Responses),
    "a2a",
)
