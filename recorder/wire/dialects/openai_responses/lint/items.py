"""RS03…, RS04…: the items of a response, which begin and end in order, and whose texts are the same
in every form.

Those are the deltas, the `.done`, the part, the item and the final response.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from recorder.lint.rule import Faults
from recorder.model.text import counted
from recorder.wire.dialects.json_values import objects
from recorder.wire.dialects.openai_responses.lint.events import Course, Json
from recorder.wire.dialects.openai_responses.lint.walk import (
    ItemText,
    ItemWalk,
    OutputItem,
    changes,
)


def faults(walk: ItemWalk, course: Course) -> Faults:
    """Yield the faults of the items of a response.

    One that cannot be read is not judged: something that seems missing there was perhaps sent.
    """
    if not course.is_readable:
        return
    yield from walk.faults
    items = walk.items.values()
    for item in items:
        yield from _closing(item)
        if course.completed is not None and item.done is None:
            yield "RS032", item.pos, f"{item.type}, output_index {item.index}"
        if item.has_places and not course.lacks_fields:
            yield from _forms(item)
    output = course.completed.response.get("output") if course.completed is not None else None
    if course.completed is not None and isinstance(output, list):
        yield from _in_final(
            course.completed.pos, objects(output), items, lacks_fields=course.lacks_fields
        )


def _closing(item: OutputItem) -> Faults:
    """Yield the parts and the texts of a finished item that were never closed."""
    if item.done is None:
        return
    for (of, number), part in item.parts.items():
        if part.is_announced and not part.is_closed:
            yield "RS036", part.pos, f"{of} {number} of {item.type} {item.index}"
    for (name, _), text in item.texts.items():
        if text.done is None:
            yield "RS037", text.pos, f"{name}.done, output_index {item.index}"


# -- the forms of a text


def _forms(item: OutputItem) -> Faults:
    """Yield the texts of an item of which one form differs from another."""
    for (name, _), text in item.texts.items():
        called = f"{name.removeprefix('response.')}, output_index {item.index}"
        final = text.of(item.done) if item.done is not None else None
        for pos, now in ((text.part_pos, text.in_part), (item.done_pos, final)):
            if now is not None and now not in text.versions:
                yield "RS041", pos, f"{called}: {_differ(max(text.versions, default=''), now)}"
        total = text.sum
        if total is None:
            continue
        if text.done is not None and total != text.done:
            yield "RS040", text.done_pos, f"{called}: {_differ(total, text.done)}"
        if final is not None and total != final:
            yield "RS045", item.done_pos, f"{called}: {_differ(total, final)}"


def _differ(before: str, after: str) -> str:
    """Describe the place where two texts part: by their lengths, as the texts may be long and
    secret.
    """
    same = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    return f"{counted(len(before), 'character')} before, {len(after)} here, the first {same} alike"


# -- the final response


def _in_final(
    pos: int, output: Sequence[Json], items: Collection[OutputItem], *, lacks_fields: bool
) -> Faults:
    """Yield the items that are something else in the final response, which stands at a position."""
    if items and not output:
        yield "RS043", pos, f"{counted(len(items), 'item')} came before it"
    if lacks_fields:
        return
    # by items of the final response, the places that they were streamed at
    streamed: dict[int, int] = {}
    for item in items:
        final = _same(item, output)
        if final is not None:
            streamed[id(final)] = item.index
        if output and item.has_places:
            yield from _final_form(pos, item, final)
    yield from _not_streamed(pos, output, streamed)


def _same(item: OutputItem, output: Sequence[Json]) -> Json | None:
    """Find an item in the final output by id; by place, where ids changed."""
    by_id = next((each for each in output if item.id and each.get("id") == item.id), None)
    if by_id is not None:
        return by_id
    at_place = output[item.index] if 0 <= item.index < len(output) else {}
    return at_place if at_place.get("type") == item.type else None


def _final_form(pos: int, item: OutputItem, final: Json | None) -> Faults:
    """Yield what an item is in the final response, if it was something else before."""
    done_id = (item.done or item.added).get("id")
    if final is not None and done_id == item.id and final.get("id") != done_id:
        yield "RS044", pos, f"{item.type} {item.index}: {final.get('id')}, first {done_id}"
    if item.done is None:
        return
    if final is None:
        yield "RS042", pos, f"{item.type} {item.index} is missing"
        return
    for (name, _), text in item.texts.items():
        yield from _final_text(
            pos, f"{name.removeprefix('response.')} of {item.type} {item.index}", text, item, final
        )
    for field, before, after in changes(item.done, final):
        if after != item.added.get(field):
            yield "RS046", pos, f"{field} of {item.type} {item.index}: {after}, first {before}"


def _final_text(pos: int, called: str, text: ItemText, item: OutputItem, final: Json) -> Faults:
    now, done = text.of(final), text.of(item.done or {})
    known = text.versions if done is None else {*text.versions, done}
    if now is not None and now not in known:
        yield "RS042", pos, f"{called}: {_differ(max(known), now)}"


def _not_streamed(pos: int, output: Sequence[Json], streamed: dict[int, int]) -> Faults:
    """Yield items of the final response that were not streamed, or in another order.

    It may list tools alone.
    """
    before = -1
    for number, each in enumerate(output):
        index = streamed.get(id(each))
        if index is None:
            if each.get("type") != "mcp_list_tools":
                yield "RS047", pos, f"{each.get('type')} {number} was not streamed"
            continue
        if index < before:
            yield "RS047", pos, f"{each.get('type')} {index} stands after item {before}"
        before = max(before, index)


TEXTS = """
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

