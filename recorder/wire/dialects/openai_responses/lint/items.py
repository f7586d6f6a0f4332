"""RS03…, RS04…: the items of a response, which begin and end in order, and whose texts are the same in every form.

Those are the deltas, the `.done`, the part, the item and the final response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from recorder.lint.rule import Check, Hit, Hits, at_end, rules
from recorder.lint.stream import StreamView
from recorder.model.text import counted
from recorder.wire.dialects.json_values import objects
from recorder.wire.dialects.openai_responses.lint.events import Json, StreamEvent, course, is_complete
from recorder.wire.dialects.openai_responses.lint.fields import lacks_fields
from recorder.wire.dialects.openai_responses.lint.walk import ItemText, OutputItem, changes, walk


def _open_items(stream: StreamView) -> Hits:
    if is_complete(stream):
        for item in walk(stream).items.values():
            if item.done is None:
                yield Hit(item.pos, f"{item.type}, output_index {item.index}")


def _open_parts(stream: StreamView) -> Hits:
    for item in walk(stream).items.values():
        for (of, number), part in item.parts.items() if item.done is not None else ():
            if part.is_announced and not part.is_closed:
                yield Hit(part.pos, f"{of} {number} of {item.type} {item.index}")


def _open_texts(stream: StreamView) -> Hits:
    for item in walk(stream).items.values():
        for (name, _), text in item.texts.items() if item.done is not None else ():
            if text.done is None:
                yield Hit(text.pos, f"{name}.done, output_index {item.index}")


# -- the forms of a text


def _texts(stream: StreamView) -> Iterable[tuple[OutputItem, str, ItemText]]:
    """Yield each text with its item and what they are called; none where a field is missing: a rule reports that."""
    for item in _items(stream):
        for (name, _), text in item.texts.items() if item.has_places else ():
            yield item, f"{name.removeprefix('response.')}, output_index {item.index}", text


def _sums(stream: StreamView) -> Hits:
    for _, called, text in _texts(stream):
        total, done = text.sum, text.done
        if total is not None and done is not None and total != done:
            yield Hit(text.done_pos, f"{called}: {_differ(total, done)}")


def _other_forms(stream: StreamView) -> Hits:
    for item, called, text in _texts(stream):
        later = [(text.part_pos, text.in_part), (item.done_pos, text.of(item.done) if item.done is not None else None)]
        for pos, now in later:
            if now is not None and now not in text.versions:
                yield Hit(pos, f"{called}: {_differ(max(text.versions, default=''), now)}")


def _item_text(stream: StreamView) -> Hits:
    for item, called, text in _texts(stream):
        total, final = text.sum, text.of(item.done) if item.done is not None else None
        if total is not None and final is not None and total != final:
            yield Hit(item.done_pos, f"{called}: {_differ(total, final)}")


def _differ(before: str, after: str) -> str:
    """Describe the place where two texts part: by their lengths, as the texts may be long and secret."""
    same = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    return f"{counted(len(before), 'character')} before, {len(after)} here, the first {same} alike"


def _final(stream: StreamView) -> tuple[StreamEvent, Sequence[Json]] | None:
    """Return the event that ends a complete response, and the items in it."""
    last = course(stream).completed
    if last is None or not is_complete(stream):
        return None
    output = last.response.get("output")
    return (last, objects(output)) if isinstance(output, list) else None


def _in_final(stream: StreamView, items: Iterable[OutputItem]) -> Iterator[tuple[int, OutputItem, Json | None]]:
    """Yield items with the place of the final response, and what they are in it; nothing if that has no items."""
    final = _final(stream)
    if final is not None and final[1]:
        last, output = final
        for item in items:
            yield last.pos, item, _same(item, output)


def _output(stream: StreamView) -> Hits:
    for pos, item, found in _in_final(stream, _done_items(stream)):
        if found is None:
            yield Hit(pos, f"{item.type} {item.index} is missing")
        else:
            yield from _other_texts(pos, item, found)


def _other_texts(pos: int, item: OutputItem, final: Json) -> Hits:
    for (name, _), text in item.texts.items():
        now, done = text.of(final), text.of(item.done or {})
        known = {*text.versions, *([] if done is None else [done])}
        if now is not None and now not in known:
            yield Hit(pos, f"{name.removeprefix('response.')} of {item.type} {item.index}: {_differ(max(known), now)}")


def _items(stream: StreamView) -> Iterable[OutputItem]:
    return () if lacks_fields(stream) else walk(stream).items.values()


def _done_items(stream: StreamView) -> list[OutputItem]:
    return [item for item in _items(stream) if item.done is not None and item.has_places]


def _same(item: OutputItem, output: Sequence[Json]) -> Json | None:
    """Find an item in the final output by id; by place, where ids changed."""
    by_id = next((each for each in output if item.id and each.get("id") == item.id), None)
    if by_id is not None:
        return by_id
    at_place = output[item.index] if 0 <= item.index < len(output) else {}
    return at_place if at_place.get("type") == item.type else None


def _output_ids(stream: StreamView) -> Hits:
    for pos, item, found in _in_final(stream, _items(stream)):
        done_id = (item.done or item.added).get("id")
        if item.has_places and found is not None and done_id == item.id and found.get("id") != done_id:
            yield Hit(pos, f"{item.type} {item.index}: {found.get('id')}, first {done_id}")


def _calls(stream: StreamView) -> Hits:
    for pos, item, found in _in_final(stream, _done_items(stream)):
        for field, before, after in changes(item.done or {}, found or {}):
            if after != item.added.get(field):
                yield Hit(pos, f"{field} of {item.type} {item.index}: {after}, first {before}")


def _other_items(stream: StreamView) -> Hits:
    """Yield items of the final response that were not streamed, or in another order. It may list tools alone."""
    final = _final(stream)
    if not final or lacks_fields(stream):
        return
    last, output = final
    streamed = {id(found): item.index for item in walk(stream).items.values() if (found := _same(item, output))}
    before = -1
    for number, each in enumerate(output):
        index = streamed.get(id(each))
        if index is None and each.get("type") != "mcp_list_tools":
            yield Hit(last.pos, f"{each.get('type')} {number} was not streamed")
        elif index is not None and index < before:
            yield Hit(last.pos, f"{each.get('type')} {index} stands after item {before}")
        before = max(before, -1 if index is None else index)


def _empty_output(stream: StreamView) -> Hits:
    final = _final(stream)
    streamed = len(walk(stream).items)
    if final and not final[1] and streamed:
        yield Hit(final[0].pos, f"{counted(streamed, 'item')} came before it")


_OF_ITEMS: Mapping[str, Check] = {"RS032": _open_items, "RS036": _open_parts, "RS037": _open_texts}
_OF_TEXTS: Mapping[str, Check] = {
    "RS040": _sums,
    "RS041": _other_forms,
    "RS042": _output,
    "RS043": _empty_output,
    "RS044": _output_ids,
    "RS045": _item_text,
    "RS046": _calls,
    "RS047": _other_items,
}


def _check_of(rule: str) -> Check:
    """Return the check of a rule: its own, else what the walk over the items found."""
    if rule in _OF_TEXTS:
        return at_end(_OF_TEXTS[rule], walk, lacks_fields)
    return at_end(_OF_ITEMS.get(rule) or (lambda stream: walk(stream).found(rule)), walk)


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
""",
    _check_of,
)
