"""Gemini's Interactions over WebSocket, `/interactions/live`: the same events, a message each or
several in one.

One interaction is one turn, however often the client speaks in it: no event says that the model has
answered, and the last one has the tokens of all. What is different: the first and the last event
have their members beside their type, and a client may leave after any step, and come back.

Written after google-genai 3.6, whose own form of it is experimental. Must not know: other wire
formats, but for Interactions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from recorder.wire.dialects.dialect import LiveSession, MessageIds, WebSocketFormat
from recorder.wire.dialects.gemini_interactions import DIALECT as INTERACTIONS
from recorder.wire.dialects.gemini_interactions import Event, name_of
from recorder.wire.dialects.gemini_interactions.decoder import COMPLETED
from recorder.wire.dialects.gemini_interactions_live.conversation import (
    SETUP,
    TurnRequest,
    sound_size,
)
from recorder.wire.dialects.gemini_interactions_live.decoder import (
    ENDING,
    LiveInteractionsDecoder,
    events_in,
)
from recorder.wire.dialects.json_values import Object
from recorder.wire.dialects.keys import KeyExtractor, Named


class _Message(Event):
    events: list[Event] | None = None


def _name(message: _Message) -> Named:
    """Name a message that has several events by the last of them, which may end the turn."""
    return name_of(message.events[-1] if message.events else message)


def _is_last(messages: Sequence[Object]) -> bool:
    """Return whether a step has ended, and none begun: a client that leaves then misses nothing
    that it waits for.
    """
    events = [*events_in(messages[-1])] if messages else []
    return bool(events) and events[-1].get("event_type") == "step.stop"


DIALECT = msgspec.structs.replace(
    INTERACTIONS,
    name="gemini-interactions-live",
    routes=re.compile(r"^\S+ /(?:.*/)?interactions/live$"),
    keys=KeyExtractor(_Message, _name),
    decoder=LiveInteractionsDecoder,
    terminal={**dict.fromkeys(ENDING, "incomplete"), COMPLETED: "completed"},
    is_last=_is_last,
    continuation=None,
    prompt=None,
    cache=None,
    request_noise=(),
    response_routes=None,
    speaks=None,
    is_event=None,
    target=lambda is_document, payloads: "/v1beta/interactions/live",
    websocket=WebSocketFormat(
        "interaction.create",
        None,
        frozenset({"step.start"}),
        lambda payload: MessageIds(),
        LiveSession(
            setup_types=SETUP,
            opening_types=frozenset({"input", "world_setup", "user_action"}),
            heard_types=frozenset(),
            request=TurnRequest,
            sound_size=sound_size,
            client_ids=lambda message: (),
        ),
    ),
    has_event_lines=False,
)
