"""The places in payloads of Chat Completions: texts and calls, usage, what differs between two answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.wire.dialects.dialect import NoiseField, RequestPlaces, ResponseFields, below

CALLING = ("tool_calls", "function_call")
WHOLE = ("stop", *CALLING)
"""The reasons for which a choice ends when all of it was said."""

CHUNK = "chat.completion.chunk"

_CHOICES = ("choices.*.delta.", "choices.*.message.")
_TEXTS = (
    *("content", "content.*.text", "content.*.thinking.*.text", "refusal", "reasoning", "reasoning_content"),
    *("reasoning_text", "thinking", "cot_summary", "thinking_blocks.*.thinking"),
    *("reasoning_details.*.text", "reasoning_details.*.summary"),
    *("tool_calls.*.function.arguments", "tool_calls.*.function.name", "function_call.arguments", "function_call.name"),
)
_SECONDS = ("queue_time", "prompt_time", "completion_time", "total_time")


PLACES = RequestPlaces(
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
)

FIELDS = ResponseFields(
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
)


def is_event(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a chunk of a completion."""
    return payload.get("object") == CHUNK


def speaks(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a completion or a chunk of one."""
    return str(payload.get("object")).startswith("chat.completion") or "choices" in payload
