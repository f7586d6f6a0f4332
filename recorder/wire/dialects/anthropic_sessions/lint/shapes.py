"""The shapes of the events of Claude Managed Agents, as anthropic 2.11 declares them.

What an agent is made of, beside its model, is what its maker gave, and not judged.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

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
