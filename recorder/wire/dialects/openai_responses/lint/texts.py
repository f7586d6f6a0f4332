"""RS04…: that every form of a text is equal: in its deltas, its `.done`, its part, its item, the response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from recorder.lint.rule import Check, Hit, at_end, rules
from recorder.lint.stream import StreamView
from recorder.model.text import counted
from recorder.wire.dialects.json_values import objects
from recorder.wire.dialects.openai_responses.lint.events import Json, StreamEvent, course, is_complete
from recorder.wire.dialects.openai_responses.lint.fields import lacks_fields
from recorder.wire.dialects.openai_responses.lint.walk import ItemText, OutputItem, changes, walk


def _texts(stream: StreamView) -> Iterable[tuple[OutputItem, str, ItemText]]:
    """Yield each text with its item and what they are called; none where a field is missing: a rule reports that."""
    for item in _items(stream):
        for (name, _), text in item.texts.items() if item.has_places else ():
            yield item, f"{name.removeprefix('response.')}, output_index {item.index}", text


def _sums(stream: StreamView) -> Iterable[Hit]:
    for _, called, text in _texts(stream):
        total, done = text.sum, text.done
        if total is not None and done is not None and total != done:
            yield Hit(text.done_pos, f"{called}: {_differ(total, done)}")


def _other_forms(stream: StreamView) -> Iterable[Hit]:
    for item, called, text in _texts(stream):
        later = [(text.part_pos, text.in_part), (item.done_pos, text.of(item.done) if item.done is not None else None)]
        for pos, now in later:
            if now is not None and now not in text.versions:
                yield Hit(pos, f"{called}: {_differ(max(text.versions, default=''), now)}")


def _item_text(stream: StreamView) -> Iterable[Hit]:
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


def _output(stream: StreamView) -> Iterable[Hit]:
    for pos, item, found in _in_final(stream, _done_items(stream)):
        if found is None:
            yield Hit(pos, f"{item.type} {item.index} is missing")
        else:
            yield from _other_texts(pos, item, found)


def _other_texts(pos: int, item: OutputItem, final: Json) -> Iterable[Hit]:
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


def _output_ids(stream: StreamView) -> Iterable[Hit]:
    for pos, item, found in _in_final(stream, _items(stream)):
        done_id = (item.done or item.added).get("id")
        if item.has_places and found is not None and done_id == item.id and found.get("id") != done_id:
            yield Hit(pos, f"{item.type} {item.index}: {found.get('id')}, first {done_id}")


def _calls(stream: StreamView) -> Iterable[Hit]:
    for pos, item, found in _in_final(stream, _done_items(stream)):
        for field, before, after in changes(item.done or {}, found or {}):
            if after != item.added.get(field):
                yield Hit(pos, f"{field} of {item.type} {item.index}: {after}, first {before}")


def _other_items(stream: StreamView) -> Iterable[Hit]:
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


def _empty_output(stream: StreamView) -> Iterable[Hit]:
    final = _final(stream)
    streamed = len(walk(stream).items)
    if final and not final[1] and streamed:
        yield Hit(final[0].pos, f"{counted(streamed, 'item')} came before it")


_CHECKS: Mapping[str, Check] = {
    "RS040": _sums,
    "RS041": _other_forms,
    "RS042": _output,
    "RS043": _empty_output,
    "RS044": _output_ids,
    "RS045": _item_text,
    "RS046": _calls,
    "RS047": _other_items,
}

RULES = rules(
    """
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
    lambda id: at_end(_CHECKS[id], walk, lacks_fields),
)
