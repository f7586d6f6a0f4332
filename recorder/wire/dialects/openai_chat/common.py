"""The common chunk of Chat Completions, which adds one text to one item that is there: one decode, one fact.

A field that would mean more has a type that allows no more than nothing, so that such a chunk is not a common one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from recorder.model.facts import TextAdded
from recorder.wire.dialects.errors import NoVendorError
from recorder.wire.dialects.openai_chat.choice import Choice

_Nothing = Literal[""] | None


class _Function(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    arguments: str
    name: _Nothing = None


class _Call(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    index: int
    function: _Function
    type: str | None = None
    id: _Nothing = None


class _RawReasoning(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Text that the plain one beside it repeats."""

    type: Literal["reasoning.text"]
    text: str
    index: int | None = None
    format: str | None = None
    id: str | None = None
    signature: str | None = None
    provider: str | None = None


class _CommonDelta(msgspec.Struct, gc=False, forbid_unknown_fields=True):
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


class _CommonChoice(NoVendorError, gc=False):
    delta: _CommonDelta
    index: int = 0
    finish_reason: _Nothing = None
    logprobs: None = None
    error: None = None
    usage: None = None


class _CommonChunk(NoVendorError, gc=False):
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
    spoken, thought, calls = delta.content, delta.reasoning_content or delta.reasoning, delta.tool_calls
    if spoken:
        if thought or calls or delta.reasoning_details or delta.channel or choice.message not in choice.open:
            return None
        return TextAdded(choice.message, "text", 0, spoken)
    if thought:
        repeated = (delta.reasoning or thought, *[detail.text for detail in delta.reasoning_details or ()])
        if calls or choice.reasoning not in choice.open or any(text != thought for text in repeated):
            return None
        return TextAdded(choice.reasoning, "reasoning", 0, thought)
    if calls and len(calls) == 1 and not delta.reasoning_details:
        item, arguments = choice.calls.get(calls[0].index), calls[0].function.arguments
        if not item or not arguments:
            return None
        choice.arguments[item].append(arguments)
        return TextAdded(item, "arguments", 0, arguments)
    return None
