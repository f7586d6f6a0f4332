"""The faults of a stream of Chat Completions: its chunks, its choices, its usage, its end.

A legacy completion (`/completions`) has other chunks and the same end: only that is judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain

from recorder.lint.faults import is_json, is_whole_number, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import Object, array, decoded, member, object_, objects
from recorder.wire.dialects.openai_chat.lint.shapes import SHAPES
from recorder.wire.dialects.openai_chat.message import CALLING, CHUNK, WHOLE

_SAME = {"id": "CH004", "created": "CH005", "model": "CH005"}
_REQUIRED: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "created": (int, float),
    "model": str,
}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_PARTS = (
    ("prompt_tokens", "prompt_tokens_details", "cached_tokens"),
    ("completion_tokens", "completion_tokens_details", "reasoning_tokens"),
)

_CONTENT_FIELDS = ("content", "refusal", "tool_calls", "function_call", "audio")
_REASONS = (*WHOLE, "length", "content_filter")
"""All that the API declares."""

_JUDGED = re.compile(
    r"id|created|model|object|usage\.\w+_tokens|choices(\[\d+\](\.index|\.delta(\.content|\.tool_calls\[\d+\]"
    r"(\.index|\.function\.arguments)?)?)?)?"
)
"""The fields that have rules of their own."""


class ToolCall:
    """Follows one tool call."""

    def __init__(self, pos: int) -> None:
        self._pos = pos
        self._arguments: list[str] = []
        self._id: object = None
        self._type: object = None
        self._name: object = None
        # its arguments: not if they are known to be no JSON for another reason
        self._is_judged = True

    def begin(self, delta: Object) -> Faults:
        self._id, self._name = delta.get("id"), _named(delta)
        if not self._id:
            yield "CH017", self._pos, f"id is {shown(self._id)}"
        if not self._name:
            yield "CH018", self._pos, shown(delta)
        yield from self._feed(self._pos, delta)

    def go_on(self, pos: int, delta: Object) -> Faults:
        for name, value, before in (
            ("id", delta.get("id"), self._id),
            ("name", _named(delta), self._name),
        ):
            if value and before:
                self._is_judged = self._is_judged and value == before
                yield "CH020", pos, f"{name} {shown(value)} after {shown(before)}"
        if "type" in delta and delta["type"] is None and self._type:
            yield "CH032", pos, shown(delta)
        if self._type == "function" and delta.get("function") is None:
            yield "CH034", pos, shown(delta)
        yield from self._feed(pos, delta)

    def end(self) -> Faults:
        if not self._type:
            yield "CH019", self._pos, ""
        if self._is_judged and not _is_json(arguments := "".join(self._arguments)):
            yield "CH022", self._pos, shown(arguments)

    def _feed(self, pos: int, delta: Object) -> Faults:
        self._type = self._type or delta.get("type")
        self._is_judged = self._is_judged and self._type != "custom"  # whose input is any text
        arguments = member(delta, "function", "arguments")
        if isinstance(arguments, str):
            self._arguments.append(arguments)
        elif arguments is not None:
            self._is_judged = False
            yield "CH021", pos, f"arguments is {shown(arguments)}"


class Choice:
    """Follows one choice."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._pos: int | None = None  # of the last that was said of it
        self._has_role = False
        self._reason: object = None
        self._has_another = False  # a second reason: which of them is the right one is not known
        self._calls: dict[int, ToolCall] = {}
        self._has_call = False
        self._lists: set[str] = set()  # the names of lists of objects that a delta had already

    def feed(self, pos: int, choice: Object, delta: Object) -> Faults:
        self._pos = pos
        yield from self._role(delta)
        if delta.get("content") is not None and not isinstance(delta["content"], str):
            yield "CH028", pos, shown(delta["content"])
        if self._reason and any(delta.get(name) for name in _CONTENT_FIELDS):
            yield "CH029", pos, shown(delta)
        self._has_call = self._has_call or bool(
            delta.get("tool_calls") or delta.get("function_call")
        )
        for call in array(delta, "tool_calls"):
            yield from self._call(pos, object_(call))
        yield from self._list_entries(pos, delta)
        yield from self._finish(choice.get("finish_reason"))

    def unfinished(self) -> Faults:
        if not self._reason:
            yield "CH011", self._pos, f"choice {self._index} has none"

    def end(self, may_stop_at_call: bool) -> Faults:
        """Yield what is missing.

        `may_stop_at_call`: the request names the tool, which OpenAI answers with `stop`.
        """
        if self._reason and not self._has_role:
            yield "CH010", None, f"choice {self._index} has none"
        if not self._has_another:
            yield from self._fitting(may_stop_at_call)
        if self._reason in WHOLE:
            for call in self._calls.values():
                yield from call.end()

    def _fitting(self, may_stop_at_call: bool) -> Faults:
        if self._reason in CALLING and not self._has_call:
            yield "CH035", self._pos, f"{shown(self._reason)} without a call"
        elif self._reason == "stop" and self._has_call and not may_stop_at_call:
            yield "CH035", self._pos, '"stop" after a call'

    def _role(self, delta: Object) -> Faults:
        if not delta.get("role"):
            return
        if self._has_role and self._pos is not None:
            yield "CH027", self._pos, f"choice {self._index}"
        self._has_role = True

    def _list_entries(self, pos: int, delta: Object) -> Faults:
        """Yield the entries of lists that an SDK cannot add to those of an earlier delta.

        Calls have a rule.
        """
        for name, value in delta.items():
            entries = objects(value)
            if not entries or name == "tool_calls":
                continue
            if name in self._lists and any(
                not is_whole_number(each.get("index")) for each in entries
            ):
                yield "CH037", pos, name
            self._lists.add(name)

    def _finish(self, reason: object) -> Faults:
        if reason and reason not in _REASONS:
            yield "CH036", self._pos, shown(reason)
        if reason:
            if self._reason:
                self._has_another = True
                yield "CH030", self._pos, f"{shown(reason)} after {shown(self._reason)}"
            self._reason = reason

    def _call(self, pos: int, delta: Object) -> Faults:
        index = delta.get("index")
        if not is_whole_number(index):
            yield "CH016", pos, shown(delta)
        elif index in self._calls:
            yield from self._calls[index].go_on(pos, delta)
        else:
            if index != len(self._calls):
                yield (
                    "CH031",
                    pos,
                    f"a call begins as index {index}, where {len(self._calls)} is next",
                )
            call = self._calls[index] = ToolCall(pos)
            yield from call.begin(delta)


