"""Anthropic Messages: `event: <type>`, one line of JSON padded with spaces, blocks numbered by
`index`.

Must not know: other wire formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from recorder.wire.dialects.anthropic.conversation import (
    BILLING,
    CONTINUATION,
    AnthropicConversation,
)
from recorder.wire.dialects.anthropic.decoder import MessagesDecoder
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object, names
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart
from recorder.wire.dialects.sdks import ANTHROPIC, Sdk


class _Block(msgspec.Struct):
    id: Text | None = None


class _MessagesEvent(Payload):
    index: Whole | None = None
    content_block: _Block | None = None


def _name(event: _MessagesEvent) -> Named:
    block_id = event.content_block.id if event.content_block else None
    return event.type or (ERROR if event.error else None), None, block_id, event.index


_ERRORS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of Anthropic's, which has no code."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


_EVENTS = names(
    "message_start message_delta message_stop content_block_start content_block_delta content_block_stop"
)


def is_event(payload: Object) -> bool:
    """Return whether a payload is an event of a message."""
    return str(payload.get("type")) in _EVENTS


def speaks(payload: Object) -> bool:
    """Return whether a payload is a message or an event of one; an Assistants message has an
    `object`.
    """
    is_message = payload.get("type") == "message" and "content" in payload
    return (is_event(payload) or is_message) and "object" not in payload


_MESSAGES = ("", "message.")
_BLOCKS = ("content_block.", "content.*.")
_TEXT = (b'[{"type":"text","text":', b"}]")

DIALECT = Dialect(
    name="anthropic",
    harmless_parameters="beta",
    sdks=(
        Sdk(
            ANTHROPIC,
            re.compile(r"(?P<base>.*)/v1/messages"),
            ("messages.create",) * 2,
            ("model", "max_tokens", "messages"),
            headers=frozenset({"anthropic-beta"}),
        ),
    ),
    # The messages of an Assistants thread are OpenAI's; on Vertex, the model's publisher says whose
    # the method is.
    routes=re.compile(
        r"^POST /(?!.*\bthreads/)(?:.*/)?messages(?:/(?:count_tokens|batches)\b|$)"
        r"|^\S+ /(?:.*/)?messages/batches(?:/|$)"
        r"|^\S+ /.*\bpublishers/anthropic/models/[^/]+:(?:streamR|r)awPredict$"
    ),
    keys=KeyExtractor(_MessagesEvent, _name),
    decoder=MessagesDecoder,
    terminal={"message_stop": "completed", ERROR: "failed"},
    needs_terminal=True,
    whole_reasons=frozenset({"end_turn", "tool_use", "stop_sequence"}),
    error_body=error_body,
    error_statuses=(400, 401, 403, 404, 413, 429, 500, 529),  # of Anthropic's page "Errors"
    conversation=AnthropicConversation,
    continuation=CONTINUATION,
    # Source: Anthropic's pages "Prompt caching" (its table "What invalidates the cache", its "Cache
    # limitations"), "Structured outputs" and "Thinking", as of October 2026. A change of the
    # output's schema or of the speed is one of the system prompt; a change of `tool_choice` or
    # `thinking` leaves tools and system cached, and not the messages.
    prompt=PromptFormat(
        generates=re.compile(r"/messages$|(?<!count-tokens):(?:streamR|r)awPredict$"),
        parts=(
            PromptPart("tools"),
            PromptPart("output_format", "parameter"),
            PromptPart("output_config.format", "parameter"),
            PromptPart("speed", "parameter"),
            PromptPart(
                "system",
                text_as=_TEXT,
                no_content=re.compile(rb'\{"type":"text","text":"' + BILLING.encode()),
            ),
            PromptPart("tool_choice", "parameter"),
            PromptPart("thinking", "parameter"),
            PromptPart("messages", "conversation", blocks="content", blocks_text_as=_TEXT),
        ),
        marks=("cache_control",),
        suspects=("output_config.effort", "context_management", "mcp_servers", "container"),
    ),
    cache=CachePolicy(
        # Each pattern is searched in the name of the model; names on Bedrock and Vertex have more
        # around it.
        minimums=(
            (r"(?:opus|fable|mythos)-5|(?:sonnet|haiku)-5[-.]5", 512),
            (r"opus-4[-.][56]|haiku-4[-.]5", 4096),
            (r"opus-4[-.]7|mythos|haiku", 2048),
            (r"", 1024),
        ),
        lapses_s=((r"", (300, 300)),),  # of a mark without `ttl`; each mark has its own
        needs_marks=True,
        reach=20,  # "the system checks at most 20 positions per breakpoint"
    ),
    fields=ResponseFields(
        texts=paths(
            """
            delta.text delta.thinking delta.partial_json delta.content delta.stop_details.explanation
            block>text block>thinking block>name block>input block>content
            """,
            block=_BLOCKS,
        ),
        usage=("message.usage", "usage"),
        noise=noise_fields(
            """
id | message>id | made anew for each message
id | request_id | made anew for each request
id | block>id | made anew for each call
id | block>tool_use_id | names a call of this message
id | place>container.id | of the sandbox that a tool ran in
time | place>container.expires_at | when it will be forgotten
""",
            message=_MESSAGES,
            block=_BLOCKS,
            place=(*_MESSAGES, "delta."),
        ),
        ciphertexts={"signature": "of a thought"},
        ciphertext_block="redacted_thinking",
    ),
    request_noise=(
        RequestNoise(
            "references", "anthropic-call", "messages.*.content.*.id", "joins a call and its result"
        ),
        RequestNoise(
            "references", "anthropic-result", "messages.*.content.*.tool_use_id", "names a call"
        ),
    ),
    places=RequestPlaces(
        credentials=("mcp_servers.*.authorization_token",),
        of_model=paths("""
            messages system prompt tools.*.description tools.*.input_schema tools.*.input_examples
            content content_block delta message
            """),
    ),
    profiles=("anthropic",),
    speaks=speaks,
    is_event=is_event,
    target=lambda is_document, payloads: "/v1/messages",
    has_event_lines=True,
)
