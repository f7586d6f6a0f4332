"""The items of one choice: at most one message and one reasoning, any number of tool calls and
pictures.

The wire names no items; what belongs together is settled here. An item begins with the first thing
it holds: a choice that only ends, or that only calls tools, has no message. Where a choice ends,
its items do, but more may follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Fact,
    Field,
    ItemFinished,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    TextAdded,
)
from recorder.wire.dialects.decoder import Common, unknown
from recorder.wire.dialects.errors import NoVendorError
from recorder.wire.dialects.json_values import Object, array, as_json, decoded, object_, text, whole
from recorder.wire.dialects.openai_chat.message import Delta, ToolCall

_SPOKEN: tuple[Field, ...] = ("text", "refusal")
_THOUGHT: tuple[Field, ...] = ("summary", "reasoning")

_UNFINISHED = {"length", "model_length", "max_tokens", "content_filter", "error"}
"""The reasons for which a choice ends before it is complete."""


class Choice:
    """Follows one choice."""

    def __init__(self, index: int) -> None:
        self.message = f"{index}.message"
        self.reasoning = f"{index}.reasoning"
        self.open: dict[str, ItemState] = {}  # by item, in order
        self.calls: dict[int | str | None, str] = {}  # the item of the latest call, by slot
        self.arguments: dict[str, list[str]] = {}  # of the calls, piece by piece
        self._ids: dict[str, str] = {}  # the call of each id
        self._index = index
        self._made = 0  # calls so far
        self._pictures = 0
        self._cited = False
        self._unfinished: list[str] = []

    def add_delta(self, delta: Delta, logprobs: Object) -> Iterator[Fact]:
        """Yield the facts of the deltas of one chunk."""
        for field, added in delta.texts:
            yield from self._add_text(delta.role, field, added)
        if delta.encrypted:
            yield from self._mark_encrypted()
        for call in delta.calls:
            yield from self._add_call(call)
        yield from self._cite(delta.annotations, delta.role)
        for picture in delta.pictures:
            yield from self._begin(f"{self._index}.image.{self._pictures}", _shown(picture))
            self._pictures += 1
        yield from self._add_logprobs(logprobs)
        yield from map(unknown, delta.unknown)

    def end(self, reason: str, citations: Sequence[str]) -> Iterator[Fact]:
        """Yield the items that are complete with this `finish_reason`, or as complete as they will
        be.

        `citations` are what the chunk lists beside the choices, for a message that has none of its
        own.
        """
        if self.message in self.open and not self._cited:
            yield from self._cite(citations, "")
        for item in self._unfinished:
            stated = msgspec.structs.replace(self.open[item], status=_status(reason))
            yield ItemFinished(item, self._index, stated)
        self._unfinished.clear()

    def _cite(self, annotations: Sequence[str], role: str) -> Iterator[Fact]:
        if annotations:
            self._cited = True
            yield from self._begin(self.message, _message(role))
        yield from (AnnotationAdded(self.message, annotation) for annotation in annotations)

    def _begin(self, item: str, stated: ItemState) -> Iterator[Fact]:
        if item not in self.open:
            self.open[item] = stated
            self._unfinished.append(item)
            yield ItemStarted(item, self._index, stated)

    def _add_text(self, role: str, field: Field, added: str) -> Iterator[Fact]:
        is_message = field in _SPOKEN
        item = self.message if is_message else self.reasoning
        yield from self._begin(item, _message(role) if is_message else _REASONING)
        yield TextAdded(item, field, 0, added)

    def _mark_encrypted(self) -> Iterator[Fact]:
        began = self.reasoning in self.open
        yield from self._begin(self.reasoning, _ENCRYPTED)
        self.open[self.reasoning] = _ENCRYPTED
        if began:
            yield ItemFinished(self.reasoning, self._index, _ENCRYPTED)

    def _add_call(self, call: ToolCall) -> Iterator[Fact]:
        item = self._latest(call)
        if item is None or self._is_another(call, item):
            item = f"{self._index}.call.{self._made}"
            self.arguments[item] = []
            self._made += 1
            yield from self._begin(item, _stated(call))
        else:
            yield from self._complete(item, call)
        self.calls[call.slot] = item
        if call.id:
            self._ids.setdefault(call.id, item)
        if call.arguments:
            self.arguments[item].append(call.arguments)
            yield TextAdded(item, "arguments", 0, call.arguments)

    def _complete(self, item: str, call: ToolCall) -> Iterator[Fact]:
        """Add what a later delta says of a call.

        It is told at once: the stream may break off before the end.
        """
        stated = self.open[item]
        name, call_id = stated.name or call.name or None, stated.call_id or call.id or None
        if (name, call_id) != (stated.name, stated.call_id):
            self.open[item] = msgspec.structs.replace(stated, name=name, call_id=call_id)
            yield ItemFinished(
                item, self._index, msgspec.structs.replace(self.open[item], status="in_progress")
            )

    def _latest(self, call: ToolCall) -> str | None:
        """Return the call that last had a slot, or of several there the one with an id.

        Nothing but arguments in an unused slot go on with the latest call, until its own are
        complete: some gateways number pieces otherwise than calls.
        """
        item = self.calls.get(call.slot)
        if item is not None:
            return self._ids.get(call.id, item) if call.id else item
        latest = next(reversed(self.arguments), None)
        if latest is None or call.name or call.id or self._is_complete(latest):
            return None
        return latest

    def _is_another(self, call: ToolCall, item: str) -> bool:
        """Return whether a call is not the one that last had its slot.

        Those without an index come whole, some of them without an id; those with one may get a new
        id with each delta, and some vendors give every call the index 0. There another name is
        another call, and so is what begins a call after arguments that are complete.
        """
        latest = self.open[item]
        if call.name and latest.name and call.name != latest.name:
            return True
        if call.slot is None:
            return call.id != latest.call_id if call.id else bool(call.name)
        if call.id and call.id == latest.call_id:
            return False
        if call.name and call.id and latest.call_id:
            return True
        begins = bool(call.name or call.id) and bool(call.type or call.arguments.strip())
        return begins and self._is_complete(item)

    def _is_complete(self, item: str) -> bool:
        """Return whether the arguments of a call so far are a whole JSON object: more of them would
        be none.
        """
        pieces = self.arguments[item]
        # before all of them are read, perhaps for each piece
        if not pieces or not pieces[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(decoded("".join(pieces).encode()), dict)
        except ValueError:
            return False

    def _add_logprobs(self, logprobs: Object) -> Iterator[Fact]:
        """Add log probabilities.

        Tokens that are not text yet (of a tool call, of half a character) have no item: they are
        left out.
        """
        for item, found in (
            (self.message, _spoken_logprobs(logprobs)),
            (self.reasoning, _of_reasoning(logprobs)),
        ):
            if found and item in self.open:
                yield LogprobsAdded(item, found)


def items(delta: Delta, choice: Object) -> Iterator[ItemState]:
    """Yield the items of a choice that came whole."""
    reason, index = text(choice, "finish_reason"), whole(choice, "index") or 0
    status = _status(reason) if reason else None
    for stated in _whole(delta, object_(choice, "logprobs")):
        yield msgspec.structs.replace(stated, output_index=index, status=status)


def _whole(delta: Delta, logprobs: Object) -> Iterator[ItemState]:
    thoughts = _joined(delta, _THOUGHT)
    if thoughts or delta.encrypted:
        yield ItemState(
            "reasoning",
            "reasoning",
            texts=thoughts,
            encrypted=delta.encrypted,
            logprobs=_of_reasoning(logprobs),
        )
    spoken, annotations = _joined(delta, _SPOKEN), tuple(delta.annotations)
    if spoken or annotations:
        found = _spoken_logprobs(logprobs)
        yield ItemState(
            "message",
            "message",
            role=delta.role,
            texts=spoken,
            annotations=annotations,
            logprobs=found,
        )
    for call in delta.calls:
        texts = (("arguments", 0, call.arguments),) if call.arguments else ()
        yield msgspec.structs.replace(_stated(call), texts=texts)
    yield from map(_shown, delta.pictures)


def _joined(delta: Delta, fields: Sequence[Field]) -> tuple[tuple[Field, int, str], ...]:
    texts = {field: "".join(part for of, part in delta.texts if of == field) for field in fields}
    return tuple((field, 0, joined) for field, joined in texts.items() if joined)


def _status(reason: str) -> str:
    """Return the status of the items of a choice with that reason to finish."""
    return "incomplete" if reason in _UNFINISHED else "completed"


def _spoken_logprobs(logprobs: Object) -> str | None:
    """Return the log probabilities of text and refusal; a legacy completion has one object for all
    of its tokens.
    """
    if array(logprobs, "tokens"):
        return as_json([logprobs])
    found = [*array(logprobs, "content"), *array(logprobs, "refusal")]
    return as_json(found) if found else None


def _of_reasoning(logprobs: Object) -> str | None:
    found = array(logprobs, "reasoning_content")
    return as_json(found) if found else None


_REASONING = ItemState("reasoning", "reasoning")
_ENCRYPTED = ItemState("reasoning", "reasoning", encrypted=True)


def _message(role: str) -> ItemState:
    return ItemState("message", "message", role=role)


def _stated(call: ToolCall) -> ItemState:
    return ItemState(
        "tool_call", call.type or "function", name=call.name or None, call_id=call.id or None
    )


def _shown(picture: str) -> ItemState:
    return ItemState("other", "image", output=picture)


# -- the common chunk, which adds one text to one item that is there: one decode, one fact

# A field that would mean more has a type that allows no more than nothing, so that such a chunk is
# not a common one.
_Nothing = Literal[""] | None


class _Function(Common):
    arguments: str
    name: _Nothing = None


class _Call(Common):
    index: int
    function: _Function
    type: str | None = None
    id: _Nothing = None


class _RawReasoning(Common):
    """Text that the plain one beside it repeats."""

    type: Literal["reasoning.text"]
    text: str
    index: int | None = None
    format: str | None = None
    id: str | None = None
    signature: str | None = None
    provider: str | None = None


class _CommonDelta(Common):
    """A delta without a member that is not known: whatever it is, it may be text."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[_RawReasoning] | None = None
    tool_calls: list[_Call] | None = None
    channel: str | None = None
    role: str | None = None
    refusal: _Nothing = None
    function_call: None = None
    annotations: None = None
    images: None = None
    audio: None = None


