"""The shapes of the events of OpenAI's hosted agents, as openai 3.52 declares them.

What an agent and its environment are made of is what their maker gave, and not judged. What a tool
of MCP is given and returns, and its error, may be null, though they are declared as there.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
event.error: event_id!:text session_id!:text error!:error obfuscation:text
event.agent.session.created,agent.session.idle,agent.session.in_progress,agent.session.requires_action,
 agent.session.failed: event_id!:text session!:session obfuscation:text
event.agent.session.turn.created,agent.session.turn.in_progress: event_id!:text session_id!:text turn_id!:text
 turn!:turn obfuscation:text
event.agent.session.turn.completed,agent.session.turn.failed,agent.session.turn.cancelled: event_id!:text
 session_id!:text turn_id!:text turn!:turn usage:usage obfuscation:text
event.agent.session.turn.item.added: event_id!:text session_id!:text turn_id:text item!:item output_index:whole
 obfuscation:text
event.agent.session.turn.item.done: event_id!:text session_id!:text turn_id:text item!:item output_index!:whole
 obfuscation:text
event.agent.session.turn.content_part.added,agent.session.turn.content_part.done: event_id!:text session_id!:text
 turn_id:text item_id!:text output_index!:whole content_index!:whole part!:part obfuscation:text
event.agent.session.turn.output_text.delta: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole content_index!:whole delta!:text obfuscation:text
event.agent.session.turn.output_text.done: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole content_index!:whole text!:text obfuscation:text
event.agent.session.turn.reasoning_summary_part.added: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole part!:part obfuscation:text
event.agent.session.turn.reasoning_summary_part.done: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole part!:part status:text obfuscation:text
event.agent.session.turn.reasoning_summary_text.delta: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole delta!:text obfuscation:text
event.agent.session.turn.reasoning_summary_text.done: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole text!:text obfuscation:text
event.agent.output.command_execution_output.delta: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole delta!:text obfuscation:text
event.agent.session.subagent.created,agent.session.subagent.active,agent.session.subagent.closed: event_id!:text
 subagent!:subagent obfuscation:text
event.agent.session.environment.pending,agent.session.environment.ready,agent.session.environment.connected,
 agent.session.environment.disconnected,agent.session.environment.suspended,agent.session.environment.expired,
 agent.session.environment.failed: event_id!:text session_id!:text turn_id:text environment!:environment
 obfuscation:text
event.agent.session.environment.reset: event_id!:text session_id!:text turn_id:text environment_id!:text
 reset_count!:whole obfuscation:text
error: type!:text code:text message!:text param:text
session: id!:text object!:text status!:text agent!:agent created_at!:whole last_active_at!:whole metadata!:{text}
 required_actions!:[action] vault_ids!:[text] error:text usage:usage review:text
 prompt_cache_options:cache
agent: id!:text model!:text service_tier!:text name:text
cache: ttl!:text
turn: id!:text object!:text status!:text session_id!:text agent_id!:text subagent_id:text created_at!:whole
 started_at:whole completed_at:whole error:turn_error usage:usage prompt_cache_options:cache
turn_error: code!:text message!:text
usage: input_tokens!:whole input_tokens_details!:input_details output_tokens!:whole
 output_tokens_details!:output_details total_tokens!:whole
input_details: cached_tokens!:whole
output_details: reasoning_tokens!:whole
subagent: id!:text object!:text status!:text session_id!:text parent_agent_id!:text name:text opened_at!:whole
 closed_at:whole
environment: id!:text type!:text status!:text error:environment_error
environment_error: type!:text code!:text message!:text
part: type!:text text!:text
content.input_text,output_text: text!:text
content.input_image: image_url!:text
content.encrypted_content: encrypted_content!:text
item.message: id:text turn_id!:text role!:text status!:text content!:[content] phase:text
item.reasoning: id!:text turn_id!:text summary!:[part] status:text
item.function_call: id!:text turn_id!:text call_id!:text name!:text arguments!:any status!:text
item.function_call_output: id!:text turn_id!:text call_id!:text output:text|[content] error:text status!:text
item.agent_message: id!:text turn_id!:text content!:[content] sender_agent_id!:text recipient_agent_id!:text
item.mcp_call: id!:text turn_id!:text server_label!:text name!:text arguments:any output:any error:any status!:text
item.computer_use_call: id!:text turn_id!:text title:text output:screenshot status!:text
item.computer_use_approval_request: id!:text turn_id!:text request_id!:text request!:approval
item.computer_use_approval_request_result: id!:text turn_id!:text request_id!:text response!:approved
item.web_search_call: id!:text turn_id!:text action:search status!:text
item.command_execution: id!:text turn_id!:text command!:text cwd:text output:text exit_code:whole duration_ms:whole
 status!:text
item.create_subagent_call: id!:text turn_id!:text agent_id!:text content!:[content] model:text reasoning_effort:text
 status!:text
item.send_subagent_input_call: id!:text turn_id!:text content!:[content] sender_agent_id!:text
 recipient_agent_id!:text status!:text
item.resume_subagent_call,interrupt_subagent_call,close_subagent_call: id!:text turn_id!:text sender_agent_id!:text
 recipient_agent_id!:text status!:text
item.wait_for_subagents_call: id!:text turn_id!:text sender_agent_id!:text recipient_agent_ids!:[text] status!:text
screenshot: type!:text image_url!:text
search.search: query:text queries:[text]
search.open_page: url:text
search.find_in_page: pattern:text url:text
search.other:
approved.browser_authentication: action!:text
approval.browser_authentication: credential_origin:text reason:text fields!:[field] options!:[option]
approval.browser_origin_access: origin!:text reason:text
field: id!:text type!:text label!:text required!:truth
option: id!:text label!:text field_ids!:[text]
action.function_call: turn_id!:text call_id!:text name!:text arguments:any
action.mcp_approval_request: turn_id!:text request_id!:text request!:mcp_request
action.computer_use_approval_request: turn_id!:text request_id!:text request!:approval
action.environment_connection: environment_id!:text
mcp_request: type!:text server_label!:text name:text message!:text arguments:any
""")
