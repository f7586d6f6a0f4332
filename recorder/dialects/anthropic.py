"""Anthropic Messages: `event: <type>`, one line of JSON padded with spaces, blocks numbered by `index`.

No sequence number, no item ids but those of the blocks of tool use.
"""

from __future__ import annotations

import re

import msgspec

from recorder.dialects.dialect import Dialect
from recorder.dialects.payload import ERROR, Named, Payload, Reader, Text, Whole, reader_of_text


class _Block(msgspec.Struct):
    id: Text | None = None


class _Event(Payload):
    index: Whole | None = None
    content_block: _Block | None = None


def _name(event: _Event) -> Named:
    block_id = event.content_block.id if event.content_block else None
    return event.type or (ERROR if event.error else None), None, block_id, event.index


class _Delta(msgspec.Struct):
    text: str


class _Saying(msgspec.Struct):
    delta: _Delta


DIALECT = Dialect(
    name="anthropic",
    # The messages of an Assistants thread are OpenAI's; on Vertex, the model's publisher says whose the method is.
    routes=re.compile(
        r"^POST /(?!.*\bthreads/)(?:.*/)?messages(?:/(?:count_tokens|batches)\b|$)"
        r"|^\S+ /(?:.*/)?messages/batches(?:/|$)"
        r"|^\S+ /.*\bpublishers/anthropic/models/[^/]+:(?:streamR|r)awPredict$"
    ),
    keys=Reader(_Event, _name).keys,
    text=reader_of_text(_Saying, lambda event: event.delta.text),
    terminal={"message_stop": "completed", ERROR: "failed"},
    needs_terminal=True,
)