class _CommonChoice(NoVendorError):
    delta: _CommonDelta
    index: int = 0
    finish_reason: _Nothing = None
    logprobs: None = None
    error: None = None
    usage: None = None


class _CommonChunk(NoVendorError):
    choices: tuple[_CommonChoice]
    id: str | None = None
    model: str | None = None
    usage: None = None
    x_groq: None = None
    error: None = None


decode = msgspec.json.Decoder(_CommonChunk).decode
"""A common chunk; raises `msgspec.DecodeError` for any other."""


def added(delta: _CommonDelta, choice: Choice) -> TextAdded | None:
    """Return the fact of a common delta, if it is only one text and its item has begun."""
    spoken, thought, calls = (
        delta.content,
        delta.reasoning_content or delta.reasoning,
        delta.tool_calls,
    )
    if spoken:
        if (
            thought
            or calls
            or delta.reasoning_details
            or delta.channel
            or choice.message not in choice.open
        ):
            return None
        return TextAdded(choice.message, "text", 0, spoken)
    if thought:
        repeated = (
            delta.reasoning or thought,
            *[detail.text for detail in delta.reasoning_details or ()],
        )
        if (
            calls
            or choice.reasoning not in choice.open
            or any(text != thought for text in repeated)
        ):
            return None
        return TextAdded(choice.reasoning, "reasoning", 0, thought)
    if calls and len(calls) == 1 and not delta.reasoning_details:
        item, arguments = choice.calls.get(calls[0].index), calls[0].function.arguments
        if not item or not arguments:
            return None
        choice.arguments[item].append(arguments)
        return TextAdded(item, "arguments", 0, arguments)
    return None
