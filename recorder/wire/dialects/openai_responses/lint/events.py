"""The events of the Responses API: those of a stream, with the payload of each, and those that the API declares.

The catalog of what each must have is that of openai-python 3.52, as data. `type`, `sequence_number` and `item_id` have
rules of their own, and so has `logprobs`, which OpenAI itself left out until the middle of 2025.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from recorder.lint.rule import Check, Hit
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.text import rows
from recorder.wire.dialects.json_values import Object, names, object_

Json = Object

BEGINNING = "response.created"
EARLY = frozenset({BEGINNING, "response.queued", "response.in_progress"})
ENDINGS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


class StreamEvent(NamedTuple):
    """An event. Its type is that of its payload, else its SSE name: one rule reports if either is missing."""

    pos: int
    type: str
    payload: Json
    name: str | None

    @property
    def response(self) -> Json:
        """The response of an event that carries one; else empty."""
        return object_(self.payload, "response")

    @property
    def error(self) -> Json:
        """The error of an `error` event: nested as the API sends it, or flat as the reference has it."""
        nested = self.payload.get("error")
        return nested if isinstance(nested, dict) else self.payload


def stream_events(stream: StreamView) -> Sequence[StreamEvent]:
    """Return all events of a window that can be read, the unterminated last one included."""
    if "events" not in stream.memo:
        events = map(_stream_event, stream.blocks)
        stream.memo["events"] = [event for event in events if event is not None]
    found: Sequence[StreamEvent] = stream.memo["events"]
    return found


def events_of(stream: StreamView, *types: str) -> Iterator[StreamEvent]:
    """Yield the events of a window that are of these types."""
    return (event for event in stream_events(stream) if event.type in types)


def each_event(broken: Callable[[StreamEvent], Iterable[str]], *types: str) -> Check:
    """Return a check of each event, of those types if there are some. What the function says of one breaks the rule."""
    chosen = frozenset(types)

    def check(stream: StreamView) -> Iterator[Hit]:
        for each in stream_events(stream):
            if not chosen or each.type in chosen:
                yield from (Hit(each.pos, said) for said in broken(each))

    return check


def where(is_broken: Callable[[StreamEvent], object], *types: str, says_type: bool = True) -> Check:
    """Return a check that each of these events breaks of which that is true; a hit says its type."""

    def said(each: StreamEvent) -> Iterable[str]:
        if is_broken(each):
            yield each.type if says_type else ""

    return each_event(said, *types)


class Course:
    """The course of a stream up to the end of a window: its first and last event, its ends, and if all was read."""

    def __init__(self) -> None:
        self.first: StreamEvent | None = None
        self.last: StreamEvent | None = None
        self.completed: StreamEvent | None = None  # the first that says so
        self.types: set[str] = set()  # of endings
        self.errors: list[int] = []  # their positions
        self.is_read = True

    def add(self, stream: StreamView) -> None:
        """Add a window."""
        self.is_read = self.is_read and all(is_done_mark(each) or _stream_event(each) for each in stream.frames)
        for each in stream_events(stream):
            self.first = self.first or each
            self.last = each
            if each.type in ENDINGS:
                self._end(each)

    def _end(self, event: StreamEvent) -> None:
        self.types.add(event.type)
        if event.type == "response.completed":
            self.completed = self.completed or event
        elif event.type == "error":
            self.errors.append(event.pos)


def course(stream: StreamView) -> Course:
    """Return the course of a stream so far."""
    return stream.follow(Course)


def is_readable(stream: StreamView) -> bool:
    """Return whether all events so far are there and have a type: if not, something that seems missing was perhaps
    sent.

    A stream that is resumed has only a part of what its items are.
    """
    return course(stream).is_read and not stream.has_gap and stream.exchange.resumes_after is None


def is_complete(stream: StreamView) -> bool:
    """Return whether a stream can be read and reports that the model is done: then every item, part and text must be
    closed."""
    return is_readable(stream) and course(stream).completed is not None


def _stream_event(frame: StreamBlock) -> StreamEvent | None:
    if not isinstance(frame.payload, dict):
        return None
    type = frame.type or frame.name or ("error" if frame.payload.get("error") else None)
    return StreamEvent(frame.pos, type, frame.payload, frame.name) if type else None


# -- the catalog

Kinds = Mapping[str, type]

_KINDS: Kinds = {
    **dict.fromkeys(("output_index", "content_index", "summary_index", "annotation_index", "command_index"), int),
    "partial_image_index": int,
    **dict.fromkeys(("delta", "text", "refusal", "arguments", "input", "code", "diff", "command"), str),
    "partial_image_b64": str,
    **dict.fromkeys(("response", "item", "part"), dict),
    "output": list,
}


def _by_type(table: str) -> dict[str, Kinds]:
    """Return the fields of events, by type: in a row of the table the fields and the types."""
    found: dict[str, Kinds] = {}
    for row in rows(table):
        fields, types = row.split("|")
        kinds = {field: _KINDS[field] for field in fields.split()}
        found.update(dict.fromkeys(types.split(), kinds))
    return found


_ALONE = _by_type("""
| response.audio.done response.audio.transcript.done error keepalive
response | response.created response.queued response.in_progress
response | response.completed response.incomplete response.failed
delta | response.audio.delta response.audio.transcript.delta
output_index item | response.output_item.added response.output_item.done
output_index command_index command | response.shell_call_command.added response.shell_call_command.done
output_index command_index delta | response.shell_call_command.delta
""")

OF_ITEMS: Mapping[str, Kinds] = _by_type("""
output_index | response.code_interpreter_call.in_progress response.code_interpreter_call.interpreting
 response.code_interpreter_call.completed response.compaction.compacting
 response.file_search_call.in_progress response.file_search_call.searching response.file_search_call.completed
 response.image_generation_call.in_progress response.image_generation_call.generating
 response.image_generation_call.completed
 response.mcp_call.in_progress response.mcp_call.completed response.mcp_call.failed
 response.mcp_list_tools.in_progress response.mcp_list_tools.completed response.mcp_list_tools.failed
 response.web_search_call.in_progress response.web_search_call.searching response.web_search_call.completed
