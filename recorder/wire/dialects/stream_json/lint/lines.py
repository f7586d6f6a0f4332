"""The faults of the lines of a run: their form, the fields that clients read, what they answer, and
their end.
"""

from __future__ import annotations

from recorder.lint.faults import misfit, shown
from recorder.lint.rule import Faults
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
