"""OpenAI Responses: `event: <type>`, one line of JSON, gapless sequence numbers; gateways send it less tidily.

Must not know: other wire formats.

The live API nests its errors (`{"type": "error", "error": {…}}`), and sends `response.failed` after them.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.dialect import Dialect, MessageIds, WebSocketFormat
from recorder.wire.dialects.json_values import UNUSUAL
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.openai import CACHE, error_body
from recorder.wire.dialects.openai_responses.continuation import CONTINUATION
from recorder.wire.dialects.openai_responses.conversation import ResponsesConversation
from recorder.wire.dialects.openai_responses.decoder import ResponsesDecoder
from recorder.wire.dialects.openai_responses.fields import FIELDS, PLACES, is_event, speaks
from recorder.wire.dialects.openai_responses.prompt import PROMPT


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
    """Return the ids of a WebSocket message. One with an id that is none, or that is not JSON, has none."""
    try:
        found = _ids_of(payload)
    except UNUSUAL:
        return MessageIds()
    response = found.response or _ResponseId()
    previous_response_id = found.previous_response_id or response.previous_response_id
    return MessageIds(found.stream_id, found.response_id or response.id, previous_response_id)


DIALECT = Dialect(
    name="openai-responses",
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
    conversation=ResponsesConversation,
    continuation=CONTINUATION,
    prompt=PROMPT,
    cache=CACHE,
    fields=FIELDS,
    places=PLACES,
    profiles=("openai", "codex", "sdk"),
    speaks=speaks,
    is_event=is_event,
    target=lambda is_document, payloads: "/v1/responses",
    websocket=WebSocketFormat("response.create", "response.steer", "response.created", message_ids),
    has_event_lines=True,
)
