"""Gemini Live: one conversation for a whole WebSocket connection, `…BidiGenerateContent`, in
messages of JSON.

A message is named by its one member, which clients may write in snake case; `serverContent` by what
is in it besides. What a model says is parts, as in `generateContent`, so what they mean is said
there. What is different:

* `setup` comes first, and holds for all turns. No message has an id, and none begins a response.
* A turn ends with `turnComplete`, as google-genai sees it: not while the server says that it is
  still at work. One that speech interrupts has `interrupted` before that.
* A function is called and its result is given within a turn.

Must not know: other wire formats, but for what it shares with `generateContent`.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    LiveSession,
    MessageIds,
    ResponseFields,
    WebSocketFormat,
    noise_fields,
    paths,
)
from recorder.wire.dialects.gemini import error_body
from recorder.wire.dialects.gemini_live.conversation import (
    LiveConversation,
    TurnRequest,
    sound_size,
)
from recorder.wire.dialects.gemini_live.decoder import END, PARTS, LiveDecoder
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload


class _Content(msgspec.Struct, rename="camel"):
    turn_complete: object = None
    interaction_status: object = None
    interrupted: object = None
    generation_complete: object = None
    model_turn: object = None
    output_transcription: object = None
    input_transcription: object = None


class _Message(Payload, rename="camel"):
    setup: object = None
    client_content: object = None
    realtime_input: object = None
    tool_response: object = None
    setup_complete: object = None
    tool_call: object = None
    tool_call_cancellation: object = None
    server_content: _Content | None = None
    go_away: object = None
    session_resumption_update: object = None
    voice_activity: object = None
    usage_metadata: object = None
    of_client: object = msgspec.field(default=None, name="client_content")
    of_microphone: object = msgspec.field(default=None, name="realtime_input")
    of_tools: object = msgspec.field(default=None, name="tool_response")


_OF_CLIENT = {
    "of_client": "clientContent",
    "of_microphone": "realtimeInput",
    "of_tools": "toolResponse",
}
_TYPES = {
    field.name: _OF_CLIENT.get(field.name, field.encode_name)
    for field in msgspec.structs.fields(_Message)
    if field.name not in ("type", "error")
}
_CONTENTS = {
    field.name: f"serverContent.{field.encode_name}" for field in msgspec.structs.fields(_Content)
}


def _name(message: _Message) -> Named:
    if message.error:
        return ERROR, None, None, None
    for name, type in _TYPES.items():
        if name == "server_content" and message.server_content is not None:
            return _content_name(message.server_content), None, None, None
        if getattr(message, name) is not None:
            return type, None, None, None
    return None, None, None, None


def _content_name(content: _Content) -> str:
    status = content.interaction_status
    if status not in (None, "INTERACTION_STATUS_UNSPECIFIED"):
        is_over = status == "IDLE"
    else:
        is_over = content.turn_complete is True
    if is_over:
        return END
    for name, type in _CONTENTS.items():
        if name not in ("turn_complete", "interaction_status") and getattr(content, name):
            return type
    return "serverContent"


_PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"

_SAID = ("serverContent.",)

DIALECT = Dialect(
    name="gemini-live",
    routes=re.compile(r"^\S+ /(?:.*/)?ws/\S+[./]BidiGenerateContent(?:Constrained)?$"),
    keys=KeyExtractor(_Message, _name),
    decoder=LiveDecoder,
    terminal={END: "completed", ERROR: "failed"},
    needs_terminal=True,
    whole_reasons=frozenset({"STOP"}),
    error_body=error_body,
    conversation=LiveConversation,
    fields=ResponseFields(
        pieces=paths(
            "said>modelTurn.parts.*.text said>outputTranscription.text said>inputTranscription.text",
            said=_SAID,
        ),
        texts=paths(
            """
            said>modelTurn.parts.*.text said>outputTranscription.text said>inputTranscription.text
            toolCall.functionCalls.*.name toolCall.functionCalls.*.args
            """,
            said=_SAID,
        ),
        usage=("usageMetadata",),
        noise=(
            *noise_fields(
                "id | setupComplete.sessionId sessionResumptionUpdate.newHandle | of one connection"
            ),
            *noise_fields(
                "id | toolCall.functionCalls.*.id toolCallCancellation.ids | made anew for each call"
            ),
        ),
    ),
    target=lambda is_document, payloads: _PATH,
    websocket=WebSocketFormat(
        "clientContent",
        None,
        PARTS,
        lambda payload: MessageIds(),
        LiveSession(
            setup_types=frozenset({"setup"}),
            opening_types=frozenset(_OF_CLIENT.values()),
            heard_types=frozenset({*_CONTENTS.values(), END}),
            request=TurnRequest,
            sound_size=sound_size,
            client_ids=lambda message: (),
        ),
    ),
    profiles=("gemini-live",),
    operation="generate_content",
)
