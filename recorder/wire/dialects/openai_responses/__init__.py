"""OpenAI Responses: `event: <type>`, one line of JSON, gapless sequence numbers; gateways send it
less tidily.

Must not know: other wire formats.

The live API nests its errors (`{"type": "error", "error": {…}}`), and sends `response.failed` after
them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    MessageIds,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    WebSocketFormat,
    noise_fields,
    paths,
    response_routes,
)
from recorder.wire.dialects.json_values import UNUSUAL, Object
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.openai import CACHE, ERROR_STATUSES, MARKS, SUSPECTS, error_body
from recorder.wire.dialects.openai_responses.conversation import (
    CONTINUATION,
    OF_THE_RESPONSE,
    ResponsesConversation,
)
from recorder.wire.dialects.openai_responses.decoder import ResponsesDecoder
from recorder.wire.dialects.prompt import PromptFormat, PromptPart
from recorder.wire.dialects.sdks import OPENAI, Sdk


class _OutputItem(msgspec.Struct):
    id: Text | None = None


class _ResponsesEvent(Payload):
    sequence_number: Whole | None = None
    item_id: Text | None = None
    output_index: Whole | None = None
    item: _OutputItem | None = None  # of output_item.added and .done, which have no item_id


def _name(event: _ResponsesEvent) -> Named:
    return (
        event.type or (ERROR if event.error else None),
        event.sequence_number,
        event.item_id or (event.item.id if event.item else None),
        event.output_index,
    )


def error_events(status: int, message: str, number: int) -> list[dict[str, Any]]:
    """Return an error as the live API says it in a stream: the event of it, and the failed
    response.
    """
    error = error_body(status, message, None)["error"]
    stated = {"code": error["code"] or "invalid_prompt", "message": message}
    response = {
        "id": "resp_error",
        "object": "response",
        "status": "failed",
        "error": stated,
        "output": [],
    }
    return [
        {"type": ERROR, "error": error, "sequence_number": number},
        {"type": "response.failed", "response": response, "sequence_number": number + 1},
    ]


class _ResponseId(msgspec.Struct):
    id: Text | None = None
    previous_response_id: Text | None = None


class _MessageIds(msgspec.Struct):
    stream_id: Text | None = None
    response_id: Text | None = None
    previous_response_id: Text | None = None
    response: _ResponseId | None = None


_ids_of = msgspec.json.Decoder(_MessageIds).decode


def message_ids(payload: bytes) -> MessageIds:
    """Return the ids of a WebSocket message.

    One with an id that is none, or that is not JSON, has none.
    """
    try:
        found = _ids_of(payload)
    except UNUSUAL:
        return MessageIds()
    response = found.response or _ResponseId()
    previous_response_id = found.previous_response_id or response.previous_response_id
    return MessageIds(found.stream_id, found.response_id or response.id, previous_response_id)


def is_event(payload: Object) -> bool:
    """Return whether a payload is an event of a response."""
    return str(payload.get("type")).startswith("response.")


def speaks(payload: Object) -> bool:
    """Return whether a payload is a response or an event of one."""
    return is_event(payload) or payload.get("object") == "response"


_RESPONSES = ("", "response.")  # a document, and events that hold one
_ITEMS = ("item.", "output.*.", "response.output.*.")

DIALECT = Dialect(
    name="openai-responses",
    sdks=(
        Sdk(
            OPENAI,
            re.compile(r"(?P<base>.*)/responses"),
            ("responses.create",) * 2,
            ("model", "input"),
        ),
    ),
    routes=re.compile(r"^\S+ /(?:.*/)?responses(?:/|$)"),
    keys=KeyExtractor(_ResponsesEvent, _name),
    decoder=ResponsesDecoder,
    terminal={
        "response.completed": "completed",
        "response.incomplete": "incomplete",
        "response.failed": "failed",
        ERROR: "failed",
    },
    needs_terminal=True,
    whole_reasons=frozenset({"completed"}),
    error_body=error_body,
    error_events=error_events,
    error_statuses=ERROR_STATUSES,
    conversation=ResponsesConversation,
    continuation=CONTINUATION,
    # Source: OpenAI's guide "Prompt caching" of September 2026, "Which settings affect the cached
    # prefix?".
    prompt=PromptFormat(
        generates=re.compile(r"/responses/?$"),
        parts=(
            PromptPart("tools"),
            PromptPart("text.format", "parameter"),
            PromptPart("prompt"),
            PromptPart("instructions"),
            PromptPart(
                "input",
                "conversation",
                text_as=(b'[{"role":"user","content":', b"}]"),
                ignored=OF_THE_RESPONSE,
            ),
        ),
        marks=MARKS,
        suspects=(
            *SUSPECTS,
            "reasoning.effort",
            "reasoning.summary",
            "text.verbosity",
            "truncation",
        ),
        retention="prompt_cache_retention",
    ),
    cache=CACHE,
    fields=ResponseFields(
        texts=paths(
            """
            delta text refusal arguments input code name part.text part.refusal
            item>content.*.text item>content.*.refusal item>summary.*.text item>arguments item>input item>code item>name
            item>action item>operation item>actions
            """,  # the last line: what tools of the provider are called with, objects
            item=_ITEMS,
        ),
        arguments=paths("item>queries item>prompt item>revised_prompt", item=_ITEMS),
        usage=("response.usage", "usage"),
        noise=noise_fields(
            """
id | response>id response>previous_response_id response_id | made anew for each response
id | response>conversation.id | made anew for each conversation
id | item>id | made anew for each item
id | item_id item>approval_request_id | names an item of this response
id | item>call_id | names a call of this response
id | item>container_id item>environment.container_id item>content.*.annotations.*.container_id
 annotation.container_id part.annotations.*.container_id response>tools.*.environment.container_id
 | of the sandbox that a tool ran in
time | response>created_at | when a response was made
time | response>completed_at | when it was complete
made | response>metadata.system_fingerprint | names the machines that answered
padding | obfuscation | hides from a listener how long a delta is
""",
            item=_ITEMS,
            response=_RESPONSES,
        ),
        ciphertexts={
            "encrypted_content": "only the provider can read it, and it never comes out twice the same"
        },
    ),
    request_noise=(
        RequestNoise(
            "references", "responses-call", "input.*.call_id", "joins a call and its result"
        ),
    ),
    places=RequestPlaces(
        credentials=(
            "tools.*.authorization",  # of an MCP server or a connector
            "tools.*.container.network_policy.domain_secrets.*.value",
        ),
        of_model=paths("""
            input instructions prompt text format tools.*.parameters tools.*.description
            output item part delta annotation annotations logprobs top_logprobs
            """),
    ),
    profiles=("openai", "codex", "sdk"),
    response_routes=response_routes("responses", is_restated=True),
    harmless_parameters=r"include(?:\[\]|_obfuscation)?",
    speaks=speaks,
    is_event=is_event,
    target=lambda is_document, payloads: "/v1/responses",
    websocket=WebSocketFormat(
        "response.create", "response.steer", frozenset({"response.created"}), message_ids
    ),
    has_event_lines=True,
)
