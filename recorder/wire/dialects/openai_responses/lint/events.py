"""The events of the Responses API: those of a stream, with the payload of each, and those that the
API declares.

The catalog of what each must have is that of openai-python 3.52, as data. `type`, `sequence_number`
and `item_id` have rules of their own, and so has `logprobs`, which OpenAI itself left out until the
middle of 2025.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import NamedTuple

from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.text import rows
from recorder.wire.dialects.json_values import Object, names, object_

Json = Object

BEGINNING = "response.created"
EARLY = frozenset({BEGINNING, "response.queued", "response.in_progress"})
ENDINGS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


class StreamEvent(NamedTuple):
    """An event.

    Its type is that of its payload, else its SSE name: one rule reports if either is missing.
    """

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
        """The error of an `error` event: nested as the API sends it, or flat as the reference has
        it.
        """
        nested = self.payload.get("error")
        return nested if isinstance(nested, dict) else self.payload


def stream_event(block: StreamBlock) -> StreamEvent | None:
    """Return the event that a block is, an unterminated one too; None if it cannot be read."""
    if not isinstance(block.payload, dict):
        return None
    type = block.type or block.name or ("error" if block.payload.get("error") else None)
    return StreamEvent(block.pos, type, block.payload, block.name) if type else None


class Course:
    """The course of a response so far: its first and last event, its ends, and what of it can be
    read.
    """

    def __init__(self, stream: StreamView) -> None:
        self.stream = stream
        self.first: StreamEvent | None = None
        # of the first block that is an event, whether it can be read or not
        self.first_pos: int | None = None
        self.last: StreamEvent | None = None
        self.completed: StreamEvent | None = None  # the first that says so
        self.endings: set[str] = set()
        self.errors: list[int] = []  # their positions
        self.lacks_fields = False  # the content of an event is missing, and so it is elsewhere
        self._is_read = True

    def add(self, block: StreamBlock, event: StreamEvent | None) -> None:
        """Add a block, and the event that it is."""
        if block.is_event:
            self.first_pos = block.pos if self.first_pos is None else self.first_pos
            self._is_read = self._is_read and (event is not None or is_done_mark(block))
        if event is None:
            return
        self.first = self.first or event
        self.last = event
        if event.type in ENDINGS:
            self.endings.add(event.type)
        if event.type == "response.completed":
            self.completed = self.completed or event
        elif event.type == "error":
            self.errors.append(event.pos)

    @property
    def is_readable(self) -> bool:
        """Return whether all events so far are there and have a type: if not, something that seems
        missing was perhaps sent. A stream that is resumed has only a part of what its items are.
        """
        return (
            self._is_read and not self.stream.has_gap and self.stream.exchange.resumes_after is None
        )


# -- the catalog

Kinds = Mapping[str, type]

_KINDS: Kinds = {
    **dict.fromkeys(
        ("output_index", "content_index", "summary_index", "annotation_index", "command_index"), int
    ),
    "partial_image_index": int,
    **dict.fromkeys(
        ("delta", "text", "refusal", "arguments", "input", "code", "diff", "command"), str
    ),
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
"""Events that only a WebSocket has: answers to messages of the client which change a response that
is on its way.
"""

LOGPROBS = frozenset({"response.output_text.delta", "response.output_text.done"})

ITEM_FIELDS: Mapping[str, Kinds] = {
    "message": {"role": str, "content": list},
    "reasoning": {"summary": list},
    "function_call": {"name": str, "arguments": str, "call_id": str},
    "custom_tool_call": {"name": str, "input": str, "call_id": str},
    "local_shell_call": {"status": str, "action": dict},
}
"""What an item must have, by type, to be one to Codex (codex-rs/protocol: `ResponseItem`). The API
says so too.
"""


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
FAMILIES: Mapping[str, Family] = {
    name: Family(*about) for name, *about in csv.reader(rows(_FAMILIES))
}

NAMELESS = frozenset({"function_call", "custom_tool_call"})
"""The items that need no id: a call is known by its `call_id`."""
