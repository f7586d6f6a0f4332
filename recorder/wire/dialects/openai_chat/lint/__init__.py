"""The rules of Chat Completions: `data: {chunk}` until `data: [DONE]`.

Must not know: other APIs, and where recordings come from.

The behaviour of openai-python 3.52 was read in its source and measured; that of openai-node was
read. `.stream()` is the helper of both that puts chunks together; many frameworks do the same in
the same way. Fields that a vendor adds break no rule.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.openai_chat.lint.chunks import Chunks

RULES = rules(
    """
CH001 warning
`data: [DONE]` is missing at the end.
A client that waits for it treats the answer as cut. The OpenAI SDKs accept the end of the body.
OpenAI API reference, Chat Completions, streaming: the stream is terminated by `data: [DONE]`

CH002 error
Something follows `data: [DONE]`.
openai-python and openai-node stop reading at `data: [DONE]`: the rest is lost.
openai-python, src/openai/_streaming.py; openai-node, src/core/streaming.ts

CH003 error
The `object` of a chunk is not `chat.completion.chunk`.
`.stream()` of openai-python ignores such a chunk, and its content is missing in the completion.
openai-python, src/openai/lib/streaming/chat/_completions.py: _is_valid_chat_completion_chunk_weak

CH004 error
The `id` changes from one chunk to another.
openai-node treats a chunk with another id as the beginning of another completion: when it reads a
 forwarded stream (`fromReadableStream`), it fails with `missing finish_reason for choice 0`.
OpenAI API reference, Chat Completions, streaming: each chunk has the same ID; openai-node,
 src/lib/ChatCompletionStream.ts

CH005 warning
`created` or `model` changes from one chunk to another.
Clients that combine chunks keep the first or the last value, and disagree on which model answered,
 and when.
OpenAI API reference, Chat Completions, streaming: each chunk has the same timestamp

CH006 error
A chunk has no array `choices`.
openai-python raises `TypeError: 'NoneType' object is not iterable` in `.stream()`, and every loop
 over `chunk.choices` fails in the same way. A chunk without a choice must have an empty array.
OpenAI API reference, Chat Completions, streaming; openai-python,
 src/openai/lib/streaming/chat/_completions.py

CH007 warning
A chunk lacks `id`, `created` or `model`.
The SDKs declare them as required: clients that use them (for logs, or as the key of a completion)
 get None.
OpenAI API reference, Chat Completions, streaming: the chunk object

CH008 error
A choice lacks an `index` that is a number, or a `delta` that is an object.
openai-python raises `TypeError: list indices must be integers` or `AttributeError: 'NoneType'
 object has no attribute 'to_dict'` in `.stream()`.
OpenAI API reference, Chat Completions, streaming; openai-python,
 src/openai/lib/streaming/chat/_completions.py

CH009 error
A choice begins before the one whose index is smaller by one.
openai-python keeps choices in a list by index: `IndexError: list assignment index out of range` if
 the first chunk has another than 0; later ones are mixed up.
openai-python, src/openai/lib/streaming/chat/_completions.py: _convert_initial_chunk_into_snapshot,
 _accumulate_chunk

CH010 error
No delta of a choice has a `role`.
openai-node fails at the end of `.stream()` with `missing role for choice 0`. OpenAI sends the role
 in the first delta.
openai-node, src/lib/ChatCompletionStream.ts: finalizeChatCompletion

CH011 error
The stream ends without the `finish_reason` of a choice.
openai-node fails at the end of `.stream()` with `missing finish_reason for choice 0`; other clients
 treat a cut answer as complete.
OpenAI API reference, Chat Completions, streaming; openai-node, src/lib/ChatCompletionStream.ts:
 finalizeChatCompletion

CH012 error
The request asks for usage (`stream_options.include_usage`), but no chunk has `usage`.
Clients count no tokens: `chunk.usage` is null in all of them.
OpenAI API reference, Chat Completions, streaming, stream_options: an additional chunk will be
 streamed before the `data: [DONE]` message

CH013 warning
The chunk with the requested `usage` has choices.
A client that takes the usage from the chunk without choices, as the reference demands, counts no
 tokens.
OpenAI API reference, Chat Completions, streaming, stream_options: on this chunk the `choices` field
 will always be an empty array

CH014 warning
More than one chunk has `usage`.
A client that adds the usage of all chunks, as LangChain does, counts tokens more than once.
OpenAI API reference, Chat Completions, streaming, stream_options: all other chunks have a null
 value; langchain-core, messages/ai.py: add_usage

CH015 warning
The token counts of `usage` are missing or contradict each other.
Costs are wrong in a way that depends on which of the counts a client uses: total is prompt and
 completion, cached tokens are part of the prompt, reasoning tokens are part of the completion.
OpenAI API reference, Chat Completions, streaming: the usage object

CH016 error
The delta of a tool call lacks an `index` that is a number.
`.stream()` of openai-python raises `TypeError: list indices must be integers or slices, not
 NoneType` at the first delta of a call, “RuntimeError: Expected list delta entry to have an `index`
 key” at a later one: it is unknown to which call the arguments belong.
OpenAI API reference, Chat Completions, streaming; openai-python,
 src/openai/lib/streaming/_deltas.py: accumulate_delta

CH017 error
The first delta of a tool call has no `id`.
The Vercel AI SDK fails with `Expected 'id' to be a string.`, openai-node with `missing
 choices[0].tool_calls[0].id`; without an id, the result of the call cannot be sent back.
vercel/ai, packages/openai-compatible, chat language model; openai-node,
 src/lib/ChatCompletionStream.ts: finalizeChatCompletion

