"""The chunks of Gemini → facts.

Numbers that are zero are not on the wire (proto3), the index of a candidate among them. An error
may come as bare JSON over many lines, without `data:`, between events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    MalformedPayload,
    ResponseFinished,
    ResponseStarted,
    TextAdded,
    TierReported,
    UsageDetails,
    UsageReported,
)
from recorder.wire.dialects.decoder import (
    Common,
    Content,
    Facts,
    FastPath,
    JsonDecoder,
    failed,
    unknown,
)
from recorder.wire.dialects.gemini.candidate import NO_CONTENT, Candidate
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    member,
    names,
    object_,
    objects,
    places,
    text,
    whole,
)
from recorder.wire.dialects.keys import ERROR, Whole
from recorder.wire.dialects.usage_report import COUNTS, ModalityLists, counts_at, usage_of_google

RESPONSE = "GenerateContentResponse"


class _Text(Common):
    text: str
    thought: bool = False


class _Content(Common):
    parts: tuple[_Text]
    role: str | None = None


class _CommonCandidate(Common):
    content: _Content
    index: Whole = 0


_CommonCount = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _ModalityCount(msgspec.Struct, gc=False, rename="camel"):
    token_count: _CommonCount = 0


_CommonList = Annotated[list[_ModalityCount], msgspec.Meta(max_length=64)] | None


class _CommonUsage(msgspec.Struct, gc=False, rename="camel"):
    """A report of usage whose counts are surely numbers of tokens: their sums too."""

    total_token_count: _CommonCount
    prompt_token_count: _CommonCount | None = None
    tool_use_prompt_token_count: _CommonCount | None = None
    cached_content_token_count: _CommonCount | None = None
    candidates_token_count: _CommonCount | None = None
    thoughts_token_count: _CommonCount | None = None
    prompt_tokens_details: _CommonList = None
    tool_use_prompt_tokens_details: _CommonList = None
    cache_tokens_details: _CommonList = None
    candidates_tokens_details: _CommonList = None
    service_tier: str | None = None


class _CommonChunk(Common, rename="camel"):
    candidates: tuple[_CommonCandidate]
    usage_metadata: _CommonUsage | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None


_decode_chunk = msgspec.json.Decoder(_CommonChunk).decode

_COUNT = "TokenCount"

_OWN = places("""
input_tokens promptTokenCount
tool_use toolUsePromptTokenCount
cache_read_input_tokens cachedContentTokenCount
output_tokens candidatesTokenCount
reasoning_output_tokens thoughtsTokenCount
total_tokens totalTokenCount
""")
_OF_ANOTHER_API = {
    name: paths for name, paths in places(COUNTS).items() if name != "reasoning_output_tokens"
}
"""Counts that a gateway reports under the names of the API that it speaks to."""

_NO_DETAILS = UsageDetails()

_ELSEWHERE = names("""
    error usageMetadata promptFeedback responseId modelVersion createTime modelStatus traceId
    totalTokens promptTokensDetails cachedContentTokenCount totalBillableCharacters
    """)
"""Fields of a chunk without candidates that are known: an error that is null or empty, and those of
`countTokens`."""


class GeminiDecoder(JsonDecoder):
    """Follows one response; there are only chunks, so a document, or an array of chunks, is decoded
    in the same way.
    """

    def __init__(self) -> None:
        self._candidates: dict[int, Candidate] = {}
        self._started: ResponseStarted = ResponseStarted()
        self._lists, self._details = "", _NO_DETAILS  # of the usage so far, by modality
        self._reporting = b""  # the last chunk whose usage is not read yet

    about = NO_CONTENT

    def contents(self, type: str | None, payload: Any) -> Iterator[Content]:
        for given in payload if isinstance(payload, list) else (payload,):
            wrapped = member(given, "response")
            chunk = wrapped if isinstance(wrapped, dict) else given
            if not isinstance(chunk, dict):
                yield "", chunk
            elif "candidates" in chunk:
                yield "candidates", chunk["candidates"]
            else:
                yield from (
                    (name, value) for name, value in chunk.items() if name not in _ELSEWHERE
                )

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return {RESPONSE: self._fast_path}

    def _fast_path(self, payloads: Iterable[bytes]) -> Iterator[TextAdded]:
        for data in payloads:
            chunk, before = _decode_chunk(data), self._started
            id, model = chunk.response_id, chunk.model_version
            if (id != before.response_id and id) or (model != before.model and model):
                return
            piece = chunk.candidates[0]
            candidate, part = self._candidates.get(piece.index), piece.content.parts[0]
            delta = (
                candidate.added(part.text, part.thought)
                if candidate is not None and part.text
                else None
            )
            if delta is None:
                return
            usage = chunk.usage_metadata
            if usage is not None:
                if usage.service_tier and usage.service_tier != self._tier:
                    return
                self._reporting = data
            yield delta

    def latest_usage(self) -> Facts:
        """Return the usage of the last chunk that was read on the fast path, and had one: each
        chunk repeats it.
        """
        if not self._reporting:
            return ()
        data, self._reporting = self._reporting, b""
        return self._read(data, lambda chunk: self._used(chunk["usageMetadata"]))

    def payload(self, type: str | None, payload: Any) -> Facts:
        if isinstance(payload, list):
            return list(chain.from_iterable(map(self._chunk, payload)))
        return (
            (failed(payload),)
            if type == ERROR and isinstance(payload, dict)
            else self._chunk(payload)
        )

    def _chunk(self, payload: Any) -> Facts:
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not a JSON object"),)
        if payload.get("error"):
            return (failed(payload),)
        wrapped = payload.get("response")  # as to the Gemini CLI
        chunk: Object = wrapped if isinstance(wrapped, dict) else payload
        usage = object_(chunk, "usageMetadata")
        tiers = [
            TierReported(each.tier.lower()) for each in self._served_at(text(usage, "serviceTier"))
        ]
        strange = (
            [] if "candidates" in chunk else [name for name in chunk if name not in _ELSEWHERE]
        )
        return (
            *self._begun(text(chunk, "responseId"), text(chunk, "modelVersion")),
            *chain.from_iterable(map(self._answered, objects(chunk, "candidates"))),
            *_blocked(object_(chunk, "promptFeedback")),
            *tiers,
            *self._used(usage),
            *map(unknown, strange),
        )

    def _answered(self, candidate: Object) -> Facts:
        index = whole(candidate, "index") or 0
        return self._candidates.setdefault(index, Candidate(index)).add_chunk(candidate)

    def _used(self, snapshot: Object) -> Facts:
        """Return the usage of a snapshot.

        A count that it leaves out is not that of the one before; some have none.
        """
        counts = counts_at(snapshot, _OWN)
        if counts["input_tokens"] is None and counts["total_tokens"] is None:
            counts |= counts_at(snapshot, _OF_ANOTHER_API)
        if counts["total_tokens"] is None and not _has_count(snapshot):
            return ()
        details = _NO_DETAILS if _LIST_NAMES.isdisjoint(snapshot) else self._listed(snapshot)
        return (UsageReported(usage_of_google(counts), as_json(snapshot), details),)

    def _listed(self, snapshot: Object) -> UsageDetails:
        """Return the counts by modality, which most chunks repeat."""
        lists = as_json([snapshot.get(name) for name in _LIST_NAMES])
        if lists != self._lists:
            self._lists, self._details = lists, _LISTS.details(snapshot)
        return self._details


def _blocked(feedback: Object) -> Facts:
    reason, explanation = text(feedback, "blockReason"), text(feedback, "blockReasonMessage")
    facts: list[Fact] = [ResponseFinished(reason)] if reason else []
    if explanation:
        facts.append(ErrorReported(reason, None, explanation))
    return facts


def _has_count(snapshot: Object) -> bool:
    return any(
        name.endswith((_COUNT, "_tokens")) and value is not None for name, value in snapshot.items()
    )


_LISTS = ModalityLists(
    "tokenCount",
    input=("promptTokensDetails", "toolUsePromptTokensDetails"),
    cached=("cacheTokensDetails",),
    output=("candidatesTokensDetails",),
)
_LIST_NAMES = frozenset((*_LISTS.input, *_LISTS.cached, *_LISTS.output))
