"""Any other stream of server-sent events: Assistants, Gemini Interactions, Cohere, images, audio, what comes next.

Recorded raw like the rest. The event line is the type, as it is to the standard: a `type` in the payload may be that of
the object (Assistants: a step of type `tool_calls`). Of the fields only those are read that bear a name of ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from recorder.model.facts import Fact
from recorder.wire.dialects.dialect import Dialect
from recorder.wire.dialects.payload import ERROR, Named, Payload, Reader, Text, Whole
from recorder.wire.dialects.telling import Telling, failed, no_request, object_


class _Event(Payload):
    event_type: Text | None = None  # Gemini Interactions
    sequence_number: Whole | None = None
    item_id: Text | None = None
    output_index: Whole | None = None


def _name(event: _Event) -> Named:
    type = event.type or event.event_type or (ERROR if event.error else None)
    return type, event.sequence_number, event.item_id, event.output_index


class _Telling(Telling):
    """Of a stream that nobody here knows, only that it failed can be said."""

    def payload(self, type: str | None, payload: Any) -> Sequence[Fact]:
        said = object_(payload)
        return (failed(said),) if type == ERROR or said.get("error") else ()

    def whole(self, payload: Any) -> Sequence[Fact]:
        return self.payload(None, payload)


DIALECT = Dialect(
    name="other",
    routes=re.compile(""),
    keys=Reader(_Event, _name, event_line_first=True).keys,
    teller=_Telling,
    asked=no_request,
    terminal={ERROR: "failed"},
    needs_terminal=False,
)
