"""The shapes of responses, items and parts, as openai-python 3.52 declares them.

What only echoes the request (`tools`, `tool_choice`, `instructions`, `text`, `prompt`) is not
judged, and `usage` has rules of its own. `status`, which the SDK may do without, is in every
response that OpenAI sends; the `action` of a web search and the `url` of its sources, which the SDK
declares as always there, are not.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
response: id!:text access_programs:access_programs created_at!:number error:error
 incomplete_details:incomplete_details metadata:object model!:text object!:text output!:[item]
 parallel_tool_calls!:truth temperature:number top_p:number background:truth completed_at:number
 conversation:conversation image:image input_transformations:[input_transformation] max_output_tokens:whole
 max_tool_calls:whole moderation:moderation previous_response_id:text prompt_cache_diagnostics:cache_diagnostics
 prompt_cache_key:text prompt_cache_options:prompt_cache_options prompt_cache_retention:text reasoning:reasoning
 safety_identifier:text service_tier:text status!:text text:text_config tool_usage:tool_usage top_logprobs:whole
 truncation:text user:text
access_programs: cyber!:text
error: code!:text message!:text misalignment:misalignment param:text type:text
misalignment: detailed_explanation:text error_type:text review_target:text steer:misalignment_steer
misalignment_steer: message!:text
incomplete_details: reason:text
item.message: id!:text content!:[part] role!:text status!:text phase:text
part.output_text: annotations!:[annotation] text!:text logprobs:[logprob]
annotation.file_citation: file_id!:text filename!:text index!:whole
annotation.url_citation: end_index!:whole start_index!:whole title!:text url!:text
annotation.container_file_citation: container_id!:text end_index!:whole file_id!:text filename!:text
 start_index!:whole
annotation.file_path: file_id!:text index!:whole
logprob: token!:text bytes!:[whole] logprob!:number top_logprobs!:[top_logprob]
top_logprob: token!:text bytes!:[whole] logprob!:number
part.refusal: refusal!:text
item.file_search_call: id!:text queries!:[text] status!:text results:[result]
result: attributes:object file_id:text filename:text score:number text:text
item.function_call: arguments!:text call_id!:text name!:text id:text async:truth caller:caller namespace:text
 status:text
caller.direct:
caller.program: caller_id!:text
item.function_call_output: id!:text output!:text|[input] status!:text call_id:text caller:caller created_by:text
 name:text namespace:text
input.input_text: text!:text prompt_cache_breakpoint:prompt_cache_breakpoint
prompt_cache_breakpoint: mode!:text ttl:text
input.input_image: detail!:text file_id:text image_url:text prompt_cache_breakpoint:prompt_cache_breakpoint
input.input_file: detail:text file_data:text file_id:text file_url:text filename:text
 prompt_cache_breakpoint:prompt_cache_breakpoint
item.web_search_call: id!:text action:web status!:text
web.search: queries:[text] query:text sources:[web_source]
web_source: type!:text url:text
web.open_page: url:text
web.find_in_page: pattern!:text url!:text
item.computer_call: id!:text call_id!:text pending_safety_checks!:[pending_safety_check] status!:text action:computer
 actions:[computer]
pending_safety_check: id!:text code:text message:text
computer.click: button!:text x!:whole y!:whole keys:[text]
computer.double_click: keys:[text] x!:whole y!:whole
computer.drag: path!:[point] keys:[text]
point: x!:whole y!:whole
computer.keypress: keys!:[text]
computer.move: x!:whole y!:whole keys:[text]
computer.screenshot,wait:
computer.scroll: scroll_x!:whole scroll_y!:whole x!:whole y!:whole keys:[text]
computer.type: text!:text
item.computer_call_output: id!:text call_id!:text output!:screenshot status!:text
 acknowledged_safety_checks:[acknowledged_safety_check] created_by:text
screenshot: type!:text file_id:text image_url:text
acknowledged_safety_check: id!:text code:text message:text
item.reasoning: id!:text summary!:[summary] content:[content] encrypted_content:text status:text
summary: text!:text type!:text
content: text!:text type!:text
item.program: id!:text call_id!:text code!:text fingerprint!:text
item.program_output: id!:text call_id!:text result!:text status!:text
item.tool_search_call: id!:text arguments!:any call_id:text execution!:text status!:text created_by:text
item.tool_search_output: id!:text call_id:text execution!:text status!:text created_by:text
item.additional_tools: id!:text role!:text
item.compaction: id!:text encrypted_content!:text created_by:text
item.image_generation_call: id!:text result:text status!:text action:text background:text
 error:image_error output_format:text quality:text revised_prompt:text size:text
 svg_usage:image_svg_usage
image_error: code:text message!:text param:text type!:text
 moderation_details:image_error_moderation_details
image_error_moderation_details: categories!:[text] moderation_stage!:text
image_svg_usage: input_tokens!:whole model!:text output_tokens!:whole reasoning_tokens!:whole
 total_tokens!:whole
item.code_interpreter_call: id!:text code:text container_id!:text outputs:[code_output] status!:text
code_output.logs: logs!:text
code_output.image: url!:text
item.local_shell_call: id!:text action!:local_shell_call_action call_id!:text status!:text
local_shell_call_action: command!:[text] env!:object type!:text timeout_ms:whole user:text working_directory:text
item.local_shell_call_output: id!:text output!:text status:text
item.shell_call: id!:text action!:action call_id!:text environment:environment status!:text caller:caller
 created_by:text
action: commands!:[text] max_output_length:whole timeout_ms:whole
environment.local:
environment.container_reference: container_id!:text
item.shell_call_output: id!:text call_id!:text max_output_length:whole output!:[output] status!:text caller:caller
 created_by:text
output: outcome!:outcome stderr!:text stdout!:text created_by:text
outcome.timeout:
outcome.exit: exit_code!:whole
item.apply_patch_call: id!:text call_id!:text operation!:patch status!:text caller:caller created_by:text
patch.create_file,update_file: diff!:text path!:text
patch.delete_file: path!:text
item.apply_patch_call_output: id!:text call_id!:text status!:text caller:caller created_by:text output:text
item.mcp_call: id!:text arguments!:text name!:text server_label!:text approval_request_id:text error:mcp_error
 output:text status:text
mcp_error.mcp_protocol_error,http_error: code!:whole message!:text
mcp_error.mcp_tool_execution_error: content!:any
item.mcp_list_tools: id!:text server_label!:text error:text
item.mcp_approval_request: id!:text arguments!:text name!:text server_label!:text
item.mcp_approval_response: id!:text approval_request_id!:text approve!:truth reason:text
item.custom_tool_call: call_id!:text input!:text name!:text id:text async:truth caller:caller namespace:text
item.custom_tool_call_output: call_id!:text output!:text|[input] id!:text caller:caller status!:text created_by:text
conversation: id!:text
image: context_compression!:text
input_transformation: id!:text action!:text reason!:text type!:text
moderation: input!:moderation_in output!:moderation_out
moderation_in.moderation_result: categories!:{truth} category_applied_input_types!:{[text]}
 category_scores!:{number} flagged!:truth model!:text
moderation_in.error: code!:text message!:text
moderation_out.moderation_result: categories!:{truth} category_applied_input_types!:{[text]}
 category_scores!:{number} flagged!:truth model!:text
moderation_out.error: code!:text message!:text
cache_diagnostics.cache_miss: cache_missed_tokens!:whole reason!:text comparison_reusable_tokens:whole
cache_diagnostics.cache_hit,comparison_response_not_found,unavailable:
prompt_cache_options: mode!:text ttl!:text comparison_response_id:text
reasoning: context:text effort:text generate_summary:text mode:text summary:text
text_config: format:format verbosity:text
format.text,json_object:
format.json_schema: name!:text schema!:object description:text strict:truth
tool_usage: image_gen!:tool_usage_image_gen web_search!:tool_usage_web_search
tool_usage_image_gen: input_tokens!:whole input_tokens_details!:image_input_tokens_details
 output_tokens!:whole total_tokens!:whole cached_tokens:whole
 cached_tokens_details:image_cached_tokens_details
 output_tokens_details:image_output_tokens_details
image_input_tokens_details: image_tokens!:whole text_tokens!:whole
image_cached_tokens_details: cached_image_tokens!:whole cached_text_tokens!:whole
image_output_tokens_details: image_tokens!:whole text_tokens!:whole
tool_usage_web_search: num_requests!:whole
part.reasoning_text: text!:text
""")