output_index delta | response.function_call_arguments.delta response.custom_tool_call_input.delta
 response.mcp_call_arguments.delta response.code_interpreter_call_code.delta
 response.apply_patch_call_operation_diff.delta
output_index arguments | response.function_call_arguments.done response.mcp_call_arguments.done
output_index input | response.custom_tool_call_input.done
output_index code | response.code_interpreter_call_code.done
output_index diff | response.apply_patch_call_operation_diff.done
output_index partial_image_index partial_image_b64 | response.image_generation_call.partial_image
output_index command_index | response.shell_call_output_content.delta
output_index command_index output | response.shell_call_output_content.done
output_index content_index part | response.content_part.added response.content_part.done
output_index content_index annotation_index | response.output_text.annotation.added
output_index content_index delta | response.output_text.delta response.refusal.delta response.reasoning_text.delta
output_index content_index text | response.output_text.done response.reasoning_text.done
output_index content_index refusal | response.refusal.done
output_index summary_index part | response.reasoning_summary_part.added response.reasoning_summary_part.done
output_index summary_index delta | response.reasoning_summary_text.delta
output_index summary_index text | response.reasoning_summary_text.done
""")
"""Events that must name their item, by type, and what else they must have."""

FIELDS: Mapping[str, Kinds] = {**_ALONE, **OF_ITEMS}
"""All events, by type, and what they must have, with the Python type that JSON makes of it."""

OF_CONNECTIONS = names("""
    response.steer.accepted response.steer.pending response.steer.failed
    response.inject.created response.inject.failed
    """)
"""Events that only a WebSocket has: answers to messages of the client which change a response that is on its way."""

LOGPROBS = frozenset({"response.output_text.delta", "response.output_text.done"})

ITEM_FIELDS: Mapping[str, Kinds] = {
    "message": {"role": str, "content": list},
    "reasoning": {"summary": list},
    "function_call": {"name": str, "arguments": str, "call_id": str},
    "custom_tool_call": {"name": str, "input": str, "call_id": str},
    "local_shell_call": {"status": str, "action": dict},
}
"""What an item must have, by type, to be one to Codex (codex-rs/protocol: `ResponseItem`). The API says so too."""


class Family(NamedTuple):
    """A text that comes in deltas."""

    of: str  # the list of its item that it stands in; empty: it is a field of the item
    number: str  # the field with its place in that list
    field: str  # where the whole of it stands: in `.done`, and in the part or item
    needs_part: str  # empty: it does not
    item: str  # the type of the item that it is of
    part: str  # and of the part


_FAMILIES = """
response.output_text,content,content_index,text,yes,message,output_text
response.refusal,content,content_index,refusal,yes,message,refusal
response.reasoning_text,content,content_index,text,,reasoning,reasoning_text
response.reasoning_summary_text,summary,summary_index,text,yes,reasoning,summary_text
response.function_call_arguments,,,arguments,,function_call,
response.mcp_call_arguments,,,arguments,,mcp_call,
response.custom_tool_call_input,,,input,,custom_tool_call,
response.code_interpreter_call_code,,,code,,code_interpreter_call,
"""
FAMILIES: Mapping[str, Family] = {name: Family(*about) for name, *about in csv.reader(rows(_FAMILIES))}

NAMELESS = frozenset({"function_call", "custom_tool_call"})
"""The items that need no id: a call is known by its `call_id`."""
