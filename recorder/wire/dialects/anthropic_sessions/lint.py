"""The rules of Claude Managed Agents: events by type, each whole, and messages that are shown in
pieces before.

Must not know: other APIs, and where recordings come from.

The behaviour of anthropic-sdk-python 2.11 was read in its source and measured; that of the SDK for
TypeScript was read. Neither checks an event, but gives it the class of its type: a program that
reads the members of that fails where one is missing. `accumulate_managed_agents_event` is the
helper of the one for Python that puts a message together.
"""

from __future__ import annotations

from recorder.lint.faults import is_whole_number, of_answer, shown
from recorder.lint.hosted import SessionWalk
from recorder.lint.rule import Faults, rules
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.anthropic_sessions.decoder import AT_REST, DELETED, MESSAGE, RUNNING
from recorder.wire.dialects.json_values import Object, member, objects, text

# The shapes of the events, as anthropic 2.11 declares them. What an agent is made of, beside its
# model, is what its maker gave, and not judged.
SHAPES = Shapes("""\
event.user.message,system.message: id!:text content!:[content] processed_at:time
event.user.interrupt: id!:text processed_at:time session_thread_id:text
event.user.tool_confirmation: id!:text tool_use_id!:text result!:text deny_message:text processed_at:time
 session_thread_id:text
event.user.custom_tool_result: id!:text custom_tool_use_id!:text content:[content] is_error:truth processed_at:time
 session_thread_id:text
event.user.tool_result: id!:text tool_use_id!:text content:[content] is_error:truth processed_at:time
 session_thread_id:text
event.user.define_outcome: id!:text outcome_id!:text description!:text rubric!:rubric max_iterations:whole
 processed_at!:time
event.agent.message: id!:text content!:[content] processed_at!:time
event.agent.thinking,agent.thread_context_compacted,session.status_rescheduled,session.status_running,
 session.status_terminated,session.deleted,span.model_request_start: id!:text processed_at!:time
event.agent.tool_use: id!:text name!:text input!:object evaluated_permission:text evaluation:evaluation
 processed_at!:time session_thread_id:text
event.agent.mcp_tool_use: id!:text name!:text input!:object mcp_server_name!:text evaluated_permission:text
 evaluation:evaluation processed_at!:time session_thread_id:text
event.agent.custom_tool_use: id!:text name!:text input!:object processed_at!:time session_thread_id:text
event.agent.tool_result: id!:text tool_use_id!:text content:[content] is_error:truth processed_at!:time
event.agent.mcp_tool_result: id!:text mcp_tool_use_id!:text content:[content] is_error:truth processed_at!:time
event.agent.thread_message_sent: id!:text content!:[content] to_session_thread_id!:text to_agent_name:text
 processed_at!:time
event.agent.thread_message_received: id!:text content!:[content] from_session_thread_id!:text from_agent_name:text
 processed_at!:time
event.session.error: id!:text error!:error processed_at!:time
event.session.status_idle: id!:text stop_reason!:stop_reason stop_details:stop_details processed_at!:time
event.session.thread_created: id!:text session_thread_id!:text agent_name!:text workflow_run_id:text
 processed_at!:time
event.session.thread_status_running,session.thread_status_rescheduled,session.thread_status_terminated: id!:text
 session_thread_id!:text agent_name!:text processed_at!:time
event.session.thread_status_idle: id!:text session_thread_id!:text agent_name!:text stop_reason!:stop_reason
 stop_details:stop_details processed_at!:time
event.session.updated: id!:text agent:agent budget:budget metadata:{text} title:text processed_at!:time
event.session.usage: id!:text usage!:snapshot budget:budget processed_at!:time
event.span.model_request_end: id!:text model_request_start_id!:text model_usage!:usage is_error:truth
 processed_at!:time
event.span.outcome_evaluation_start,span.outcome_evaluation_ongoing: id!:text outcome_id!:text iteration!:whole
 processed_at!:time
event.span.outcome_evaluation_end: id!:text outcome_id!:text outcome_evaluation_start_id!:text iteration!:whole
 result!:text explanation!:text usage!:usage processed_at!:time
event.workflow_run.created: id!:text workflow_run_id!:text name!:text description:text phases!:[phase]
 processed_at!:time
event.workflow_run.status_running,workflow_run.status_idle: id!:text workflow_run_id!:text processed_at!:time
event.workflow_run.status_ended: id!:text workflow_run_id!:text result!:result processed_at!:time
event.workflow_run.error: id!:text workflow_run_id:text error!:run_error processed_at!:time
event.workflow_run.phase_started: id!:text workflow_run_id!:text workflow_run_phase_id!:text processed_at!:time
event.workflow_run.phase_ended: id!:text workflow_run_id!:text workflow_run_phase_id!:text phase_started_id!:text
 processed_at!:time
event.event_start: event!:preview
event.event_delta: event_id!:text delta!:delta
preview.agent.message,agent.thinking: id!:text
delta: type!:text index:whole content!:text_block
text_block: type!:text text!:text
content.text: text!:text
content.image: source!:source
content.document: source!:source context:text title:text
content.search_result: source!:text title!:text citations!:citations content!:[text_block]
content.redacted:
citations: enabled!:truth
source.base64,text: data!:text media_type!:text
source.url: url!:text
source.file: file_id!:text
rubric.file: file_id!:text
rubric.text: content!:text
evaluation.always_allow,always_ask:
evaluation.auto: evaluated_permission!:evaluated_permission
evaluated_permission.allow:
evaluated_permission.ask,deny: reason_code!:text
stop_reason.end_turn,retries_exhausted,budget_reached,refusal:
stop_reason.requires_action: event_ids!:[text]
stop_details: type!:text category:text explanation:text
error.unknown_error,model_overloaded_error,model_rate_limited_error,model_request_failed_error,billing_error,
 tool_use_limit_reached_error,compaction_limit_reached_error: message!:text retry_status!:retry_status
error.mcp_connection_failed_error,mcp_authentication_failed_error: message!:text retry_status!:retry_status
 mcp_server_name!:text
error.credential_host_unreachable_error: message!:text retry_status!:retry_status credential_id!:text vault_id!:text
error.repository_authentication_error,repository_forbidden_error,repository_not_found_error,
 repository_checkout_error,repository_clone_error: message!:text retry_status!:retry_status repository_url:text
retry_status.retrying,exhausted,terminal:
result.completed,stopped:
result.error: error!:run_error
run_error.timeout_error,program_error,thread_limit_error,max_workflow_runs_error,unknown_error: message!:text
phase: id!:text name!:text description:text
usage: input_tokens!:whole output_tokens!:whole cache_read_input_tokens!:whole cache_creation_input_tokens!:whole
 speed:text
snapshot: input_tokens:whole output_tokens:whole cache_read_input_tokens:whole cache_creation:cache_creation
 active_seconds:number list_cost:amount server_tool_use:server_tool_use
cache_creation: ephemeral_1h_input_tokens:whole ephemeral_5m_input_tokens:whole
server_tool_use: web_fetch_requests:whole web_search_requests:whole
budget: type!:text max_list_cost!:amount
amount: amount!:text currency!:text
agent: type!:text id!:text name!:text version!:whole model!:model description:text system:text
model: id!:text effort:effort inference_geo:text speed:text
effort.low,medium,high,xhigh,max:
""")


