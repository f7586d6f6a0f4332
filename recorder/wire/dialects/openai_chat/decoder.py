"""The chunks and the bodies of Chat Completions → facts.

`message` reads a delta, `choice` makes facts of it, those of a tool call too; the rows are made in
`recorder.projections`.

What has `choices` is a chunk, or as a body a completion, whatever it calls itself. Fields that
vendors add are ignored, except those that the modules of this folder name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import NoneType
from typing import Any, Literal

import msgspec

from recorder.model.facts import (
    Fact,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import (
    DOCUMENT,
    Content,
    Facts,
    FastPath,
    JsonDecoder,
    failed,
    unknown,
)
from recorder.wire.dialects.errors import vendors_errors
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    member,
    object_,
    objects,
    places,
    text,
    whole,
)
from recorder.wire.dialects.keys import ERROR
from recorder.wire.dialects.openai_chat.choice import Choice, added, decode, items
from recorder.wire.dialects.openai_chat.message import (
    ABOUT,
    CHUNK,
    Delta,
    citations,
    content_of,
    delta_of,
)
from recorder.wire.dialects.usage_report import (
    COUNTS,
    counts_at,
    details_at,
    reported_cost,
    token_count,
)

_COMPLETIONS = (CHUNK, "chat.completion", "text_completion")


class ChatDecoder(JsonDecoder):
    """Follows one response: its id and model, its choices by index."""

    def __init__(self) -> None:
        self._started: ResponseStarted = ResponseStarted()
        self._choices: dict[int, Choice] = {}

    about = ABOUT

    def contents(self, type: str | None, payload: Any) -> Iterator[Content]:
        choices = member(payload, "choices")
        if isinstance(choices, list):
            for choice in choices:
                yield content_of(choice) if isinstance(choice, dict) else ("choices", choice)
        elif type != DOCUMENT:
            yield "", payload

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return {CHUNK: self._fast_path}

    def _fast_path(self, payloads: Iterable[bytes]) -> Iterator[TextAdded]:
        id, model, choice_of = self._started.response_id, self._started.model, self._choices.get
        for chunk in map(decode, payloads):
            if (chunk.id != id and chunk.id) or (chunk.model != model and chunk.model):
                return
            piece = chunk.choices[0]
            choice = choice_of(piece.index)
            delta = None if choice is None else added(piece.delta, choice)
            if delta is None:
                return
            yield delta

    def payload(self, type: str | None, payload: Any) -> Facts:
        facts = self._decoded(type, payload, self._chunk)
        return (unknown(_kind(object_(payload)) or type),) if facts is None else facts

    def whole(self, payload: Any) -> Facts:
        facts = self._decoded(None, payload, _body)
        return tuple(_refused(object_(payload))) if facts is None else facts

    def _decoded(
        self, type: str | None, payload: Any, facts_of: Callable[[Object], Iterator[Fact]]
    ) -> Facts | None:
        """Decode a payload as a completion and for errors; `None` if it is neither."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not a JSON object"),)
        if not isinstance(payload.get("choices"), list | NoneType):
            return (MalformedPayload("`choices` is not an array"),)
        errors = [*_errors(type, payload)]
        if not _is_completion(payload):
            return errors or None
        begun = self._begun(text(payload, "id"), text(payload, "model"))
        tiers = self._served_at(text(payload, "service_tier"))
        return [*begun, *tiers, *facts_of(payload), *errors, *self._used(payload)]

    def _chunk(self, chunk: Object) -> Iterator[Fact]:
        for given in objects(chunk, "choices"):
            index = whole(given, "index") or 0
            choice = self._choices.setdefault(index, Choice(index))
            yield from choice.add_delta(delta_of(given), object_(given, "logprobs"))
            if reason := text(given, "finish_reason"):
                yield from choice.end(reason, citations(chunk))
                yield ResponseFinished(reason, _verdict(reason))

    def _used(self, chunk: Object) -> Iterator[Fact]:
        """Yield the usage of a chunk or a body: at its top, where Groq has it, or in a choice
        (Moonshot).
        """
        holders = (chunk, object_(chunk, "x_groq"), *objects(chunk, "choices"))
        usage = next((usage for holder in holders if (usage := object_(holder, "usage"))), None)
        if usage:
            cost = reported_cost(usage, self._data, "usage")
            counts = _counts(usage)
            yield UsageReported(counts, as_json(usage), details_at(usage, _DETAILS, cost))
            yield from self._fallen(counts)


