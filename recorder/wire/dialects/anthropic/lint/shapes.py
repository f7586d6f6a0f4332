"""The shapes of the events of Anthropic Messages, as anthropic 2.11 declares them.

Two fields may be missing here and not there, as Anthropic itself left them out: `signature` of a
block that begins, and `web_fetch_requests`.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
event.message_start: message!:message
message: id!:text container:container content!:[block] diagnostics:diagnostics model!:text role!:text
 stop_details:stop_details stop_reason:text stop_sequence:text type!:text usage!:usage
container: id!:text expires_at!:text skills:[container_skill]
container_skill: skill_id!:text type!:text version!:text
block.text: citations:[citation] text!:text
citation.char_location: cited_text!:text document_index!:whole document_title:text end_char_index!:whole file_id:text
 start_char_index!:whole
citation.page_location: cited_text!:text document_index!:whole document_title:text end_page_number!:whole file_id:text
 start_page_number!:whole
citation.content_block_location: cited_text!:text document_index!:whole document_title:text end_block_index!:whole
 file_id:text start_block_index!:whole
citation.web_search_result_location: cited_text!:text encrypted_index!:text title:text url!:text
citation.search_result_location: cited_text!:text end_block_index!:whole search_result_index!:whole source!:text
 start_block_index!:whole title:text
block.thinking: signature:text thinking!:text
block.redacted_thinking: data!:text
block.tool_use: id!:text caller:caller input!:object name!:text toolset_name:text
caller.direct:
caller.code_execution_20250825,code_execution_20260120: tool_id!:text
block.server_tool_use: id!:text caller:caller input!:object name!:text
block.web_search_tool_result: caller:caller content!:web_search_error|[web_search_result_block]
 tool_use_id!:text
web_search_error: error_code!:text type!:text
web_search_result_block: encrypted_content!:text page_age:text title!:text type!:text url!:text
block.web_fetch_tool_result: caller:caller content!:web_fetch tool_use_id!:text
web_fetch.web_fetch_tool_result_error: error_code!:text
web_fetch.web_fetch_result: content!:document_block retrieved_at:text url!:text
document_block: citations:citations_config source!:source title:text type!:text
citations_config: enabled!:truth
source.base64,text: data!:text media_type!:text
block.code_execution_tool_result: content!:code_result tool_use_id!:text
code_result.code_execution_tool_result_error: error_code!:text
code_result.code_execution_result: content!:[code_output] return_code!:whole stderr!:text stdout!:text
code_output: file_id!:text type!:text
code_result.encrypted_code_execution_result: content!:[code_output] encrypted_stdout!:text
 return_code!:whole stderr!:text
block.bash_code_execution_tool_result: content!:bash_result tool_use_id!:text
bash_result.bash_code_execution_tool_result_error: error_code!:text
bash_result.bash_code_execution_result: content!:[bash_output] return_code!:whole stderr!:text
 stdout!:text
bash_output: file_id!:text type!:text
block.text_editor_code_execution_tool_result: content!:editor_result tool_use_id!:text
editor_result.text_editor_code_execution_tool_result_error: error_code!:text error_message:text
editor_result.text_editor_code_execution_view_result: content!:text file_type!:text num_lines:whole start_line:whole
 total_lines:whole
editor_result.text_editor_code_execution_create_result: is_file_update!:truth
editor_result.text_editor_code_execution_str_replace_result: lines:[text] new_lines:whole new_start:whole
 old_lines:whole old_start:whole
block.tool_search_tool_result: content!:tool_search tool_use_id!:text
tool_search.tool_search_tool_result_error: error_code!:text error_message:text
tool_search.tool_search_tool_search_result: tool_references!:[tool_reference_block]
tool_reference_block: tool_name!:text type!:text
block.container_upload: file_id!:text
diagnostics: cache_miss_reason:cache_miss
cache_miss.model_changed,system_changed,tools_changed,messages_changed: cache_missed_input_tokens!:whole
cache_miss.previous_message_not_found,unavailable:
stop_details: category:text explanation:text type!:text
usage: cache_creation:cache_creation cache_creation_input_tokens:whole cache_read_input_tokens:whole
 inference_geo:text input_tokens!:whole output_tokens!:whole output_tokens_details:output_tokens_details
 server_tool_use:server_tool_usage service_tier:text speed:text
cache_creation: ephemeral_1h_input_tokens!:whole ephemeral_5m_input_tokens!:whole
output_tokens_details: thinking_tokens!:whole
server_tool_usage: web_fetch_requests:whole web_search_requests!:whole
event.message_delta: delta!:ending usage!:total_usage
ending: container:container stop_details:stop_details stop_reason:text stop_sequence:text
total_usage: cache_creation_input_tokens:whole cache_read_input_tokens:whole input_tokens:whole
 output_tokens!:whole output_tokens_details:output_tokens_details server_tool_use:server_tool_usage
event.message_stop:
event.content_block_start: content_block!:block index!:whole
event.content_block_delta: delta!:delta index!:whole
delta.text_delta: text!:text
delta.input_json_delta: partial_json!:text
delta.citations_delta: citation!:citation
delta.thinking_delta: thinking!:text
delta.signature_delta: signature!:text
event.content_block_stop: index!:whole
""")
