"""OpenAI Realtime: one conversation for a whole WebSocket connection, in sound or in text, over
`/v1/realtime`.

Items and events are those of the Responses format with other names, so what they mean is said
there. What is different:

* The session is set up once, for all responses (`session.update`, and `session.updated` with all
  that holds).
* The client sends pieces of sound. The server finds out where speech ends and begins a response by
  itself, or a `response.create` asks for one. A response that speech interrupts ends as
  `cancelled`.
* An `error` does not end anything: a whole response may follow it.

The names of the beta of 2024 (`response.audio.delta`) are read, too. Must not know: other wire
formats, but for the Responses format.
"""

from __future__ import annotations

import re

from recorder.wire.dialects.dialect import (
    Dialect,
    LiveSession,
    ResponseFields,
    WebSocketFormat,
    noise_fields,
    paths,
)
from recorder.wire.dialects.openai import error_body
from recorder.wire.dialects.openai_realtime.conversation import (
    HEARD,
    OPENING,
    SETUP,
    RealtimeConversation,
    TurnRequest,
    client_ids,
    sound_size,
)
from recorder.wire.dialects.openai_realtime.decoder import DONE, BetweenTurns, RealtimeDecoder
from recorder.wire.dialects.openai_responses import DIALECT as RESPONSES
from recorder.wire.dialects.openai_responses import message_ids

_ITEMS = ("item.", "response.output.*.")

DIALECT = Dialect(
    name="openai-realtime",
    harmless_parameters="model|intent",
    routes=re.compile(r"^\S+ /(?:.*/)?realtime$"),
    keys=RESPONSES.keys,
    decoder=RealtimeDecoder,
    terminal={DONE: "completed"},  # of a response, whose status says more
    needs_terminal=True,
    whole_reasons=frozenset({"completed"}),
    error_body=error_body,
    conversation=RealtimeConversation,
    continuation=RESPONSES.continuation,
    fields=ResponseFields(
        texts=paths(
            """
            delta text transcript arguments name part.text part.transcript
            item>content.*.text item>content.*.transcript item>arguments item>name
            """,
            item=_ITEMS,
        ),
        usage=("response.usage", "usage"),
        noise=(
            *noise_fields("id | event_id previous_item_id | made anew for each message and item"),
            *noise_fields(
                "id | response.conversation_id session.id | made anew for each connection"
            ),
            *noise_fields("time | session.expires_at | when a session ends"),
            *RESPONSES.fields.noise,
        ),
    ),
    profiles=("openai-realtime",),
    target=lambda is_document, payloads: "/v1/realtime",
    websocket=WebSocketFormat(
        "response.create",
        None,
        frozenset({"response.created"}),
        message_ids,
        LiveSession(
            setup_types=SETUP,
            opening_types=OPENING,
            heard_types=HEARD,
            request=TurnRequest,
            sound_size=sound_size,
            client_ids=client_ids,
            between=BetweenTurns,
        ),
    ),
)