def _body(body: Object) -> Iterator[Fact]:
    choices = [(choice, _whole_message(choice, body)) for choice in objects(body, "choices")]
    yield ResponseItems(
        tuple(chain.from_iterable(items(message, choice) for choice, message in choices))
    )
    for choice, message in choices:
        yield from map(unknown, message.unknown)
        if reason := text(choice, "finish_reason"):
            yield ResponseFinished(reason, _verdict(reason))


def _verdict(reason: str) -> Literal["failed"] | None:
    # of OpenRouter and others, with an error beside it or without
    return "failed" if reason == "error" else None


def _whole_message(choice: Object, body: Object) -> Delta:
    message = delta_of(choice)
    if message.texts and not message.annotations:
        message.annotations += citations(body)
    return message


def _errors(type: str | None, payload: Object) -> Iterator[Fact]:
    """Yield the errors at the top of a chunk or a body, where Groq has them, or in a choice
    (OpenRouter).
    """
    if (
        payload.get("error")
        or type == ERROR
        or (payload.get("choices") is None and _kind(payload) == ERROR)
    ):
        yield failed(payload)
        return
    for place in (object_(payload, "x_groq"), *objects(payload, "choices")):
        if place.get("error"):
            yield failed({"error": place["error"]})
        else:
            yield from vendors_errors(place)


def _is_completion(payload: Object) -> bool:
    return (
        isinstance(payload.get("choices"), list)
        or text(payload, "object") in _COMPLETIONS
        or bool(payload.get("usage"))
    )


def _kind(payload: Object) -> str:
    return text(payload, "object") or text(payload, "type") or ""


def _refused(body: Object) -> Iterator[Fact]:
    """Yield the fact of a body that is neither a completion nor an error of OpenAI: of another
    server or route.
    """
    kind = _kind(body)
    reason = body.get("message") or body.get("detail")
    if reason:
        yield failed(body)
    elif kind != "list" and not kind.endswith(".deleted"):
        yield unknown(kind)


_COUNTS = places(
    f"{COUNTS}cache_write_input_tokens prompt_tokens_details.cache_write_tokens cache_creation_input_tokens"
)
# Citations are of Perplexity, searches of Perplexity, of OpenRouter, and of Anthropic behind a
# gateway.
_DETAILS = places("""
cache_write_1h_input_tokens cache_creation.ephemeral_1h_input_tokens
input_audio_tokens prompt_tokens_details.audio_tokens
cache_read_input_audio_tokens prompt_tokens_details.cached_tokens_details.audio_tokens
input_image_tokens prompt_tokens_details.image_tokens
input_video_tokens prompt_tokens_details.video_tokens
output_audio_tokens completion_tokens_details.audio_tokens
output_image_tokens completion_tokens_details.image_tokens
output_video_tokens completion_tokens_details.video_tokens
output_citation_tokens citation_tokens
web_searches num_search_queries server_tool_use_details.web_search_requests
web_searches server_tool_use.web_search_requests
""")


def _counts(usage: Object) -> Usage:
    """Return the six counts, in the words of every vendor.

    Input includes what was cached. Output includes reasoning, though xAI counts it apart, where the
    total shows it, and Perplexity, which counts citations apart too.
    """
    counts, citations = Usage(**counts_at(usage, _COUNTS)), token_count(usage, "citation_tokens")
    input, output, reasoning = (
        counts.input_tokens,
        counts.output_tokens,
        counts.reasoning_output_tokens,
    )
    if output is not None and citations is not None:
        output = whole(output + citations + (reasoning or 0))
    elif (
        reasoning
        and input is not None
        and output is not None
        and counts.total_tokens == input + output + reasoning
    ):
        output = whole(output + reasoning)
    return msgspec.structs.replace(counts, output_tokens=output)
