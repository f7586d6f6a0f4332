"""The shapes of the events of Interactions, as google-genai 3.6 declares them; those that begin
with `on_` are events.

Looser than it where it takes `null` for a status, stricter where a program that reads a delta by
its type fails without its content.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
on_created: interaction!:interaction event_id:text
on_completed: interaction!:interaction event_id:text
on_status_update: interaction_id!:text status:text continuation_token:text event_id:text usage:usage
on_start: index!:integer step!:step event_id:text
on_delta: index!:integer delta!:delta event_id:text metadata:metadata
on_stop: index!:integer event_id:text step_usage:usage usage:usage
on_error: error!:error event_id:text
on_live: interaction_id:text created:text updated:text status:rpc_status usage:usage event_id:text
interaction: id!:text status:text agent:text continuation_token:text created:text model:text object:text
 service_tier:text steps:[step] updated:text usage:usage
error: code:text message:text
metadata: total_usage:usage
usage: total_cached_tokens:integer total_input_tokens:integer total_output_tokens:integer total_thought_tokens:integer
 total_tokens:integer total_tool_use_tokens:integer initial_input_tokens:integer
 cached_tokens_by_modality:[modality_tokens] input_tokens_by_modality:[modality_tokens]
 output_tokens_by_modality:[modality_tokens] tool_use_tokens_by_modality:[modality_tokens]
 grounding_tool_count:[tool_count]
modality_tokens: modality:text tokens:integer
tool_count: type:text count:integer
step.user_input: content:[content]
step.model_output: content:[content] error:rpc_status
rpc_status: code:integer details:[object] message:text
step.thought: signature:text summary:[content]
step.function_call: arguments!:object id!:text name!:text
step.function_result: call_id!:text result!:object|[content]|text is_error:truth name:text
step.mcp_server_tool_call: arguments!:object id!:text name!:text server_name!:text
step.mcp_server_tool_result: call_id!:text result!:object|[content]|text name:text server_name:text
step.code_execution_call: arguments!:code id!:text signature:text
step.code_execution_result: call_id!:text result!:[content]|text is_error:truth signature:text
step.file_search_call,processing_call: id!:text signature:text
step.file_search_result,processing_result: call_id!:text signature:text
step.google_maps_call: id!:text arguments:queries signature:text
step.google_maps_result: call_id!:text result!:[maps_result] signature:text
step.google_search_call: arguments!:queries id!:text search_type:text signature:text
step.google_search_result: call_id!:text result!:[search_result] is_error:truth signature:text
step.retrieval_call: arguments!:queries id!:text retrieval_type:text signature:text
step.retrieval_result: call_id!:text is_error:truth signature:text
step.tool_search_call: arguments!:function_names id!:text signature:text
step.tool_search_result: call_id!:text result:[function] signature:text
step.url_context_call: arguments!:urls id!:text signature:text
step.url_context_result: call_id!:text result!:[url_result] is_error:truth signature:text
delta.text: text!:text
delta.text_annotation_delta: annotations:[annotation]
delta.thought_summary: content!:content
delta.thought_signature,file_search_call,processing_call,processing_result: signature:text
delta.arguments_delta: arguments!:text
delta.audio: channels:integer data:text mime_type:text rate:integer sample_rate:integer uri:text
delta.document: data:text mime_type:text uri:text
delta.image,video: data:text mime_type:text resolution:text uri:text
delta.function_result: result!:object|[content]|text is_error:truth name:text
delta.mcp_server_tool_call: arguments!:object name!:text server_name!:text
delta.mcp_server_tool_result: result!:object|[content]|text name:text server_name:text
delta.code_execution_call: arguments!:code signature:text
delta.code_execution_result: result!:text is_error:truth signature:text
delta.file_search_result: result!:[object] signature:text
delta.google_maps_call: arguments:queries signature:text
delta.google_maps_result: result:[maps_result] signature:text
delta.google_search_call: arguments!:queries signature:text
delta.google_search_result: result!:[search_result] is_error:truth signature:text
delta.retrieval_call: arguments!:queries retrieval_type:text signature:text
delta.retrieval_result: is_error:truth signature:text
delta.tool_search_call: arguments:function_names signature:text
delta.tool_search_result: result:[function] signature:text
delta.url_context_call: arguments!:urls signature:text
delta.url_context_result: result!:[url_result] is_error:truth signature:text
code: code:text language:text
queries: queries:[text]
urls: urls:[text]
function_names: function_names:[text]
function: defer_loading:truth description:text name:text short_description:text
maps_result: places:[place] widget_context_token:text
place: name:text place_id:text review_snippets:[review_snippet] url:text
review_snippet: review_id:text title:text url:text
search_result: search_suggestions:text
url_result: status:text url:text
content.text: text!:text annotations:[annotation]
content.image: data:text mime_type:text resolution:text uri:text
content.audio: channels:integer data:text mime_type:text sample_rate:integer uri:text
content.document: data:text mime_type:text uri:text
content.video: data:text mime_type:text name:text resolution:text uri:text
annotation.url_citation: end_index:integer start_index:integer title:text url:text
annotation.file_citation: custom_metadata:object document_uri:text end_index:integer file_name:text media_id:text
 page_number:integer source:text start_index:integer
annotation.place_citation: end_index:integer name:text place_id:text review_snippets:[review_snippet]
 start_index:integer url:text
annotation.speech_metadata: end_index:integer speaker:text start_index:integer style:text
annotation.word_info: end_index:integer end_offset:text speaker:text start_index:integer start_offset:text text:text
""")
