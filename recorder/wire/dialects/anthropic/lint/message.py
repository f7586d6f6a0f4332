"""The faults of a stream of Anthropic Messages: the order of its events, its blocks one by one, its
end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from recorder.lint.faults import is_json, is_whole_number, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects import by_name
from recorder.wire.dialects.anthropic.lint.shapes import SHAPES
from recorder.wire.dialects.json_values import (
    Object,
    array,
    decoded_or_none,
    member,
    names,
    object_,
    objects,
    text,
)

_CUT = ("max_tokens", "model_context_window_exceeded", "refusal", "pause_turn")
"""The stop reasons with which a block may be incomplete."""

_FOREIGN = names("stop length tool_calls function_call content_filter STOP MAX_TOKENS SAFETY")
"""The same in the words of other APIs."""

TOKENS_LIMIT = 1_000_000_000
"""More tokens than that are none: the largest window of a model holds a few million."""

CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")

_TEXTS = {"text": "text", "thinking": "thinking"}
"""The field of a block that deltas are added to."""

_PIECES = {
    "text_delta": "text",
    "input_json_delta": "partial_json",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""The field of a delta that is a string."""

_OF: Mapping[str, frozenset[str]] = {
    "text_delta": frozenset({"text"}),
    "citations_delta": frozenset({"text"}),
    "thinking_delta": frozenset({"thinking"}),
    "signature_delta": frozenset({"thinking"}),
    "input_json_delta": frozenset(CALLS),
    "compaction_delta": frozenset({"compaction"}),
}
_KNOWN = frozenset({"redacted_thinking", "web_search_tool_result"}).union(*_OF.values())

# The types that anthropic 2.11 declares (`BetaContentBlock`, `BetaRawContentBlockDelta`).
_BLOCK_TYPES = names("""
    text thinking redacted_thinking tool_use server_tool_use mcp_tool_use mcp_tool_listing
    mcp_tool_result web_search_tool_result web_fetch_tool_result code_execution_tool_result
    bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result
    advisor_tool_result container_upload compaction fallback
    """)

_JUDGED = re.compile(
    r"message(\.(id|model|content|usage(\.(in|out)put_tokens)?))?|index|usage(\.output_tokens)?"
    r"|delta(\.(type|text|thinking|partial_json|signature))?|content_block(\.(type|text|thinking|id|name))?"
)
"""The fields that have rules of their own."""


class ContentBlock:
    """Follows one block. Unknown types may have any delta."""

    def __init__(self, pos: int, index: int, start: Object) -> None:
        self.pos = pos
        self.index = index
        self.is_interleaved = False  # it went on after another one began
        self._type = text(start, "type")
        self._start = start
        self._input: list[str] = []
        self._is_signed = bool(start.get("signature"))

    def begin(self) -> Faults:
        field = _TEXTS.get(self._type or "")
        if not self._type or (field and not isinstance(self._start.get(field), str)):
            yield "AN015", self.pos, shown(self._start)
        elif self._type not in _BLOCK_TYPES:
            yield "AN031", self.pos, f"a block of type {shown(self._type)}"
        elif self._type in CALLS and not (text(self._start, "id") and text(self._start, "name")):
            yield "AN016", self.pos, shown(self._start)

    def add(self, pos: int, delta: object) -> Faults:
        type = text(delta, "type") if isinstance(delta, dict) else None
        if not isinstance(delta, dict) or not type:
            yield "AN017", pos, f"delta is {shown(delta)}"
            return
        if type not in _OF:
            yield "AN031", pos, f"a delta of type {shown(type)}"
        field = _PIECES.get(type)
        piece = delta.get(field) if field else ""
        if not isinstance(piece, str):
            yield "AN017", pos, f"{field} is {shown(piece)}"
        elif not self._takes(type):
            yield "AN018", pos, f"{type} in a block of type {shown(self._type)}"
        elif type == "input_json_delta":
            self._input.append(piece)
        elif type == "signature_delta":
            self._is_signed = self._is_signed or bool(piece)

    def end(self) -> Faults:
        """Yield the faults of a block that was completed."""
        written = "".join(self._input)
        decoded = decoded_or_none(written.encode("utf-8", "replace"))
        if self._type in CALLS and written and not isinstance(decoded, dict):
            yield "AN019", self.pos, shown(written)
        if self._type == "thinking" and not self._is_signed:
            yield "AN020", self.pos, ""

    @property
    def is_call(self) -> bool:
        """Return True if it is a call that the client has to answer."""
        return self._type == "tool_use"

    def _takes(self, delta: str) -> bool:
        fitting = _OF.get(delta)
        return fitting is None or self._type not in _KNOWN or self._type in fitting


