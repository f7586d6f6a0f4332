"""The events of Anthropic Messages → facts.

No sequence number, no item ids except those of tool use blocks. A block is an item; the block of a
tool's result is what its call returned. `message_start` may also have whole blocks (programmatic
tool calls). Usage begins with `message_start`, and each `message_delta` overwrites keys of it.
Where another model takes over within the response (a `fallback` block names it), the response is
that model's, as the SDK has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, ClassVar

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Field,
    ItemFinished,
    ItemKey,
    ItemStarted,
    ItemState,
    Iteration,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    TextAdded,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.anthropic.blocks import ContentBlock, returned, stated, written_input
from recorder.wire.dialects.decoder import (
    DOCUMENT,
    Common,
    Content,
    Facts,
    FastPath,
    JsonDecoder,
    failed,
    unknown,
)
from recorder.wire.dialects.errors import NoVendorError, envelope_error
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    places,
    text,
    whole,
)
from recorder.wire.dialects.keys import ERROR, Whole
from recorder.wire.dialects.usage_report import (
    COUNTS,
    ReportedCost,
    counts_at,
    details_at,
    reported_cost,
    token_count,
)

DELTA = "content_block_delta"
FALLBACK = "fallback"
"""The type of the block at which another model takes over."""


class _TextDelta(Common, tag="text_delta"):
    text: str


class _ThinkingDelta(Common, tag="thinking_delta"):
    text: str = msgspec.field(name="thinking")
    estimated_tokens: int | None = None


class _InputDelta(Common, tag="input_json_delta"):
    text: str = msgspec.field(name="partial_json")


class _BlockDelta(NoVendorError):
    index: Whole
    delta: _TextDelta | _ThinkingDelta | _InputDelta
    error: None = None


_decode_delta = msgspec.json.Decoder(_BlockDelta).decode

_ABOUT = names("""
    type id index role model usage error caller container provider input
    signature encrypted_content encrypted_index data media_type category
    stop_reason stop_sequence fallback_credit_token page_age cache_control
    """)
"""Members of blocks and of their deltas that are not content. The input that a call begins with
comes at its end, unless it is streamed."""

_FIELDS: Mapping[type, Field] = {
    _TextDelta: "text",
    _ThinkingDelta: "reasoning",
    _InputDelta: "arguments",
}

_TEXTS: Mapping[str, tuple[str, Field]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "reasoning"),
    "input_json_delta": ("partial_json", "arguments"),
    "compaction_delta": ("content", "text"),
}


class MessagesDecoder(JsonDecoder):
    """Follows the blocks of one response. An index that is used again is another item."""

    def __init__(self) -> None:
        self._blocks: dict[int, ContentBlock] = {}
        self._starts: dict[int, int] = {}
        self._usage: dict[str, Any] = {}
        self._cost = ReportedCost()

    about = _ABOUT

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return {DELTA: self._fast_path}

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        if not isinstance(payload, dict):
            return (("", payload),)
        if type == DOCUMENT:
            return (("content", payload.get("content")),)
        type = type or text(payload, "type") or ""
        name = _CONTENTS.get(type, "")
        if isinstance(payload.get(name), dict):
            return ((name, payload[name]),)
        return () if type in _WITHOUT_CONTENT else (("", payload),)

    def _fast_path(self, payloads: Iterable[bytes]) -> Iterator[TextAdded]:
        block_of = self._blocks.get
        for event in map(_decode_delta, payloads):
            delta, block = event.delta, block_of(event.index)
            if block is None or not delta.text:
                return
            block.streamed = True
            yield TextAdded(block.key, _FIELDS[delta.__class__], 0, delta.text)

    def payload(self, type: str | None, payload: Any) -> Facts:
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not a JSON object"),)
        if type == ERROR or payload.get("error"):
            return (failed(payload),)
        type = type or text(payload, "type")
        meaning = self._meanings.get(type or "")
        return meaning(self, payload) if meaning else (unknown(type),)

    def whole(self, payload: Any) -> Facts:
        message = object_(payload)
        if message.get("type") == ERROR or message.get("error"):
            return (failed(message),)
        if not isinstance(message.get("content"), list):
            error = envelope_error(message)  # of a gateway
            return () if error is None else (error,)  # else a count of tokens, a batch
        blocks = objects(message["content"])
        items = [
            stated(block, status="completed", output_index=index)
            for index, block in enumerate(blocks)
        ]
        return (
            *self._begun(text(message, "id"), text(message, "model")),
            ResponseItems(tuple(item for item in items if item)),
            *chain.from_iterable(map(returned, blocks)),
            *self._used(message),
            *_refused(message),
            *_finished(message),
        )

    def _message_start(self, event: Object) -> Facts:
        self._usage, self._cost = {}, ReportedCost()
        message = object_(event, "message")
        return (
            *self._begun(text(message, "id"), text(message, "model")),
            *chain.from_iterable(starmap(self._whole, enumerate(objects(message, "content")))),
            *self._used(message, "message."),
            *_refused(message),
            *_finished(message),
        )

    def _served_by(self, model: str | None) -> Facts:
        """Start the response again under another model, which continues it; it has the same id."""
        return self._begun(None, model) if model else ()

    def _used(self, reported: Object, place: str = "") -> Facts:
        """Return the usage after what an object reports of it, which is after `place` in the
        payload.
        """
        usage = object_(reported, "usage")
        if not usage:
            return ()
        self._usage |= {
            name: value
            for name, value in usage.items()
            if value is not None or name not in self._usage
        }
        cost = reported_cost(usage, self._data, f"{place}usage")
        self._cost = cost if cost.usd is not None else self._cost
        iterations = objects(usage, "iterations")
        counts = counts_of(self._usage)
        runs = _beside(objects(self._usage, "iterations"))
        details = details_at(self._usage, _DETAILS, self._cost, text(self._usage, "inference_geo"))
        used = UsageReported(counts, as_json(self._usage), details, runs)
        return (
            *self._served_by(_fallback(iterations)),
            *self._served_at(text(usage, "service_tier")),
            *_odd_iterations(iterations),
            used,
            *self._fallen(counts),
        )

    def _block_start(self, event: Object) -> Facts:
        index, content = whole(event, "index"), event.get("content_block")
        if index is None or not isinstance(content, dict):
            return (MalformedPayload("content_block_start without an index or a block"),)
        return self._open(index, content)

    def _open(self, index: int, content: Object) -> Facts:
        item = stated(content)
        self._blocks[index] = block = ContentBlock(
            self._new_key(index), item, written_input(content)
        )
        model = text(content, "to", "model") if content.get("type") == FALLBACK else None
        return (
            *self._served_by(model),
            *returned(content),
            *(_opening(block.key, index, item) if item else ()),
        )

    def _whole(self, index: int, content: Object) -> Facts:
        """Open and finish a block of a message that begins: no later event marks it as complete."""
        return *self._open(index, content), *self._block_stop({"index": index})

    def _new_key(self, index: int) -> ItemKey:
        starts = self._starts[index] = self._starts.get(index, 0) + 1
        return index if starts == 1 else f"{index}.{starts}"

    def _block_delta(self, event: Object) -> Facts:
        index, delta = whole(event, "index"), object_(event, "delta")
        type = text(delta, "type") or ""
        meaning = self._deltas.get(type)
        if meaning is None:
            return (unknown(type or DELTA),)
        return (
            (MalformedPayload(f"{type} without an index"),)
            if index is None
            else meaning(self, index, delta)
        )

    def _text_delta(self, index: int, delta: Object) -> Facts:
        name, field = _TEXTS[delta["type"]]
        added = text(delta, name)
        if added is None:
            return (MalformedPayload(f"{delta['type']} without a text"),)
        if not added:
            return ()
        block = self._blocks.get(index)
        if block is None:
            return (TextAdded(index, field, 0, added),)
        block.streamed = True
        return (TextAdded(block.key, field, 0, added),)

    def _compaction_delta(self, index: int, delta: Object) -> Facts:
        if delta.get("encrypted_content"):
            self._signature_delta(index, delta)
        # none: it did not succeed
        return () if delta.get("content") is None else self._text_delta(index, delta)

    def _signature_delta(self, index: int, delta: Object) -> Facts:
        """Mark the block as encrypted; the fact comes when it ends, which is next."""
        block = self._blocks.get(index)
        if block and block.stated:
            block.stated = msgspec.structs.replace(block.stated, encrypted=True)
        return ()

    def _citations_delta(self, index: int, delta: Object) -> Facts:
        block = self._blocks.get(index)
        return (
            AnnotationAdded(block.key if block else index, as_json(object_(delta, "citation"))),
        )

    def _block_stop(self, event: Object) -> Facts:
        index = whole(event, "index")
        block = None if index is None else self._blocks.get(index)
        return (
            (ItemFinished(block.key, index, block.finished(block.stated)),)
            if block and block.stated
            else ()
        )

    def _message_delta(self, event: Object) -> Facts:
        delta = object_(event, "delta")
        return *self._used(event), *_refused(delta), *_finished(delta)

    def _nothing(self, event: Object) -> Facts:
        return ()

    _meanings: ClassVar[Mapping[str, Callable[[MessagesDecoder, Object], Facts]]] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        DELTA: _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _nothing,
        "ping": _nothing,
    }
    _deltas: ClassVar[Mapping[str, Callable[[MessagesDecoder, int, Object], Facts]]] = {
        "text_delta": _text_delta,
        "thinking_delta": _text_delta,
        "input_json_delta": _text_delta,
        "compaction_delta": _compaction_delta,
        "signature_delta": _signature_delta,
        "citations_delta": _citations_delta,
    }


_CONTENTS = {
    "content_block_start": "content_block",
    DELTA: "delta",
    "message_delta": "delta",
    "message_start": "message",
}
"""By type of event, the member that has the content."""

_WITHOUT_CONTENT = {"content_block_stop", "message_stop", "ping"}


def _opening(key: ItemKey, index: int, item: ItemState) -> Facts:
    """Begin a block, perhaps with some of its text. Input comes at its end, if none is streamed."""
    texts = [TextAdded(key, *each) for each in item.texts if each[0] != "arguments"]
    annotations = [AnnotationAdded(key, annotation) for annotation in item.annotations]
    return (
        ItemStarted(key, index, msgspec.structs.replace(item, texts=(), annotations=())),
        *texts,
        *annotations,
    )


def _refused(delta: Object) -> Facts:
    """Yield the refusal of a message: its reason is a field beside the reason to stop, in no block."""
    explanation = text(delta, "stop_details", "explanation")
    if not explanation:
        return ()
    stated = ItemState("message", "refusal", role="assistant", status="completed")
    item = "refusal"
    return (
        ItemStarted(item, None, stated),
        TextAdded(item, "refusal", 0, explanation),
        ItemFinished(item, None, stated),
    )


def _finished(message: Object) -> Facts:
    reason = text(message, "stop_reason")
    return (ResponseFinished(reason),) if reason else ()


# -- usage, of a response and of what it took beside its message

_CACHE_READ = "cache_read_input_tokens"  # which `input_tokens` leaves out, as no other does
_COUNTS = places(f"""
cache_read_input_tokens cache_read_input_tokens
cache_write_input_tokens cache_creation_input_tokens
output_tokens output_tokens
reasoning_output_tokens output_tokens_details.thinking_tokens
{COUNTS}
""")
_WRITTEN_1H = ("cache_creation", "ephemeral_1h_input_tokens")
_DETAILS = places("""
cache_write_1h_input_tokens cache_creation.ephemeral_1h_input_tokens
web_searches server_tool_use.web_search_requests
""")


def counts_of(usage: Object) -> Usage:
    """Return the counts, `input_tokens` with those read from the cache and written to it; a total
    is not sent.
    """
    counts, fresh = counts_at(usage, _COUNTS), token_count(usage, "input_tokens")
    # of another API: what was cached is in it
    gross, output = counts["input_tokens"], counts["output_tokens"]
    if fresh is not None:
        read, written = token_count(usage, _CACHE_READ), counts["cache_write_input_tokens"]
        gross = whole(fresh + (read or 0) + (written or 0))
    total = None if gross is None or output is None else whole(gross + output)
    return Usage(**{**counts, "input_tokens": gross, "total_tokens": total})


# The types of the entries of `usage.iterations`. Source: anthropic-sdk-python,
# `BetaUsage.iterations`: "A `compaction` entry's tokens are not included in the top-level `usage`
# fields." Nor are an advisor's; real streams add up so.
_COUNTED = frozenset({"message", "fallback_message"})
_NOT_COUNTED = frozenset({"compaction", "advisor_message"})


def _beside(iterations: Sequence[Object]) -> tuple[Iteration, ...]:
    """Return the runs whose tokens are not among those of the response."""
    return tuple(
        Iteration(
            each["type"], text(each, "model"), counts_of(each), token_count(each, *_WRITTEN_1H)
        )
        for each in iterations
        if text(each, "type") in _NOT_COUNTED
    )


def _odd_iterations(iterations: Sequence[Object]) -> Facts:
    types = {text(each, "type") for each in iterations}
    return [unknown(type) for type in sorted(types - _COUNTED - _NOT_COUNTED, key=str)]


def _fallback(iterations: Sequence[Object]) -> str | None:
    """Return the model that served the response instead of another, from the entry of the usage for
    it.
    """
    served = [each for each in iterations if each.get("type") == "fallback_message"]
    return text(served[-1], "model") if served else None
