"""Chat Completions, legacy completions and everything compatible: `data: {chunk}` until
`data: [DONE]`, mostly.

Must not know: other wire formats.

No event line, no sequence number, no items: `id` is the completion's. Several vendors never send
`[DONE]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object, objects, objects_in
from recorder.wire.dialects.keys import DONE, ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.openai import CACHE, ERROR_STATUSES, MARKS, SUSPECTS, error_body
from recorder.wire.dialects.openai_chat.conversation import CompletionConversation
from recorder.wire.dialects.openai_chat.decoder import ChatDecoder
from recorder.wire.dialects.openai_chat.message import CHUNK, WHOLE
from recorder.wire.dialects.prompt import PromptFormat, PromptPart
from recorder.wire.dialects.sdks import OPENAI, Sdk


class _ChunkChoice(msgspec.Struct):
    index: Whole | None = None


class _Chunk(Payload):
    object: Text | None = None
    choices: list[_ChunkChoice] | None = None


def _name(chunk: _Chunk) -> Named:
    index = chunk.choices[0].index if chunk.choices else None
    return ERROR if chunk.error else chunk.object or chunk.type, None, None, index


def _is_last(chunks: Sequence[Object]) -> bool:
    """Return whether nothing but `[DONE]` can follow: the usage, alone in a chunk, after a reason
    to finish.

    A usage beside that reason is not enough: some servers continue with another answer after it.
    """
    *before, last = chunks or [{}]
    is_finished = any(choice.get("finish_reason") for choice in objects_in(before, "choices"))
    is_usage = last.get("choices") == [] and bool(last.get("usage"))
    return is_usage and is_finished and all(len(objects(chunk, "choices")) <= 1 for chunk in before)


_CHOICES = ("choices.*.delta.", "choices.*.message.")


def speaks(payload: Object) -> bool:
    """Return whether a payload is a completion or a chunk of one: some gateways leave the `object`
    out.
    """
    is_named = str(payload.get("object")).startswith("chat.completion")
    return is_named or any(not _ANSWER.isdisjoint(choice) for choice in objects(payload, "choices"))


_ANSWER = frozenset({"delta", "message", "text"})

DIALECT = Dialect(
    name="openai-chat",
    sdks=(
        Sdk(
            OPENAI,
            re.compile(r"(?P<base>.*)/chat/completions"),
            ("chat.completions.create",) * 2,
            ("model", "messages"),
        ),
    ),
    routes=re.compile(r"^\S+ /(?:.*/)?completions(?:/|$)"),
    keys=KeyExtractor(_Chunk, _name),
    decoder=ChatDecoder,
    terminal={DONE: "completed", ERROR: "failed"},
    needs_terminal=False,
    whole_reasons=frozenset(WHOLE),
    is_last=_is_last,
    has_choices=True,
    error_body=error_body,
    error_statuses=ERROR_STATUSES,
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
        pieces=("choices.*.text",),  # of the older API, without chat
        texts=paths(
            """
            choice>content choice>content.*.text choice>content.*.thinking.*.text choice>refusal
            choice>reasoning choice>reasoning_content choice>reasoning_text choice>thinking choice>cot_summary
            choice>thinking_blocks.*.thinking choice>reasoning_details.*.text choice>reasoning_details.*.summary
            choice>tool_calls.*.function.arguments choice>tool_calls.*.function.name
            choice>function_call.arguments choice>function_call.name choices.*.text
            """,
            choice=_CHOICES,
        ),
        usage=("usage", "x_groq.usage"),
        noise=noise_fields(
            """
id | id x_groq.id request_id | made anew for each completion
id | choice>tool_calls.*.id | made anew for each call
id | choice>audio.id choice>reasoning_details.*.id | made anew for each part
id | choice>provider_metadata.openai.responseId | a gateway tells the id of what it stands for
time | created | when a completion was made
time | choice>audio.expires_at | when something will be forgotten
time | usage>queue_time usage>prompt_time usage>completion_time usage>total_time
 | Groq reports seconds among the tokens
time | time_info.created time_info.queue_time time_info.prompt_time time_info.completion_time time_info.total_time
 | Cerebras reports seconds
made | system_fingerprint | names the machines that answered
padding | obfuscation | hides from a listener how long a delta is
padding | p | the same at Mistral
""",
            choice=_CHOICES,
            usage=("usage.", "x_groq.usage."),
        ),
    ),
    request_noise=(
        RequestNoise(
            "references", "chat-call", "messages.*.tool_calls.*.id", "joins a call and its result"
        ),
        RequestNoise("references", "chat-result", "messages.*.tool_call_id", "names a call"),
    ),
    places=RequestPlaces(
        credentials=paths(  # of Azure's "On Your Data", in both of its spellings
            """
            source>key source>authentication.key data_sources.*.parameters.embedding_dependency.authentication.key
            dataSources.*.parameters.embeddingDependency.authentication.key
            """,
            source=("data_sources.*.parameters.", "dataSources.*.parameters."),
        ),
        of_model=paths("""
            messages prompt suffix prediction response_format functions function role_information roleInformation
            choices
            """),
    ),
    profiles=("chat",),
    has_error_lines=True,
    speaks=speaks,
    is_event=lambda payload: payload.get("object") == CHUNK,
    target=lambda is_document, payloads: "/v1/chat/completions",
)
