"""Any other stream of server-sent events: Assistants, Gemini Interactions, Cohere, images, audio, what comes next.

Recorded raw like the rest. The event line is the type, as it is to the standard: a `type` in the payload may be that of
the object (Assistants: a step of type `tool_calls`). Of the fields only those are read that bear a name of ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from recorder.model.facts import Fact
from recorder.wire.dialects.decoder import JsonDecoder, failed, no_request
from recorder.wire.dialects.dialect import Dialect, NoiseField, ResponseFields
from recorder.wire.dialects.json_values import object_
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole


class _TypedEvent(Payload):
    event_type: Text | None = None  # Gemini Interactions
    sequence_number: Whole | None = None
    item_id: Text | None = None
    output_index: Whole | None = None


def _name(event: _TypedEvent) -> Named:
    type = event.type or event.event_type or (ERROR if event.error else None)
    return type, event.sequence_number, event.item_id, event.output_index


class ErrorDecoder(JsonDecoder):
    """The decoder of unknown streams, of which only errors are understood."""

    def payload(self, type: str | None, payload: Any) -> Sequence[Fact]:
        body = object_(payload)
        return (failed(body),) if type == ERROR or body.get("error") else ()

    def whole(self, payload: Any) -> Sequence[Fact]:
        return self.payload(None, payload)


_KEYS = KeyExtractor(_TypedEvent, _name, event_line_first=True)

_STEPS = ("step_details", "delta.step_details")

DIALECT = Dialect(
    name="other",
    routes=re.compile(""),
    keys=_KEYS.keys,
    message_keys=_KEYS.message_keys,
    decoder=ErrorDecoder,
    request_facts=no_request,
    terminal={ERROR: "failed"},
    needs_terminal=False,
    fields=ResponseFields(
        noise=(
            NoiseField("id", ("id", "event_id", "interaction.id"), "made anew for each object of a stream"),
            NoiseField("id", ("run_id", "thread_id"), "of one run, of one conversation with an assistant"),
            NoiseField(
                "id",
                (
                    *(f"{step}.tool_calls.*.id" for step in _STEPS),
                    *(f"{step}.message_creation.message_id" for step in _STEPS),
                    "delta.message.tool_calls.id",
                ),
                "made anew for each call and message",
            ),
            NoiseField(
                "time",
                ("created", "created_at", "completed_at", "started_at", "expires_at", "interaction.created"),
                "when something was made, begun, complete, and will be forgotten",
            ),
        )
    ),
)
