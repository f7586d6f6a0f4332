"""OpenAI Responses: `event: <type>`, one line of JSON, gapless sequence numbers; gateways send it less tidily.

The live API nests its errors (`{"type": "error", "error": {…}}`), and sends `response.failed` after them.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.dialect import Dialect
from recorder.wire.dialects.openai_responses.request import asked
from recorder.wire.dialects.openai_responses.teller import ResponsesTelling
from recorder.wire.dialects.payload import ERROR, Named, Payload, Reader, Text, Whole


class _Item(msgspec.Struct):
    id: Text | None = None


class _Event(Payload):
    sequence_number: Whole | None = None
    item_id: Text | None = None
    output_index: Whole | None = None
    item: _Item | None = None  # of output_item.added and .done, which have no item_id


def _name(event: _Event) -> Named:
    return (
        event.type or (ERROR if event.error else None),
        event.sequence_number,
        event.item_id or (event.item.id if event.item else None),
        event.output_index,
    )


DIALECT = Dialect(
    name="openai-responses",
    routes=re.compile(r"^\S+ /(?:.*/)?responses(?:/|$)"),
    keys=Reader(_Event, _name).keys,
    teller=ResponsesTelling,
    asked=asked,
    terminal={
        "response.completed": "completed",
        "response.incomplete": "incomplete",
        "response.failed": "failed",
        ERROR: "failed",
    },
    needs_terminal=True,
)