RS040 error openai sdk
The deltas of a text, joined, differ from its `.done`.
Clients that show deltas and store `.done` (openai-python offers both) show one text and store
 another.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS041 error openai sdk
A finished part or item has another text than was streamed.
The next request sends back another text than was shown; a tool is called with arguments that were
 never shown.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS042 error openai sdk
The final response lacks an item that was streamed, or has another text in it.
openai-python, `get_final_response`, and all clients that read `response.output` give another answer
 than was streamed. Codex does not read it.
OpenAI API reference, Responses: Streaming events: response.completed; openai-python 3.52,
 lib/streaming/responses

RS043 warning openai sdk
The final response has no items, although items were streamed.
openai-python: `get_final_response().output_text` is empty. Codex takes items from
 `response.output_item.done`, and the backend of ChatGPT always sends the final response without
 items.
OpenAI API reference, Responses: Streaming events: response.completed; openai-python 3.52,
 lib/streaming/responses; Codex CLI 0.169, codex-api/src/sse/responses.rs

RS044 warning openai sdk
An item has another id in the final response.
openai-python, `responses.stream`, of a call: RuntimeError “Completed response output identity
 changed.” It is unknown which of the two ids the provider accepts in the next request.
OpenAI API reference, Responses: Streaming events; openai-python 3.52, lib/streaming/responses

RS045 error codex
The text of a finished item differs from its joined deltas.
Codex shows the deltas, but stores the item and sends it in the next request: the user never read
 that text.
Codex CLI 0.169, codex-api/src/sse/responses.rs

RS046 error openai sdk
The final response has another type, `call_id` or name for an item.
openai-python, `get_final_response`, and all clients that read `response.output` call another tool,
 or send its result back under another `call_id`, than clients that read the events.
OpenAI API reference, Responses: Streaming events: response.completed; openai-python 3.52,
 lib/streaming/responses

RS047 error openai sdk
The final response has an item that was not streamed, or the items in another order.
openai-python, `get_final_response`, and all clients that read `response.output` have more than was
 shown, or send it back in an order that the provider refuses (reasoning must precede its call).
OpenAI API reference, Responses: Streaming events: response.completed; openai-python 3.52,
 lib/streaming/responses
"""
