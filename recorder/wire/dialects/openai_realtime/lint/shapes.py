"""The shapes of the events of OpenAI Realtime, as openai 3.52 declares them.

What a session, or the sound of a response, is set up with echoes the client, and is not judged.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
event.error: error!:error_of_event event_id!:text
event.session.created,session.updated: event_id!:text session!:object
event.conversation.created: conversation!:conversation event_id!:text
event.conversation.item.created,conversation.item.added,conversation.item.done: event_id!:text item!:item
 previous_item_id:text
event.conversation.item.retrieved: event_id!:text item!:item
event.conversation.item.deleted,mcp_list_tools.in_progress,mcp_list_tools.completed,mcp_list_tools.failed:
 event_id!:text item_id!:text
event.conversation.item.truncated: audio_end_ms!:whole content_index!:whole event_id!:text item_id!:text
event.conversation.item.input_audio_transcription.completed: content_index!:whole event_id!:text item_id!:text
 transcript!:text usage!:transcription languages:[language] logprobs:[logprob]
event.conversation.item.input_audio_transcription.delta: event_id!:text item_id!:text content_index:whole delta:text
 logprobs:[logprob]
event.conversation.item.input_audio_transcription.segment: id!:text content_index!:whole end!:number event_id!:text
 item_id!:text speaker!:text start!:number text!:text
event.conversation.item.input_audio_transcription.failed: content_index!:whole error!:error event_id!:text
 item_id!:text
event.input_audio_buffer.cleared: event_id!:text
event.input_audio_buffer.committed: event_id!:text item_id!:text previous_item_id:text
event.input_audio_buffer.dtmf_event_received: event!:text received_at!:whole
event.input_audio_buffer.speech_started: audio_start_ms!:whole event_id!:text item_id!:text
event.input_audio_buffer.speech_stopped: audio_end_ms!:whole event_id!:text item_id!:text
event.input_audio_buffer.timeout_triggered: audio_end_ms!:whole audio_start_ms!:whole event_id!:text item_id!:text
event.output_audio_buffer.started,output_audio_buffer.stopped,output_audio_buffer.cleared: event_id!:text
 response_id!:text
event.rate_limits.updated: event_id!:text rate_limits!:[rate_limit]
event.response.created,response.done: event_id!:text response!:response
event.response.output_item.added,response.output_item.done: event_id!:text item!:item output_index!:whole
 response_id!:text
event.response.content_part.added,response.content_part.done: content_index!:whole event_id!:text item_id!:text
 output_index!:whole part!:part response_id!:text
event.response.output_audio.delta,response.output_audio_transcript.delta,response.output_text.delta:
 content_index!:whole delta!:text event_id!:text item_id!:text output_index!:whole response_id!:text
event.response.output_audio.done: content_index!:whole event_id!:text item_id!:text output_index!:whole
 response_id!:text
event.response.output_audio_transcript.done: content_index!:whole event_id!:text item_id!:text output_index!:whole
 response_id!:text transcript!:text
event.response.output_text.done: content_index!:whole event_id!:text item_id!:text output_index!:whole
 response_id!:text text!:text
event.response.function_call_arguments.delta: call_id!:text delta!:text event_id!:text item_id!:text
 output_index!:whole response_id!:text
event.response.function_call_arguments.done: arguments!:text call_id!:text event_id!:text item_id!:text name!:text
 output_index!:whole response_id!:text
event.response.mcp_call_arguments.delta: delta!:text event_id!:text item_id!:text output_index!:whole
 response_id!:text obfuscation:text
event.response.mcp_call_arguments.done: arguments!:text event_id!:text item_id!:text output_index!:whole
 response_id!:text
event.response.mcp_call.in_progress,response.mcp_call.completed,response.mcp_call.failed: event_id!:text
 item_id!:text output_index!:whole
conversation: id:text object:text
error: code:text message:text param:text type:text
error_of_event: message!:text type!:text code:text event_id:text param:text
item.message: content!:[part] role!:text id:text object:text status:text
item.function_call: arguments!:text name!:text id:text call_id:text object:text status:text
item.function_call_output: call_id!:text output!:text id:text object:text status:text
item.mcp_approval_request: id!:text arguments!:text name!:text server_label!:text
item.mcp_approval_response: id!:text approval_request_id!:text approve!:truth reason:text
item.mcp_call: id!:text arguments!:text name!:text server_label!:text approval_request_id:text error:mcp_error
 output:text
item.mcp_list_tools: server_label!:text tools!:[tool] id:text
mcp_error.protocol_error,http_error: code!:whole message!:text
mcp_error.tool_execution_error: message!:text
tool: name!:text description:text
part: type:text text:text audio:text transcript:text image_url:text detail:text
transcription.tokens: input_tokens!:whole output_tokens!:whole total_tokens!:whole
 input_token_details:transcription_details
transcription.duration: seconds!:number
transcription_details: audio_tokens:whole text_tokens:whole
language: code!:text
logprob: token!:text bytes!:[whole] logprob!:number
rate_limit: limit:whole name:text remaining:whole reset_seconds:number
response: id:text conversation_id:text metadata:{text} object:text output:[item] output_modalities:[text] status:text
 status_details:status_details usage:usage
status_details: error:status_error reason:text type:text
status_error: code:text type:text
usage: input_tokens:whole output_tokens:whole total_tokens:whole input_token_details:input_details
 output_token_details:output_details
input_details: audio_tokens:whole cached_tokens:whole cached_tokens_details:cached_details image_tokens:whole
 text_tokens:whole
cached_details: audio_tokens:whole image_tokens:whole text_tokens:whole
output_details: audio_tokens:whole text_tokens:whole
""")
