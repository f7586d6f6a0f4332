"""The messages of Interactions over WebSocket → facts: those of Interactions, from the events that
a message has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recorder.model.facts import Fact
from recorder.wire.dialects.decoder import Content, Facts
from recorder.wire.dialects.gemini_interactions.decoder import COMPLETED, InteractionsDecoder
from recorder.wire.dialects.json_values import Object, object_, objects, text, whole

STATES: Mapping[str, str] = {
    "interaction.created": "in_progress",
    COMPLETED: "completed",
    "interaction.cancelled": "cancelled",
    "interaction.canceled": "cancelled",
    "reconnection_required": "requires_continuation",
}
"""The states of an interaction, by the events that here have no interaction in them."""

ENDING = STATES.keys() - {"interaction.created"}
"""Types of events after which google-genai reads nothing. An error is not one."""


def events_in(message: Object) -> Sequence[Object]:
    """Return the events of a message of either side: most are one."""
    return objects(message, "events") if isinstance(message.get("events"), list) else [message]


class LiveInteractionsDecoder(InteractionsDecoder):
    """Follows one interaction."""

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        events = events_in(payload) if isinstance(payload, dict) else [payload]
        if events == [payload]:
            return super().contents(type, payload)
        found: list[Content] = []
        for number, event in enumerate(events):
            found += [
                (f"events.{number}.{place}".rstrip("."), value)
                for place, value in super().contents(None, event)
            ]
        return found

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode a message of the server."""
        events = events_in(payload) if isinstance(payload, dict) else [payload]
        facts: list[Fact] = []
        for event in events:
            type = text(event, "event_type") or ""
            if type in STATES and not object_(event, "interaction"):
                interaction = _interaction(type, event)
                facts += super().payload(
                    COMPLETED, {"event_type": type, "interaction": interaction}
                )
            else:
                facts += super().payload(type or None, event)
        return facts


def _interaction(type: str, event: Object) -> Object:
    """Return what an event says of the interaction, as an event over HTTP does.

    A status is one of gRPC: 0 is good.
    """
    reported = object_(event, "status")
    has_failed = bool(whole(reported, "code"))
    return {
        "id": event.get("interaction_id"),
        "usage": event.get("usage"),
        "status": "failed" if has_failed else STATES[type],
        "errors": [reported] if has_failed else [],
    }
