"""The rules of Anthropic Messages: `message_start`, blocks one after another, `message_delta`,
`message_stop`.

Must not know: other APIs, and where recordings come from.

The behaviour of anthropic-sdk-python 2.11 was read in its source and measured; that of the SDK for
TypeScript was read. `.stream()` is the helper of both that puts the message together. Clients that
do so by hand keep blocks in a list by index, as both SDKs do.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.anthropic.lint.message import MessageCheck

RULES = rules(
    """
AN001 error
An event has no `event:` line.
Both SDKs distinguish events by that line and ignore one without it: its text is missing in the
 message, and an error is not reported.
anthropic-sdk-python, src/anthropic/_streaming.py; anthropic-sdk-typescript, src/core/streaming.ts

AN002 error
The `event:` line of an event is not its `type`.
The SDK for TypeScript uses the line, the SDK for Python both (it drops an event named `ping` and
 raises at one named `error`): the two get different messages.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/_streaming.py;
 anthropic-sdk-typescript, src/core/streaming.ts

AN003 error
The payload of an event is not an object with a `type`.
The SDK for Python does not know such an event: it adds nothing to the message, or raises
 `TypeError: Unexpected event runtime type` if the payload is not an object.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN004 error
The first event is not `message_start`.
The SDK for TypeScript fails with `Unexpected event order, got … before "message_start"`;
 `.stream()` of the SDK for Python has no message at the end (`AssertionError`) if there is no
 `message_start`.
anthropic-sdk-typescript, src/lib/MessageStream.ts; anthropic-sdk-python,
 src/anthropic/lib/streaming/_messages.py: accumulate_event

AN005 error
`message_start` comes a second time.
The SDK for TypeScript fails with `Unexpected event order, got message_start before receiving
 "message_stop"`.
anthropic-sdk-typescript, src/lib/MessageStream.ts

AN006 error
The message of `message_start` is not complete.
All later events are added to this message: without `content` and `usage`, the SDKs fail at the
 first block or at `message_delta` (`AttributeError: 'NoneType' object has no attribute 'append'`).
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN007 error
The stream ends without `message_stop`.
The SDK for TypeScript has no final message: it fails with `stream ended without producing a Message
 with role=assistant`. The SDK for Python takes the message as it is.
Anthropic API, Streaming Messages; anthropic-sdk-typescript, src/lib/MessageStream.ts

AN008 error
Something other than `ping` follows `message_stop`.
Clients have already received the message: they do not see what follows, although `.stream()` of the
 SDK for Python adds it.
Anthropic API, Streaming Messages; anthropic-sdk-typescript, src/lib/MessageStream.ts

AN009 error
Neither a `message_delta` nor, without one, `message_start` has a `stop_reason`.
`stop_reason` stays null: an agent that runs tools at `tool_use` and continues the turn at
 `pause_turn` does neither.
Anthropic API, Streaming Messages: message_delta events indicate top-level changes to the final
 Message; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py: accumulate_event

AN010 error
A `message_delta` has no `delta`, or no `usage` with `output_tokens`.
`.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object has no attribute
 'output_tokens'`, and the SDK for TypeScript a TypeError.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event; anthropic-sdk-typescript, src/lib/MessageStream.ts

AN011 error
A block continues after the next one began.
Only one block may be open at a time: the SDK for TypeScript assigns a delta to the last block,
 whatever its index, and so reports it for the wrong block, or not at all.
Anthropic API, Streaming Messages; anthropic-sdk-typescript, src/lib/MessageStream.ts

AN012 error
An event of a block lacks an `index` that is a number.
`.stream()` of the SDK for Python raises `TypeError: list indices must be integers or slices, not
 NoneType`.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN013 error
The index of a block is not the next one, counted from 0.
The SDKs add blocks to a list and find them by index: a delta is added to another block, or there is
 no such block (`IndexError: list index out of range`).
Anthropic API, Streaming Messages: each content block has an index in the final content array;
 anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py: accumulate_event

