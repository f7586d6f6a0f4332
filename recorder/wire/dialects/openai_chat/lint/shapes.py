"""The shapes of a chunk of Chat Completions, as openai-python 3.52 declares them."""

from __future__ import annotations

from recorder.lint.shape import Shapes

SHAPES = Shapes("""\
chunk: id!:text choices!:[choice] created!:whole model!:text object!:text moderation:moderation obfuscation:text
 service_tier:text system_fingerprint:text usage:completion_usage
choice: delta!:choice_delta index!:whole finish_reason:text logprobs:choice_logprobs
choice_delta: audio:choice_delta_audio content:text function_call:choice_delta_function_call refusal:text role:text
 tool_calls:[choice_delta_tool_call]
choice_delta_audio: id:text data:text expires_at:whole transcript:text
choice_delta_function_call: arguments:text name:text
choice_delta_tool_call: index!:whole id:text function:choice_delta_tool_call_function type:text
choice_delta_tool_call_function: arguments:text name:text
choice_logprobs: content:[token_logprob] refusal:[token_logprob]
token_logprob: token!:text bytes:[whole] logprob!:number top_logprobs!:[top_logprob]
top_logprob: token!:text bytes:[whole] logprob!:number
moderation: input!:moderation_in output!:moderation_out
moderation_in.moderation_results: model!:text results!:[moderation_input_moderation_results_result]
moderation_input_moderation_results_result: categories!:{truth} category_applied_input_types!:{[text]}
 category_scores!:{number} flagged!:truth model!:text type!:text
moderation_in.error: code!:text message!:text
moderation_out.moderation_results: model!:text results!:[moderation_output_moderation_results_result]
moderation_output_moderation_results_result: categories!:{truth} category_applied_input_types!:{[text]}
 category_scores!:{number} flagged!:truth model!:text type!:text
moderation_out.error: code!:text message!:text
completion_usage: completion_tokens!:whole prompt_tokens!:whole total_tokens!:whole
 completion_tokens_details:completion_tokens_details prompt_tokens_details:prompt_tokens_details
completion_tokens_details: accepted_prediction_tokens:whole audio_tokens:whole reasoning_tokens:whole
 rejected_prediction_tokens:whole text_tokens:whole
prompt_tokens_details: audio_tokens:whole cache_write_tokens:whole cached_tokens:whole image_tokens:whole
 text_tokens:whole
""")
