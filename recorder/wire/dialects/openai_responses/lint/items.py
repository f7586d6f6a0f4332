"""RS03…: the order of the events of items and parts: added, then what they are, then done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.lint.rule import Check, Hit, at_end, rules
from recorder.lint.stream import StreamView
from recorder.wire.dialects.openai_responses.lint.events import is_complete
from recorder.wire.dialects.openai_responses.lint.walk import walk


def _open_items(stream: StreamView) -> Iterable[Hit]:
    if is_complete(stream):
        for item in walk(stream).items.values():
            if item.done is None:
                yield Hit(item.pos, f"{item.type}, output_index {item.index}")


def _open_parts(stream: StreamView) -> Iterable[Hit]:
    for item in walk(stream).items.values():
        for (of, number), part in item.parts.items() if item.done is not None else ():
            if part.is_announced and not part.is_closed:
                yield Hit(part.pos, f"{of} {number} of {item.type} {item.index}")


def _open_texts(stream: StreamView) -> Iterable[Hit]:
    for item in walk(stream).items.values():
        for (name, _), text in item.texts.items() if item.done is not None else ():
            if text.done is None:
                yield Hit(text.pos, f"{name}.done, output_index {item.index}")


_CHECKS: Mapping[str, Check] = {
    "RS032": at_end(_open_items, walk),
    "RS036": at_end(_open_parts, walk),
    "RS037": at_end(_open_texts, walk),
}


def _check_of(rule: str) -> Check:
    """Return the check of a rule: its own, else what the walk over the items found."""
    return _CHECKS.get(rule) or at_end(lambda stream: walk(stream).found(rule), walk)


RULES = rules(
    """
RS024 error openai
The `item_id` of an event is not the id of the item at its `output_index`.
Clients that assign deltas by `item_id` find no item of that id and drop the text, or open a second
 message. GitHub Copilot sends such events; Codex does not check the id.
OpenAI API reference, Responses: Streaming events: item_id

RS025 error openai sdk
The id of an item changes from added to done.
openai-python, `responses.stream`: RuntimeError “Completed output item identity changed.”, also if
 the item had none when it was added (a call may). In the next request the client names an item that
 the provider may not know.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS028 error openai
An item has no id, neither when it is added nor when it is done.
Clients find the item of an event by its id, and the next request cannot name the item without one.
 Calls have a `call_id`, and need no id. openai-python does not check it.
OpenAI API reference, Responses: Streaming events: item.id

RS029 error openai sdk
The type, `call_id` or name of an item changes from added to done.
openai-python, `responses.stream`: RuntimeError “Completed output item identity changed.” for type
 and `call_id`; it reports both names. The result of a call is sent back under a `call_id` that the
 provider may not know.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS030 error openai codex sdk
Events of an item arrive before its `response.output_item.added`, or without it.
Codex: “OutputTextDelta without active item”, “ReasoningSummaryDelta without active item”, and
 nothing is shown until the item is done; openai-python: RuntimeError “Received a content event for
 output index … before receiving its output item”.
OpenAI API reference, Responses: Streaming events; openai/codex, codex-rs/core: turn; Codex CLI
 0.169; openai-python 3.52, lib/streaming/responses

RS031 error openai sdk
An item is added twice.
openai-python, `responses.stream`: RuntimeError “Duplicate response output index …”.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS033 error openai codex
Events of an item arrive after its `response.output_item.done`.
For Codex no item is open then: “OutputTextDelta without active item”, “ReasoningSummaryDelta
 without active item”; their content is not in the item that it stores. It stores an item twice if
 there are two `done` events.
OpenAI API reference, Responses: Streaming events; openai/codex, codex-rs/core: turn; Codex CLI
 0.169

RS034 error openai sdk
Items are not numbered 0, 1, 2 and so on by `output_index`.
openai-node: OpenAIError “missing output at index …”; clients that keep items in an array leave a
 hole.
OpenAI API reference, Responses: Streaming events: output_index; openai-node,
 lib/responses/ResponseStream.ts

RS035 error openai sdk
The text of a message has no part: `response.content_part.added` is missing before its first delta.
openai-python, `responses.stream`: IndexError “list index out of range” at the first delta;
 openai-node: OpenAIError “missing content at index 0”. Codex of 2025 showed errors on every delta,
 Codex 0.169 works without it.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses;
 openai-node, lib/responses/ResponseStream.ts

RS038 error openai
An event comes after the one that closes its text or part.
Clients that treat `.done` as the end have already shown or parsed the text, and miss the rest.
OpenAI API reference, Responses: Streaming events

RS039 error openai sdk
Parts of an item are not numbered 0, 1, 2 and so on.
openai-python appends parts and looks them up by number: IndexError “list index out of range”, or
 text in the wrong part; openai-node: OpenAIError “missing content at index …”.
OpenAI API reference, Responses: Streaming events: content_index, summary_index; openai-python 3.52,
 lib/streaming/responses

RS048 error openai sdk
A finished item has the status of an unfinished one.
Clients that read the status, and the provider when the item is sent back, treat a finished item as
 still running: it is not shown, its tool is not called.
OpenAI API reference, Responses: Streaming events: response.output_item.done

RS049 error openai sdk
A text is not of the type of its item, or of its part.
openai-python, `responses.stream`: an AssertionError without a message at
 `response.output_text.delta` and `response.function_call_arguments.delta`; other texts are lost.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS056 warning openai codex
Items are done in another order than that of their `output_index`.
A client that appends an item when it is done, as Codex does, has another order than the final
 response: it sends them back so, and a call may come before the message that explains it.
OpenAI API reference, Responses: Streaming events: output_index; openai/codex, codex-rs/core: turn;
 Codex CLI 0.169

RS054 error openai
A summary or a refusal has no part: `response.reasoning_summary_part.added` or
 `response.content_part.added` is missing before its first delta.
Clients that build a summary part by part have no part to add the delta to: Codex of 2025 showed
 errors on every delta. Codex 0.169 and openai-python work without it.
OpenAI API reference, Responses: Streaming events

RS032 error openai codex sdk
An item is never closed: the response is complete, but `response.output_item.done` is missing.
Codex takes items only from that event: the message is neither shown nor stored, the tool is not
 called. openai-python: RuntimeError “Cannot complete response with unfinished output items.”,
 unless the final response has it.
OpenAI API reference, Responses: Streaming events; openai/codex, codex-rs/core: turn; Codex CLI
 0.169; openai-python 3.52, lib/streaming/responses

RS036 warning openai
A part is never closed: `response.content_part.done` (of a summary:
 `response.reasoning_summary_part.done`) is missing, although its item is done.
Clients that show a part when it is done do not show it. Codex and the SDKs work without it.
OpenAI API reference, Responses: Streaming events

RS037 warning openai
A text is never closed: its `.done` event is missing, although its item is done.
Clients that wait for `.done` (for the arguments of a call, above all) never get the text;
 openai-python sends no `response.output_text.done` with the parsed text.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses
""",
    _check_of,
)