class Chunks:
    """Follows the chunks of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._is_chat = "/chat/completions" in stream.exchange.target
        self._choices: dict[int, Choice] = {}
        # what all chunks have in common, as the first one has it
        self._same: dict[str, object] = {}
        # where, what, whether in a chunk of its own
        self._usages: list[tuple[int, Object, bool]] = []
        self._elsewhere = ""  # where usage stands that is not where clients look
        self._done = self._failed = False

    def feed(self, frame: StreamBlock) -> Faults:
        if frame.raw.startswith(b"error:"):
            self._failed = True
            yield "CH025", frame.pos, ""
        elif frame.data is None:
            return
        elif self._done:
            yield "CH002", frame.pos, shown(frame.data.decode("utf-8", "replace"))
        elif frame.data.startswith(b"[DONE]"):
            self._done = True
        elif isinstance(frame.payload, dict):
            yield from self._payload(frame, frame.payload)
        elif is_json(frame):
            yield "CH006", frame.pos, shown(frame.payload)

    def end(self) -> Faults:
        """Yield what is missing. Of a stream that broke off, what is missing first."""
        if self._failed or not self._stream.is_seen_whole:
            return
        if self._is_chat and not self._choices:
            yield "CH011", None, "there is no choice at all"
        unfinished = list(
            chain.from_iterable(choice.unfinished() for choice in self._choices.values())
        )
        yield from unfinished
        if self._done or (self._choices and not unfinished) or not self._is_chat:
            yield from self._end_of_whole()

    def _end_of_whole(self) -> Faults:
        tool_choice = member(self._stream.request_json, "tool_choice")
        for choice in self._choices.values():
            yield from choice.end(isinstance(tool_choice, dict) or tool_choice == "required")
        if not self._done:
            yield "CH001", None, ""
        end = self._stream.end
        is_whole = self._done or (end is not None and end.outcome == "eof")
        if self._is_chat and is_whole:
            yield from self._usage()

    def _payload(self, frame: StreamBlock, payload: Object) -> Faults:
        if self._failed:
            yield "CH024", frame.pos, ""
        elif payload.get("error") or frame.name == "error":
            self._failed = True
            yield from _error(frame, payload)
        elif self._is_chat and _is_filter_result(payload):
            yield from _filter_result(frame, payload)
        elif self._is_chat:
            if frame.name:
                yield "CH026", frame.pos, f"event: {frame.name[:60]}"
            yield from self._chunk(frame, payload)

    def _chunk(self, frame: StreamBlock, chunk: Object) -> Faults:
        if chunk.get("object") != CHUNK:
            yield "CH003", frame.pos, f"object is {shown(chunk.get('object'))}"
        yield from self._head(frame, chunk)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            yield "CH006", frame.pos, f"choices is {shown(choices)}"
        for choice in array(choices):
            yield from self._choice(frame, choice)
        for each in SHAPES.misfits(chunk, "chunk"):
            if not _JUDGED.fullmatch(each.path):
                yield "CH033", frame.pos, misfit(each)
        self._note_usage(frame, chunk)

    def _head(self, frame: StreamBlock, chunk: Object) -> Faults:
        for name, kind in _REQUIRED.items():
            value = chunk.get(name)
            if not isinstance(value, kind) or value == "":
                yield "CH007", frame.pos, f"{name} is {shown(value)}"
            elif value != self._same.setdefault(name, value):
                yield (
                    _SAME[name],
                    frame.pos,
                    f"{name} is {shown(value)}, was {shown(self._same[name])}",
                )

    def _choice(self, frame: StreamBlock, choice: object) -> Faults:
        fields = object_(choice)
        index, delta = fields.get("index"), fields.get("delta")
        if not is_whole_number(index) or not isinstance(delta, dict):
            yield "CH008", frame.pos, shown(choice)
            return
        if index not in self._choices:
            if index != len(self._choices):
                yield (
                    "CH009",
                    frame.pos,
                    f"a choice begins as index {index}, where {len(self._choices)} is next",
                )
            self._choices[index] = Choice(index)
        yield from self._choices[index].feed(frame.pos, fields, delta)

    def _note_usage(self, frame: StreamBlock, chunk: Object) -> None:
        usage, choices = object_(chunk, "usage"), chunk.get("choices")
        if usage:
            self._usages.append((frame.pos, usage, choices == []))
        elif member(chunk, "x_groq", "usage"):
            self._elsewhere = "it stands in x_groq.usage"
        elif any(choice.get("usage") for choice in objects(choices)):
            self._elsewhere = "it stands in a choice"

    def _usage(self) -> Faults:
        options = object_(self._stream.request_json, "stream_options")
        is_requested = options.get("include_usage") is True
        if not self._usages:
            if is_requested:
                yield "CH012", None, self._elsewhere
            return
        pos, usage, has_own_chunk = self._usages[-1]
        if len(self._usages) > 1:
            yield "CH014", self._usages[1][0], f"{len(self._usages)} chunks have it"
        elif is_requested and not has_own_chunk:
            yield "CH013", pos, ""
        contradiction = _contradiction(usage)
        if contradiction:
            yield "CH015", pos, contradiction


def _contradiction(usage: Object) -> str:
    """Return the fault of token counts; empty if there is none."""
    for name in _COUNTS:
        if not is_whole_number(usage.get(name)):
            return f"{name} is {shown(usage.get(name))}"
    prompt, completion, total = (usage[name] for name in _COUNTS)
    if min(prompt, completion) < 0:
        return f"{prompt} + {completion}: a count is negative"
    if total != prompt + completion:
        return f"{prompt} + {completion} is not {total}"
    for whole, details, part in _PARTS:
        count = member(usage, details, part)
        if is_whole_number(count) and count > usage[whole]:
            return f"{part} is {count}, of {usage[whole]}"
    return ""


def _error(frame: StreamBlock, payload: Object) -> Faults:
    error = payload.get("error")
    if (
        not isinstance(error, dict)
        or not isinstance(error.get("message"), str)
        or not error["message"]
    ):
        yield "CH023", frame.pos, shown(payload)


def _is_filter_result(chunk: Object) -> bool:
    """Return whether a chunk is a result of Azure's content filter: openai-python ignores its empty
    `object`.
    """
    return chunk.get("object") == "" and not any(
        object_(each, "delta") for each in objects(chunk, "choices")
    )


def _filter_result(frame: StreamBlock, chunk: Object) -> Faults:
    """Yield the fault of a result of a content filter: whoever loops over its choices reads their
    fields.
    """
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
        yield "CH006", frame.pos, f"choices is {shown(choices)}"


def _named(call: Object) -> object:
    return member(call, "function", "name") or member(call, "custom", "name")


def _is_json(source: str) -> bool:
    try:
        decoded(source.encode("utf-8", "replace"))
    except ValueError:
        return False
    return True
