"""Chat Completions, legacy completions and everything compatible: `data: {chunk}` until `data: [DONE]`, mostly.

No event line, no sequence number, no items: `id` is the completion's. Several vendors never send `[DONE]`.
"""

from __future__ import annotations

import re

import msgspec

from recorder.dialects.dialect import Dialect
from recorder.dialects.payload import DONE, ERROR, Named, Payload, Reader, Text, Whole, reader_of_text


class _Choice(msgspec.Struct):
    index: Whole | None = None


class _Chunk(Payload):
    object: Text | None = None
    choices: list[_Choice] | None = None


def _name(chunk: _Chunk) -> Named:
    index = chunk.choices[0].index if chunk.choices else None
    return ERROR if chunk.error else chunk.object or chunk.type, None, None, index


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None


class _Said(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    text: str | None = None  # of a legacy completion


class _Saying(msgspec.Struct):
    choices: list[_Said]


def _text(chunk: _Saying) -> str | None:
    first = chunk.choices[0] if chunk.choices else _Said()
    return first.delta.content or first.delta.refusal or first.text


DIALECT = Dialect(
    name="openai-chat",
    routes=re.compile(r"^\S+ /(?:.*/)?completions(?:/|$)"),
    keys=Reader(_Chunk, _name).keys,
    text=reader_of_text(_Saying, _text),
    terminal={DONE: "completed", ERROR: "failed"},
    needs_terminal=False,
)
