"""What may differ between two answers that say the same: fields of each API by their paths, each with the reason.

A path is where the API itself puts the field: what bears the same name in the arguments of a call, in what a user said
or in a list of models is no noise. The noise of requests is in `recorder.replay.matching.noise_rules`; what a response
echoes of it is noise here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

import msgspec

Kind = Literal["id", "time", "made", "padding"]
"""`id`: only which of them are the same counts. `time`, `made`: that there is one counts. `padding`: nothing counts."""

KINDS: frozenset[str] = frozenset(get_args(Kind))


class Field(msgspec.Struct, frozen=True):
    """Places of an API's payloads: names with dots between, `*` for each element of a list."""

    kind: Kind
    api: str
    paths: tuple[str, ...]
    reason: str


def _below(places: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(f"{place}{name}" for place in places for name in names)


_RESPONSE = ("", "response.")  # a document, and events that hold one
_ITEM = ("item.", "output.*.", "response.output.*.")
_CHOICE = ("choices.*.delta.", "choices.*.message.")
_USAGE = ("usage.", "x_groq.usage.")
_MESSAGE = ("", "message.")
_BLOCK = ("content_block.", "content.*.")
_CHUNK = ("", "response.", "*.")  # plain, of Code Assist, and the array that a stream is without `alt=sse`
_PART = _below(_CHUNK, "candidates.*.content.parts.*.")
_STEP = ("step_details.", "delta.step_details.")

FIELDS: tuple[Field, ...] = (
    Field("id", "openai-responses", _below(_RESPONSE, "id", "previous_response_id"), "made anew for each response"),
    Field("id", "openai-responses", _below(_RESPONSE, "conversation.id"), "made anew for each conversation"),
    Field("id", "openai-responses", ("response_id",), "made anew for each response"),
    Field("id", "openai-responses", _below(_ITEM, "id"), "made anew for each item"),
    Field(
        "id", "openai-responses", ("item_id", *_below(_ITEM, "approval_request_id")), "names an item of this response"
    ),
    Field("id", "openai-responses", _below(_ITEM, "call_id"), "names a call of this response"),
    Field(
        "id",
        "openai-responses",
        (
            *_below(_ITEM, "container_id", "environment.container_id", "content.*.annotations.*.container_id"),
            *("annotation.container_id", "part.annotations.*.container_id"),
            *_below(_RESPONSE, "tools.*.environment.container_id"),
        ),
        "of the sandbox that a tool ran in",
    ),
    Field("time", "openai-responses", _below(_RESPONSE, "created_at"), "when a response was made"),
    Field("time", "openai-responses", _below(_RESPONSE, "completed_at"), "when it was complete"),
    Field(
        "made", "openai-responses", _below(_RESPONSE, "metadata.system_fingerprint"), "names the machines that answered"
    ),
    Field("padding", "openai-responses", ("obfuscation",), "hides from a listener how long a delta is"),
    Field("id", "openai-chat", ("id", "x_groq.id", "request_id"), "made anew for each completion"),
    Field("id", "openai-chat", _below(_CHOICE, "tool_calls.*.id"), "made anew for each call"),
    Field("id", "openai-chat", _below(_CHOICE, "audio.id", "reasoning_details.*.id"), "made anew for each part"),
    Field(
        "id",
        "openai-chat",
        _below(_CHOICE, "provider_metadata.openai.responseId"),
        "a gateway tells the id of what it stands for",
    ),
    Field("time", "openai-chat", ("created",), "when a completion was made"),
    Field("time", "openai-chat", _below(_CHOICE, "audio.expires_at"), "when something will be forgotten"),
    Field(
        "time",
        "openai-chat",
        _below(_USAGE, "queue_time", "prompt_time", "completion_time", "total_time"),
        "Groq reports seconds among the tokens",
    ),
    Field(
        "time",
        "openai-chat",
        _below(("time_info.",), "created", "queue_time", "prompt_time", "completion_time", "total_time"),
        "Cerebras reports seconds",
    ),
    Field("made", "openai-chat", ("system_fingerprint",), "names the machines that answered"),
    Field("padding", "openai-chat", ("obfuscation",), "hides from a listener how long a delta is"),
    Field("padding", "openai-chat", ("p",), "the same at Mistral"),
    Field("id", "anthropic", _below(_MESSAGE, "id"), "made anew for each message"),
    Field("id", "anthropic", ("request_id",), "made anew for each request"),
    Field("id", "anthropic", _below(_BLOCK, "id"), "made anew for each call"),
    Field("id", "anthropic", _below(_BLOCK, "tool_use_id"), "names a call of this message"),
    Field("id", "anthropic", _below((*_MESSAGE, "delta."), "container.id"), "of the sandbox that a tool ran in"),
    Field("time", "anthropic", _below((*_MESSAGE, "delta."), "container.expires_at"), "when it will be forgotten"),
    Field("id", "gemini", (*_below(_CHUNK, "responseId"), "traceId"), "made anew for each response"),
    Field(
        "id",
        "gemini",
        _below(
            _PART,
            *("functionCall.id", "functionResponse.id", "executableCode.id", "codeExecutionResult.id"),
            *("toolCall.id", "toolResponse.id"),
        ),
        "made anew for each call",
    ),
    Field("time", "gemini", _below(_CHUNK, "createTime"), "when a response was made"),
    Field("id", "other", ("id", "event_id", "interaction.id"), "made anew for each object of a stream"),
    Field("id", "other", ("run_id", "thread_id"), "of one run, of one conversation with an assistant"),
    Field(
        "id",
        "other",
        (*_below(_STEP, "tool_calls.*.id", "message_creation.message_id"), "delta.message.tool_calls.id"),
        "made anew for each call and message",
    ),
    Field(
        "time",
        "other",
        ("created", "created_at", "completed_at", "started_at", "expires_at", "interaction.created"),
        "when something was made, begun, complete, and will be forgotten",
    ),
)

SECRETS: Mapping[str, str] = {
    "encrypted_content": "only the provider can read it, and it never comes out twice the same",
    "signature": "of a thought",
    "thoughtSignature": "of a thought",
    "thought_signature": "of a thought",
}
"""Ciphertext, wherever a field has such a name: of it the length counts, and never more, whatever is asked for."""

REDACTED_BLOCK = "redacted_thinking"
"""A block of Anthropic's whose `data` is ciphertext."""


def noise(api: str, *, is_stream: bool = True) -> Iterator[tuple[str, Kind]]:
    """The paths of an API's noise. Documents of an API that nobody here knows have none: a list of models is one."""
    if is_stream or api != "other":
        yield from ((path, field.kind) for field in FIELDS if field.api == api for path in field.paths)


def in_usage(api: str) -> dict[str, Kind]:
    """The names that are noise in a report of tokens."""
    return {path.removeprefix("usage."): kind for path, kind in noise(api) if path.startswith("usage.")}