class Session(SessionWalk):
    """Follows the events of one session, or of one thread of it."""

    NO_EVENT, UNKNOWN, MISFIT, NO_REST = "AS002", "AS003", "AS004", "AS008"
    shapes, at_rest, running = SHAPES, AT_REST | {DELETED}, RUNNING

    def __init__(self, stream: StreamView) -> None:
        super().__init__(stream)
        self._preview: str | None = None  # the message of which pieces come
        self._shown: list[str] = []  # its texts so far

    def named(self, block: StreamBlock, type: str) -> Faults:
        if block.kind == "frame" and block.name != type:
            yield "AS001", block.pos, f"event: {(block.name or '')[:60]}, type {shown(type)}"

    def event(self, pos: int, type: str, event: Object) -> Faults:
        if type == "event_start" and text(event, "event", "type") == MESSAGE:
            self._preview, self._shown = text(event, "event", "id"), []
        elif type == "event_delta":
            yield from self._delta(pos, event)
        elif type == MESSAGE and text(event, "id") == self._preview:
            self._preview = None
            yield from self._whole(pos, event)

    def _delta(self, pos: int, event: Object) -> Faults:
        """Add a piece to the message that began last: the SDK has only one."""
        id, index = text(event, "event_id"), member(event, "delta", "index")
        index = 0 if index is None else index
        if id is None or not is_whole_number(index):
            return  # which its shape says
        if id != self._preview:
            yield "AS005", pos, f"event_id {shown(id)}"
        elif not 0 <= index <= len(self._shown):
            yield "AS006", pos, f"index {index} of {len(self._shown)}"
        else:
            self._shown += [""] if index == len(self._shown) else []
            self._shown[index] += text(event, "delta", "content", "text") or ""

    def _whole(self, pos: int, event: Object) -> Faults:
        parts = objects(event, "content")
        for number, pieces in enumerate(self._shown):
            said = text(parts[number], "text") if number < len(parts) else ""
            if said is not None and not said.startswith(pieces):
                yield "AS007", pos, f"content {number} does not begin with {shown(pieces)}"


