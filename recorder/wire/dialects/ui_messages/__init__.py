"""The UI message stream of Vercel's AI SDK: what an app sends to its screen, event by event, until
`[DONE]`.

Its path is the app's own, often `/api/chat`: the body of the request says it, as `useChat` sends
it, and else the first events. Written after `ai` 6.0, and compared with what it reads.
Must not know: other wire formats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recorder.model.events import Header
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object, names, request_object, text
from recorder.wire.dialects.keys import KeyExtractor, Named, Payload, Text
from recorder.wire.dialects.ui_messages.conversation import UiConversation
from recorder.wire.dialects.ui_messages.decoder import EVENTS, UiMessageDecoder


class _Chunk(Payload, rename="camel"):
    id: Text | None = None
    tool_call_id: Text | None = None
    message_id: Text | None = None


def _name(chunk: _Chunk) -> Named:
    return chunk.type, None, chunk.tool_call_id or chunk.id or chunk.message_id, None


_TRIGGERS = ("submit-message", "regenerate-message")
_TELLING = names("start text-start reasoning-start tool-input-start tool-input-available")


def is_asked(headers: Sequence[Header], body: bytes) -> bool:
    """Return whether a request is one that `useChat` sends."""
    return b'"trigger"' in body and text(request_object(body), "trigger") in _TRIGGERS


def speaks(payload: Object) -> bool:
    """Return whether a payload begins a message or a part of one."""
    type = text(payload, "type")
    has_id = any(isinstance(payload.get(name), str) for name in ("id", "messageId", "toolCallId"))
    return type == "start-step" or (has_id and type in _TELLING)


_BESIDE = "id messages trigger"

DIALECT = Dialect(
    name="ui-messages",
    routes=re.compile(r"(?!)"),  # no path of its own
    is_asked=is_asked,
    keys=KeyExtractor(_Chunk, _name),
    decoder=UiMessageDecoder,
    framing="sse",
    terminal={"finish": "completed", "abort": "incomplete", "error": "failed"},
    needs_terminal=False,  # an app may write parts alone: `[DONE]` ends its stream, too
    conversation=UiConversation,
    fields=ResponseFields(
        texts=paths("delta inputTextDelta input output errorText"),
        noise=noise_fields(
            """
id | messageId id toolCallId sourceId approvalId | made anew for each message and part
made | signature | signs a request for approval
"""
        ),
    ),
    request_noise=(
        RequestNoise("fields", "ai-sdk-chat", "id", "of one run of an app", _BESIDE),
        RequestNoise(
            "fields",
            "ai-sdk-message",
            "messageId",
            "names the message that is asked for again",
            _BESIDE,
        ),
        RequestNoise("references", "ui-message", "messages.*.id", "made anew for each message"),
        RequestNoise("references", "ui-part", "messages.*.parts.*.toolCallId", "names a call"),
    ),
    places=RequestPlaces(of_model=paths("messages delta input output inputTextDelta")),
    is_of_app=True,
    profiles=("ui-messages",),
    speaks=speaks,
    is_event=lambda payload: speaks(payload) or text(payload, "type") in EVENTS,
    target=lambda is_document, payloads: "/api/chat",
)
