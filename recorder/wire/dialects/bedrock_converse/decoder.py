"""The events of Converse → facts. A block is an item; only that of a call has a beginning. The
counts come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Fact,
    Field,
    ItemFinished,
    ItemStarted,
    ItemState,
    MalformedPayload,
    ResponseFinished,
    TextAdded,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import Content, Facts, JsonDecoder, failed, unknown
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    places,
    text,
)
from recorder.wire.dialects.json_values import whole as number
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.usage_report import counts_at

EXCEPTIONS: Mapping[str, int] = {
    "validationException": 400,
    "modelStreamErrorException": 424,
    "throttlingException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
"""Errors in a stream, and the status of such a one in its place, where its name begins with a
capital letter.
"""


def exception_of(status: int) -> str:
    """Return the exception of a status; of one that has none, that of its class."""
    named = {each: name for name, each in EXCEPTIONS.items()}
    return named.get(status) or named[400 if status < 500 else 500]


_ABOUT = names("""
    role toolUseId type signature redactedContent p stopReason status
    usage metrics trace performanceConfig serviceTier additionalModelResponseFields citation
    """)
_COUNTS = places("""
input_tokens inputTokens
cache_read_input_tokens cacheReadInputTokens
cache_write_input_tokens cacheWriteInputTokens
output_tokens outputTokens
total_tokens totalTokens
""")

_MESSAGE = ItemState("message", "text", role="assistant")
_THOUGHT = ItemState("reasoning", "reasoningContent")


class ConverseDecoder(JsonDecoder):
    """Follows the blocks of one response."""

    def __init__(self) -> None:
        self._blocks: dict[int, ItemState] = {}

    about = _ABOUT

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        return (("", payload),)

    def payload(self, type: str | None, payload: Any) -> Facts:
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not a JSON object"),)
        if type in EXCEPTIONS:
            return (msgspec.structs.replace(failed(payload), type=type),)
        meaning = MEANINGS.get(type or "")
        return (unknown(type),) if meaning is None else meaning(self, payload)

    def whole(self, payload: Any) -> Facts:
        """Decode a document: a response, or an error."""
        response = object_(payload)
        if "output" not in response:
            return (failed(response),) if text(response, "message") else ()
        facts: list[Fact] = []
        for index, block in enumerate(objects(response, "output", "message", "content")):
            given = without_call(block)
            facts += self._on_start({"contentBlockIndex": index, "start": block})
            facts += self._on_delta({"contentBlockIndex": index, "delta": given})
            facts += self._on_block_stop({"contentBlockIndex": index})
        return *facts, *_used(response), *_stopped(response)

    def _on_start(self, event: Object) -> Facts:
        call = object_(event, "start", "toolUse")
        if not call:
            return ()
        id = text(call, "toolUseId")
        stated = ItemState("tool_call", "toolUse", item_id=id, name=text(call, "name"), call_id=id)
        return self._opened(_index(event), stated)

    def _opened(self, index: int, stated: ItemState) -> Facts:
        self._blocks[index] = stated
        return (ItemStarted(index, index, stated),)

    def _on_delta(self, event: Object) -> Facts:
        index, delta = _index(event), object_(event, "delta")
        thought = object_(delta, "reasoningContent")
        if thought:
            return self._thought(index, thought)
        if isinstance(delta.get("text"), str):
            return self._said(index, _MESSAGE, "text", delta["text"])
        if isinstance(delta.get("toolUse"), dict):
            return self._said(index, _CALL, "arguments", text(delta, "toolUse", "input") or "")
        if isinstance(delta.get("citation"), dict):
            return (AnnotationAdded(index, as_json(delta["citation"])),)
        if not delta:
            return ()
        stated = ItemState("other", next(iter(delta)), output=as_json(without_bytes(delta)))
        return self._opened(index, stated)

    def _thought(self, index: int, thought: Object) -> Facts:
        said = self._said(index, _THOUGHT, "reasoning", text(thought, "text") or "")
        if thought.get("signature") or thought.get("redactedContent"):
            self._blocks[index] = msgspec.structs.replace(self._blocks[index], encrypted=True)
        return said

    def _said(self, index: int, stated: ItemState, field: Field, added: str) -> Facts:
        begun = () if index in self._blocks else self._opened(index, stated)
        return (*begun, TextAdded(index, field, 0, added)) if added else begun

    def _on_block_stop(self, event: Object) -> Facts:
        index = _index(event)
        stated = self._blocks.get(index)
        if stated is None:
            return ()
        return (ItemFinished(index, index, msgspec.structs.replace(stated, status="completed")),)


_CALL = ItemState("tool_call", "toolUse")


def without_call(block: Object) -> Object:
    """Return a whole block as a delta: the input of a call as JSON, a thought without its wrapper."""
    call, thought = object_(block, "toolUse"), object_(block, "reasoningContent", "reasoningText")
    if call:
        return {"toolUse": {"input": as_json(call.get("input", {}))}}
    return {"reasoningContent": thought} if thought else block


def _index(event: Object) -> int:
    return number(event, "contentBlockIndex") or 0


def _stopped(event: Object) -> Facts:
    return (ResponseFinished(text(event, "stopReason")),)


def _used(event: Object) -> Facts:
    """Return the usage.

    `inputTokens` leaves out what was read from the cache, and written to it.
    """
    usage = object_(event, "usage")
    if not usage:
        return ()
    counts = counts_at(usage, _COUNTS)
    cached = (counts["cache_read_input_tokens"] or 0) + (counts["cache_write_input_tokens"] or 0)
    if counts["input_tokens"] is not None:
        counts["input_tokens"] = number(counts["input_tokens"] + cached)
    return (UsageReported(Usage(**counts), as_json(usage)),)


MEANINGS: Mapping[str, Callable[[ConverseDecoder, Object], Facts]] = {
    "messageStart": lambda decoder, event: (),
    "contentBlockStart": ConverseDecoder._on_start,
    "contentBlockDelta": ConverseDecoder._on_delta,
    "contentBlockStop": ConverseDecoder._on_block_stop,
    "messageStop": lambda decoder, event: _stopped(event),
    "metadata": lambda decoder, event: _used(event),
}
