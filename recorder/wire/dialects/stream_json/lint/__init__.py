"""The rules of stream-json: a line for each message, the fields that clients read, and a result at
the end of a turn.

Must not know: other APIs, and where recordings come from.

The behaviour of claude-agent-sdk 0.2 for Python was measured; that of
`@anthropic-ai/claude-agent-sdk` 0.3 for TypeScript, which checks no field, was read in its source.
"""

from __future__ import annotations

from recorder.lint.rule import rules
from recorder.wire.dialects.stream_json.lint.lines import Lines

RULES = rules(
    """
SJ001 error
A line begins as an object, and is not JSON.
The SDK for Python raises CLIJSONDecodeError “Failed to decode JSON”, which ends the run for its program. Other lines
 both SDKs pass over.
anthropics/claude-agent-sdk-python, _internal/transport/subprocess_cli.py: _parse_stdout_line

SJ002 error
A line has no `type`, or one that is not a text.
The SDK for Python raises MessageParseError “Message missing 'type' field”, and drops a line whose type is not a text.
anthropics/claude-agent-sdk-python, _internal/message_parser.py: parse_message

SJ003 error
A field that clients read is missing, or has another type.
The SDK for Python raises MessageParseError “Missing required field”, which ends the run for its program, or hands the
 value on, at which a program that reads it stops. Of a request, it raises KeyError or answers with an error: a tool is
 not allowed.
anthropics/claude-agent-sdk-python, _internal/message_parser.py: parse_message; _internal/query.py

SJ004 warning
A line is of a type that no SDK knows.
The SDK for Python drops it, without a word; that for TypeScript hands it on.
anthropics/claude-agent-sdk-python, _internal/message_parser.py: parse_message

SJ005 error
A response is one to no request that waits: its id is another one, or it is the second.
The SDK for Python drops it; the request that it was meant for raises “Control request timeout” after a minute.
anthropics/claude-agent-sdk-python, _internal/query.py: _send_control_request

SJ006 error
The run ends within a turn, without its `result`.
The SDKs raise nothing if the exit code is 0: a program takes what came for all of it, and has no tokens and no cost.
anthropics/claude-agent-sdk-python, client.py: receive_response

SJ007 error
A result that is an error has no list `errors`.
The SDK for TypeScript stops with `TypeError`: it joins them. That for Python reads it.
@anthropic-ai/claude-agent-sdk, sdk.mjs: readMessages
""",
    Lines,
    "stream-json",
)