class MessageCheck:
    """Follows the events of one message."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._terminal = by_name(stream.exchange.api).terminal
        self._has_begun = self._has_start = self._failed = self._stopped = self._is_calling = False
        self._blocks: list[ContentBlock] = []
        self._open: dict[int, ContentBlock] = {}  # in the order in which they began
        self._next = 0  # the index of the next block
        self._is_closing = False  # there was a `message_delta`
        self._is_misshapen = False  # that had a fault
        self._reason: str | None = None
        self._tokens: object = None  # of output, as `message_start` has them
        # where `message_delta` stands, and its tokens of output
        self._last: tuple[int, object] = (0, None)

    def feed(self, frame: StreamBlock) -> Faults:
        if frame.data:
            yield from self._event(frame)
        elif frame.name and frame.name != "ping" and frame.kind != "message":
            yield "AN028", frame.pos, f"event: {frame.name[:60]}"

    def _event(self, frame: StreamBlock) -> Faults:
        is_error = "failed" in (
            self._terminal.get(frame.type or ""),
            self._terminal.get(frame.name or ""),
        )
        if is_done_mark(frame):
            yield "AN027", frame.pos, ""
        elif not is_json(frame) and not is_error:
            return
        elif frame.type is None and not is_error:
            yield "AN003", frame.pos, shown(frame.payload)
        else:
            yield from self._named(frame, frame.type or frame.name or "error")

    def end(self) -> Faults:
        """Yield what is missing. A stream that broke off lacks its end only."""
        if self._failed:
            return
        if self._stopped:
            yield from self._end()
        elif self._stream.is_seen_whole:
            yield "AN007", None, ""

    def _end(self) -> Faults:
        if self._reason is None and not self._is_misshapen:
            yield "AN009", self._last[0] or None, ""
        for block in self._open.values():
            yield "AN023", block.pos, f"block {block.index}"
        pos, tokens = self._last
        if is_whole_number(tokens) and is_whole_number(self._tokens) and tokens < self._tokens:
            yield "AN022", pos, f"{tokens} after {self._tokens}"
        if self._reason not in _CUT:
            for block in self._blocks:
                yield from block.end()
        is_calling = any(block.is_call for block in self._blocks) or self._is_calling
        if self._reason in ("tool_use", "end_turn") and is_calling != (self._reason == "tool_use"):
            yield (
                "AN032",
                pos or None,
                f"{shown(self._reason)} {'after' if is_calling else 'without'} a call",
            )

    def _named(self, frame: StreamBlock, type: str) -> Faults:
        if frame.kind != "message":  # one of AWS has no such line
            yield from _line(frame, type)
        if type != "ping":
            yield from self._in_order(frame, type)

    def _in_order(self, frame: StreamBlock, type: str) -> Faults:
        if self._failed:
            yield "AN026", frame.pos, shown(type)
        elif self._stopped:
            yield "AN008", frame.pos, shown(type)
        elif self._terminal.get(type) == "failed":
            self._failed = True
            yield from _error(frame) if type == "error" else ()
        else:
            if not self._has_begun and type != "message_start":
                yield "AN004", frame.pos, shown(type)
            self._has_begun = True
            meaning = self._meanings.get(type)
            if meaning:
                yield from meaning(self, frame.pos, object_(frame.payload))
                yield from _misfits(frame)

    def _message_start(self, pos: int, event: Object) -> Faults:
        if self._has_start:
            yield "AN005", pos, ""
            return
        self._has_start = True
        message = object_(event, "message")
        usage = object_(message, "usage")
        self._tokens, self._reason = usage.get("output_tokens"), text(message, "stop_reason")
        content = objects(message, "content")
        self._is_calling = any(each.get("type") == "tool_use" for each in content)
        self._next = len(array(message, "content"))  # what it says already, no event says again
        lacking = [name for name in ("id", "model") if not text(message, name)]
        lacking += [] if isinstance(message.get("content"), list) else ["content"]
        lacking += [
            f"usage.{each}"
            for each in ("input_tokens", "output_tokens")
            if not is_whole_number(usage.get(each))
        ]
        if lacking:
            yield "AN006", pos, f"it lacks {', '.join(lacking)}"

    def _block_start(self, pos: int, event: Object) -> Faults:
        index = event.get("index")
        if not is_whole_number(index):
            yield "AN012", pos, f"index is {shown(index)}"
            return
        yield from self._late(pos)
        if index != self._next:
            yield "AN013", pos, f"index {index} in the place of {self._next}"
        self._next = index + 1
        block = self._open[index] = ContentBlock(pos, index, object_(event, "content_block"))
        self._blocks.append(block)
        yield from block.begin()

    def _block_delta(self, pos: int, event: Object) -> Faults:
        yield from self._expect(pos, event)
        block = self._opened(event)
        yield from block.add(pos, event.get("delta")) if block else ()

    def _block_stop(self, pos: int, event: Object) -> Faults:
        yield from self._expect(pos, event)
        block = self._opened(event)
        if block:
            del self._open[block.index]

    def _opened(self, event: Object) -> ContentBlock | None:
        index = event.get("index")
        return self._open.get(index) if is_whole_number(index) else None

    def _expect(self, pos: int, event: Object) -> Faults:
        """Return the index of an event, which must be of the block that began last."""
        index = event.get("index")
        if not is_whole_number(index):
            yield "AN012", pos, f"index is {shown(index)}"
            return
        yield from self._late(pos)
        if index not in self._open:
            # its beginning is what is missing: the next block is in its place
            self._next += index == self._next
            yield "AN014", pos, f"block {index} is not open"
            return
        latest = next(reversed(self._open))
        if index != latest and not self._open[index].is_interleaved:
            self._open[index].is_interleaved = True
            yield "AN011", pos, f"block {index} goes on after block {latest} began"

    def _late(self, pos: int) -> Faults:
        if self._is_closing:
            yield "AN024", pos, ""

    def _message_delta(self, pos: int, event: Object) -> Faults:
        delta, usage = event.get("delta"), event.get("usage")
        tokens, reason = member(usage, "output_tokens"), text(delta, "stop_reason")
        if not isinstance(delta, dict) or not is_whole_number(tokens):
            self._is_misshapen = True
            yield "AN010", pos, f"delta is {shown(delta)}, usage is {shown(usage)}"
        if reason in _FOREIGN:
            yield "AN021", pos, f"stop_reason is {shown(reason)}"
        self._reason = reason or (self._reason if self._is_closing else None)
        self._is_closing = True
        self._last = (pos, tokens)

    def _message_stop(self, pos: int, event: Object) -> Faults:
        self._stopped = True
        return ()

    _meanings: ClassVar[Mapping[str, Callable[[MessageCheck, int, Object], Faults]]] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
    }


def _line(frame: StreamBlock, type: str) -> Faults:
    if frame.name is None:
        yield "AN001", frame.pos, shown(type)
    elif frame.name != type:
        yield "AN002", frame.pos, f"event: {frame.name[:60]}, type {shown(type)}"


def _error(frame: StreamBlock) -> Faults:
    error = object_(frame.payload, "error")
    if not (text(error, "type") and text(error, "message")):
        yield "AN025", frame.pos, shown(frame.payload)


def _misfits(frame: StreamBlock) -> Faults:
    for each in SHAPES.misfits(frame.payload, "event"):
        if not _JUDGED.fullmatch(each.path):
            yield "AN029", frame.pos, misfit(each)
    payload = object_(frame.payload)
    for usage in (member(payload, "message", "usage"), payload.get("usage")):
        for name, count in object_(usage).items():
            if is_whole_number(count) and not 0 <= count <= TOKENS_LIMIT:
                yield "AN030", frame.pos, f"{name} is {count}"
