"""Chat Completions, legacy completions and everything compatible: `data: {chunk}` until `data: [DONE]`, mostly.

Must not know: other wire formats.

No event line, no sequence number, no items: `id` is the completion's. Several vendors never send `[DONE]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from recorder.wire.dialects.dialect import Dialect, NoiseField, RequestPlaces, ResponseFields, below
from recorder.wire.dialects.json_values import Object, objects, objects_in
from recorder.wire.dialects.keys import DONE, ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.openai import CACHE, MARKS, SUSPECTS, error_body
from recorder.wire.dialects.openai_chat.conversation import CompletionConversation
from recorder.wire.dialects.openai_chat.decoder import ChatDecoder
from recorder.wire.dialects.openai_chat.message import CHUNK, WHOLE
from recorder.wire.dialects.prompt import PromptFormat, PromptPart


class _ChunkChoice(msgspec.Struct):
    index: Whole | None = None


class _Chunk(Payload):
    object: Text | None = None
    choices: list[_ChunkChoice] | None = None


def _name(chunk: _Chunk) -> Named:
    index = chunk.choices[0].index if chunk.choices else None
    return ERROR if chunk.error else chunk.object or chunk.type, None, None, index


def is_event(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a chunk of a completion."""
    return payload.get("object") == CHUNK


def speaks(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a completion or a chunk of one."""
    return str(payload.get("object")).startswith("chat.completion") or "choices" in payload


def _is_last(chunks: Sequence[Object]) -> bool:
    """Return whether nothing but `[DONE]` can follow: the usage, alone in a chunk, after a reason to finish.

    A usage beside that reason is not enough: some servers continue with another answer after it.
    """
    *before, last = chunks or [{}]
    is_finished = any(choice.get("finish_reason") for choice in objects_in(before, "choices"))
    is_usage = last.get("choices") == [] and bool(last.get("usage"))
    return is_usage and is_finished and all(len(objects(chunk, "choices")) <= 1 for chunk in before)


_CHOICES = ("choices.*.delta.", "choices.*.message.")
_TEXTS = (
    *("content", "content.*.text", "content.*.thinking.*.text", "refusal", "reasoning", "reasoning_content"),
    *("reasoning_text", "thinking", "cot_summary", "thinking_blocks.*.thinking"),
    *("reasoning_details.*.text", "reasoning_details.*.summary"),
    *("tool_calls.*.function.arguments", "tool_calls.*.function.name", "function_call.arguments", "function_call.name"),
)
_SECONDS = ("queue_time", "prompt_time", "completion_time", "total_time")

DIALECT = Dialect(
    name="openai-chat",
    routes=re.compile(r"^\S+ /(?:.*/)?completions(?:/|$)"),
    keys=KeyExtractor(_Chunk, _name),
    decoder=ChatDecoder,
    terminal={DONE: "completed", ERROR: "failed"},
    needs_terminal=False,
    whole_reasons=frozenset(WHOLE),
    is_last=_is_last,
    has_choices=True,
    error_body=error_body,
    conversation=CompletionConversation,
    # Source: OpenAI's guide "Prompt caching".
    prompt=PromptFormat(
        generates=re.compile(r"/completions/?$"),
        parts=(
            PromptPart("tools"),
            PromptPart("functions"),
            PromptPart("response_format", "parameter"),
            PromptPart("prompt"),
            PromptPart("messages", "conversation"),
        ),
        marks=MARKS,
        suspects=(*SUSPECTS, "reasoning_effort", "verbosity"),
        retention="prompt_cache_retention",
    ),
    cache=CACHE,
    fields=ResponseFields(
        texts=(*below(_CHOICES, *_TEXTS), "choices.*.text"),
        usage=("usage", "x_groq.usage"),
        noise=(
            NoiseField("id", ("id", "x_groq.id", "request_id"), "made anew for each completion"),
            NoiseField("id", below(_CHOICES, "tool_calls.*.id"), "made anew for each call"),
            NoiseField("id", below(_CHOICES, "audio.id", "reasoning_details.*.id"), "made anew for each part"),
            NoiseField(
                "id",
                below(_CHOICES, "provider_metadata.openai.responseId"),
                "a gateway tells the id of what it stands for",
            ),
            NoiseField("time", ("created",), "when a completion was made"),
            NoiseField("time", below(_CHOICES, "audio.expires_at"), "when something will be forgotten"),
            NoiseField("time", below(("usage.", "x_groq.usage."), *_SECONDS), "Groq reports seconds among the tokens"),
            NoiseField("time", below(("time_info.",), "created", *_SECONDS), "Cerebras reports seconds"),
            NoiseField("made", ("system_fingerprint",), "names the machines that answered"),
            NoiseField("padding", ("obfuscation",), "hides from a listener how long a delta is"),
            NoiseField("padding", ("p",), "the same at Mistral"),
        ),
    ),
    places=RequestPlaces(
        credentials=(  # of Azure's "On Your Data", in both of its spellings
            *("data_sources.*.parameters.key", "data_sources.*.parameters.authentication.key"),
            *("dataSources.*.parameters.key", "dataSources.*.parameters.authentication.key"),
            "data_sources.*.parameters.embedding_dependency.authentication.key",
            "dataSources.*.parameters.embeddingDependency.authentication.key",
        ),
        of_model=(
            *("messages", "prompt", "suffix", "prediction", "response_format", "functions", "function"),
            *("role_information", "roleInformation"),
            "choices",
        ),
    ),
    profiles=("chat",),
    has_error_lines=True,
    speaks=speaks,
    is_event=is_event,
    target=lambda is_document, payloads: "/v1/chat/completions",
)