RULES = rules(
    """
AS001 error
An event has no `event:` line, or one that is not its `type`.
The SDK for TypeScript hands on only events whose line is a type that it knows; the one for Python
 ignores an event without a line, and takes `ping` and `error` for those.
anthropic-sdk-typescript, src/core/streaming.ts; anthropic-sdk-python, src/anthropic/_streaming.py

AS002 error
The payload of an event is not an object with a text `type`.
The SDK for Python makes a user's message of it, without a type, and of an array a list: a program
 that chooses by the type loses the event, or stops with `AttributeError: 'list' object has no
 attribute 'type'`.
Claude API reference, Managed Agents: session events; anthropic-sdk-python,
 src/anthropic/_models.py: construct_type

AS003 warning
An event is of a type that the API does not have.
The SDK for Python makes a user's message of it, with that type, and the one for TypeScript leaves it
 out: programs ignore it.
Claude API reference, Managed Agents: session events; anthropic-sdk-typescript,
 src/core/streaming.ts

AS004 error
A field of an event is missing, or has another type than the API declares.
The SDK for Python hands it on unchecked: a program that adds up texts or tokens stops with
 `AttributeError` or `TypeError`, one that answers a call by its id gets no further.
Claude API reference, Managed Agents: session events; anthropic-sdk-python,
 src/anthropic/types/beta/sessions

AS005 error
A delta is of a message that has not begun, or that is whole already.
The helper of the SDK for Python raises `AnthropicError: event_delta for … received before its
 event_start`, or adds the text to another message.
anthropic-sdk-python, src/anthropic/lib/sessions/_accumulate.py

AS006 error
The index of a delta is neither that of a part of the message, nor the next one.
The helper of the SDK for Python raises `AnthropicError: event_delta index … is beyond the end of
 content`.
anthropic-sdk-python, src/anthropic/lib/sessions/_accumulate.py

AS007 warning
A message does not begin with the pieces that were shown of it.
Clients that show the pieces show another text than the one that counts.
anthropic-sdk-python, src/anthropic/types/beta/beta_managed_agents_delta_event.py

AS008 warning
The stream ends while the session runs, without an error.
A program that reads up to `session.status_idle` takes half a turn for a whole one, unless it asks
 for the stream again.
Claude API reference, Managed Agents: session status
""",
    of_answer(Session),
    "anthropic-sessions",
)
