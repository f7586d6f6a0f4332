"""The rules of stream-json: a line for each message, the fields that clients read, and a result at
the end of a turn.

Must not know: other APIs, and where recordings come from.

The behaviour of claude-agent-sdk 0.2 for Python was measured; that of
`@anthropic-ai/claude-agent-sdk` 0.3 for TypeScript, which checks no field, was read in its source.
"""

from __future__ import annotations

from recorder.lint.faults import misfit, shown
from recorder.lint.rule import Faults, rules
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.events import CloseRecord
from recorder.wire.dialects.json_values import Object, names, object_, request_object, text
from recorder.wire.dialects.stream_json.decoder import KNOWN

SHAPES = Shapes("""\
user: message!:user_message
user_message: content!:[block]|text
assistant: message!:assistant_message error:text
assistant_message: content!:[block] model!:text usage:object id:text stop_reason:text
block.text: text!:text
block.thinking: thinking!:text signature!:text
block.tool_use,server_tool_use: id!:text name!:text input!:object
block.tool_result: tool_use_id!:text is_error:truth
block.advisor_tool_result: tool_use_id!:text content!:any
system: subtype!:text
system/task_started: task_id!:text description!:text uuid!:text session_id!:text
system/task_progress: task_id!:text description!:text usage!:object uuid!:text session_id!:text
system/task_notification: task_id!:text status!:text output_file!:text summary!:text uuid!:text session_id!:text
result: subtype!:text duration_ms!:number duration_api_ms!:number is_error!:truth num_turns!:whole session_id!:text
 stop_reason:text total_cost_usd:number usage:object modelUsage:object result:text errors:[text]
 deferred_tool_use:deferred
deferred: id!:text name!:text input!:object
stream_event: event!:object uuid!:text session_id!:text
rate_limit_event: rate_limit_info!:rate_limit uuid!:text session_id!:text
rate_limit: status!:text
conversation_reset: new_conversation_id!:text uuid!:text session_id!:text
control_request: request_id!:text request!:asked
asked: subtype!:text
control_request/can_use_tool: tool_name!:text input!:object
control_request/hook_callback: callback_id!:text
control_request/mcp_message: server_name!:text message!:object
control_response: response!:response
response: request_id!:text
transcript_mirror: filePath!:text entries!:[object]
""")
"""The lines that claude-agent-sdk 0.2 reads; those behind a stroke have a subtype, and a request
its own members.
"""

_OTHERS = names("active_goal autocompact_state")
"""Types that are known to the SDK for TypeScript alone, as some that the decoder knows."""


class Lines:
    """Follows the lines of one run."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        sent = [request_object(each.raw) for each in stream.recording.sent]
        self._waiting = {
            text(line, "request_id") for line in sent if line.get("type") == "control_request"
        }
        self._has_begun = False  # a turn that has no result yet

    def feed(self, block: StreamBlock) -> Faults:
        line = (block.data or b"").strip()
        if not line.startswith(b"{"):
            return  # a line of a log, which clients pass over
        if not isinstance(block.payload, dict):
            yield "SJ001", block.pos, line[:60].decode("utf-8", "replace")
            return
        type = text(block.payload, "type")
        if not type:
            yield "SJ002", block.pos, shown(block.payload)
        elif type not in KNOWN and type not in _OTHERS:
            yield "SJ004", block.pos, shown(type)
        else:
            yield from self._line(block.pos, type, block.payload)

    def end(self) -> Faults:
        """Yield that the run ends without a result, if its client had not left it."""
        end = self._stream.end
        is_left = end is None or (isinstance(end.close, CloseRecord) and end.close.by == "client")
        if self._has_begun and not is_left and self._stream.is_seen_whole:
            yield "SJ006", None, ""

    def _line(self, pos: int, type: str, line: Object) -> Faults:
        holder = object_(line, "request") if type == "control_request" else line
        shapes = [(type, line), (f"{type}/{text(holder, 'subtype')}", holder)]
        for name, value in shapes:
            for each in SHAPES.misfits(value, name) if name in SHAPES.by_name else ():
                yield "SJ003", pos, misfit(each)
        if type in ("assistant", "stream_event"):
            self._has_begun = True
        elif type == "result":
            self._has_begun = False
            yield from _errors(pos, line)
        elif type == "control_response":
            yield from self._response(pos, text(line, "response", "request_id"))

    def _response(self, pos: int, id: str | None) -> Faults:
        if id is not None and id not in self._waiting:
            yield "SJ005", pos, f"id {shown(id)}"
        self._waiting.discard(id)


def _errors(pos: int, line: Object) -> Faults:
    is_failed = line.get("is_error") is True and line.get("subtype") != "success"
    if is_failed and not isinstance(line.get("errors"), list):
        yield "SJ007", pos, shown(line.get("subtype"))


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