AN014 error
A delta or a stop belongs to a block that is not open.
The SDKs look for the block: `IndexError: list index out of range` if it has not begun.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN015 error
A `content_block_start` has no `content_block` with a type, or its text block has no text.
Deltas are added to it: `.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object
 has no attribute 'to_dict'`, or a TypeError at the first delta.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN016 error
A block of tool use has no `id` or no `name`.
The called tool is unknown, or its result cannot be sent back, because it needs a `tool_use_id`.
Anthropic API, Streaming Messages; Anthropic API, Tool use

AN017 error
A `content_block_delta` has no `delta` with a type, or the delta lacks its text.
`.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object has no attribute
 'type'`, or a TypeError where it adds the text.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN018 error
A delta does not fit the type of its block.
Both SDKs ignore it: its content is missing in the message.
anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py: accumulate_event;
 anthropic-sdk-typescript, src/lib/MessageStream.ts

AN019 error
The pieces of a tool's input, joined, are not a JSON object.
The SDK for Python raises `ValueError: Unable to parse tool parameter JSON from model`, or calls the
 tool with the part of the input that can be read.
Anthropic API, Streaming Messages: input JSON delta; anthropic-sdk-python,
 src/anthropic/lib/streaming/_messages.py: accumulate_event

AN020 error
A block of thinking has no signature.
The API refuses the next request of a turn with tools, in which the block must be sent back
 unchanged.
Anthropic API, Extended thinking: preserving thinking blocks

AN021 warning
The `stop_reason` belongs to another API.
An agent that waits for `end_turn` and `tool_use` does not know what to do next.
Anthropic API, Handling stop reasons

AN022 warning
The `output_tokens` of `message_delta` are fewer than those of `message_start`.
The counts are totals, and the last one is used: if a gateway sends the tokens of one event only,
 too few are counted.
Anthropic API, Streaming Messages: the token counts in the usage field of message_delta are
 cumulative; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py: accumulate_event

AN023 error
A block has no `content_block_stop`.
A client that acts on complete blocks never acts on this one: a tool is not called, a text is not
 stored.
Anthropic API, Streaming Messages; anthropic-sdk-typescript, src/lib/MessageStream.ts: contentBlock

AN024 error
An event of a block follows `message_delta`.
A client that treats the content as complete at the `stop_reason` has already acted on it.
Anthropic API, Streaming Messages: the event flow

AN025 warning
An `error` is not an object with a `type` and a `message`.
The SDKs raise anyway, but a client that retries at `overloaded_error` finds no type.
Anthropic API, Streaming Messages: error events; anthropic-sdk-typescript, src/core/streaming.ts

AN026 error
Something other than `ping` follows an `error`.
Both SDKs raise at the error: everything after it is lost.
anthropic-sdk-python, src/anthropic/_streaming.py; anthropic-sdk-typescript, src/core/streaming.ts

AN027 note
There is a `data: [DONE]`.
A stream of Messages ends with `message_stop`. The SDKs ignore data without an `event:` line; a
 client that parses every `data:` as JSON fails.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/_streaming.py

AN028 error
An event has a name, but no data.
Both SDKs ignore it: its content is missing in the message.
anthropic-sdk-python, src/anthropic/_streaming.py; anthropic-sdk-typescript, src/core/streaming.ts

AN029 error
A field of an event is missing, or has another type than the API declares.
The SDKs do not check: they return a message with another value there, or with none.
Anthropic API, Streaming Messages: the event types; anthropic-sdk-python, src/anthropic/types

AN030 error
A token count is negative, or over 1,000,000,000.
Costs and the remaining context are computed wrongly: the SDKs return any number unchecked.
Anthropic API, Streaming Messages: usage

AN031 note
A block or a delta is of a type that the API does not declare.
Both SDKs return the block as it is and ignore the delta: its content is missing in the message.
Anthropic API, Streaming Messages; anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py:
 accumulate_event

AN032 warning
The `stop_reason` does not fit what the message has: a call of a tool, or none.
An agent that runs tools at `tool_use` finds no call, or ends its turn at `end_turn` and runs none
 of them: the API refuses the next request, in which the result of the call is missing.
Anthropic API, Handling stop reasons
""",
    of_answer(MessageCheck),
    "anthropic",
)