CH018 error
The first delta of a tool call lacks the name of a function.
The Vercel AI SDK fails with `Expected 'function.name' to be a string.`.
vercel/ai, packages/openai-compatible, chat language model

CH019 error
No delta of a tool call has a `type`.
openai-node fails at the end of `.stream()` with `missing choices[0].tool_calls[0].type`;
 openai-python reports no arguments of such a call.
openai-node, src/lib/ChatCompletionStream.ts: finalizeChatCompletion; openai-python,
 src/openai/lib/streaming/chat/_completions.py: _build_events

CH020 error
A later delta of a tool call has an `id` or a name again.
Clients concatenate strings: `.stream()` of openai-python gives the call the id `call_1call_1`, and
 its result is refused under that id. Another call must have another index.
openai-python, src/openai/lib/streaming/_deltas.py: accumulate_delta

CH021 error
The arguments of a tool call are not a string.
Deltas of arguments are pieces of JSON text: openai-node makes `[object Object]` of an object, and a
 client that parses the text of a call fails.
OpenAI API reference, Chat Completions, streaming; openai-node, src/lib/ChatCompletionStream.ts

CH022 warning
The complete arguments of a tool call are not JSON.
A client that parses them fails (`json.JSONDecodeError`, `Unexpected end of JSON input`). Models
 sometimes write such arguments; a gateway that loses a delta causes them too.
OpenAI API reference, Chat Completions, streaming: the model does not always generate valid JSON

CH023 warning
An error in the stream is not an object `error` with a `message`.
openai-python raises `APIError: An error occurred during streaming` without the cause, and treats an
 `event: error` without a field `error` as a chunk.
openai-python, src/openai/_streaming.py

CH024 error
Something other than `data: [DONE]` follows an error.
openai-python and openai-node raise at the error: everything after it is lost.
openai-python, src/openai/_streaming.py; openai-node, src/core/streaming.ts

CH025 error
An error is sent as a field `error:` instead of `data:`.
The field does not exist in server-sent events: every client ignores it, and treats the answer as
 complete.
WHATWG HTML 9.2.6, any other field is ignored; openai-python, src/openai/_streaming.py

CH026 error
A chunk has an `event:` line.
openai-node yields `{event, data}` instead of the chunk, so that `chunk.choices` is undefined;
 openai-python does so for names that begin with `thread.`.
openai-node, src/core/streaming.ts; openai-python, src/openai/_streaming.py

CH027 warning
A later delta of a choice has a `role` again.
Clients concatenate strings: `.stream()` of openai-python makes `assistantassistant` of it, and the
 API refuses a message of that role.
openai-python, src/openai/lib/streaming/_deltas.py: accumulate_delta

CH028 error
The `content` of a delta is not a string.
Clients concatenate strings: openai-node makes `[object Object]` of an array, openai-python loses
 it.
OpenAI API reference, Chat Completions, streaming; openai-node, src/lib/ChatCompletionStream.ts;
 openai-python, src/openai/lib/streaming/_deltas.py: accumulate_delta

CH029 warning
A choice has content after its `finish_reason`.
A client that treats the choice as complete at its `finish_reason` loses the rest: openai-python has
 already sent `content.done`.
openai-python, src/openai/lib/streaming/chat/_completions.py: ChoiceEventState.get_done_events

CH030 warning
A choice has a second `finish_reason`.
A client that acts on each of them acts twice; one that keeps the last may keep the wrong one.
OpenAI API reference, Chat Completions, streaming; openai-python,
 src/openai/lib/streaming/chat/_completions.py

CH031 error
A tool call begins before the one whose index is smaller by one.
openai-python keeps calls in a list by index: `IndexError: list index out of range` in `.stream()`;
 openai-node leaves a hole, which is sent back as null.
openai-python, src/openai/lib/streaming/_deltas.py: accumulate_delta; openai-node,
 src/lib/ChatCompletionStream.ts

CH032 error
A later delta of a tool call sets its `type` to null.
`.stream()` of openai-python replaces `function` by null: it does not report the arguments that
 follow, and the call that it returns has no type. OpenAI omits an unchanged field.
openai-python, src/openai/lib/streaming/_deltas.py: accumulate_delta

CH033 error
A field of a chunk is missing, or has another type than the API declares.
The SDKs do not check: they return the value as it is, or fail where they use it (`.stream()` of
 openai-python with `AttributeError: 'str' object has no attribute 'arguments'` if a function is a
 text).
OpenAI API reference, Chat Completions, streaming: the chunk object

CH034 error
A later delta of a tool call has no `function`.
openai-python raises an AssertionError without a message in `.stream()`.
openai-python, src/openai/lib/streaming/chat/_completions.py: _build_events

CH035 warning
The `finish_reason` does not fit what the choice has: a call, or none.
An agent that runs tools at `tool_calls` finds no call, or ends its turn at `stop` and runs none of
 them. OpenAI itself ends with `stop` where the request names the tool (`tool_choice`).
OpenAI API reference, Chat Completions, streaming: finish_reason

CH036 warning
The `finish_reason` is a word that the API does not declare.
An agent that waits for `stop`, `length` or `tool_calls` does not know what to do next; clients that
 check the word fail.
OpenAI API reference, Chat Completions, streaming: finish_reason

CH037 error
An entry of a list in a later delta has no `index` that is a number.
`.stream()` of openai-python raises “RuntimeError: Expected list delta entry to have an `index`
 key”: it adds the entries of lists by it.
openai-python, src/openai/lib/streaming/_deltas.py: accumulate_delta
""",
    of_answer(Chunks),
    "chat",
)
