"""Gemini `generateContent`: `data: {GenerateContentResponse}` with CRLF, no types, no end marker: the stream just ends.

Numbers that are zero are not on the wire (proto3), the index of a candidate among them. An error may come as bare JSON
over many lines, without `data:`, in the midst of the events.
"""

from __future__ import annotations

import re

import msgspec

from recorder.dialects.dialect import Dialect
from recorder.dialects.payload import ERROR, Named, Payload, Reader, Whole, reader_of_text


class _Candidate(msgspec.Struct):
    index: Whole | None = None


class _Response(Payload):
    candidates: list[_Candidate] | None = None


def _name(response: _Response) -> Named:
    index = response.candidates[0].index or 0 if response.candidates else None
    return ERROR if response.error else "GenerateContentResponse", None, None, index


class _Part(msgspec.Struct, frozen=True):
    text: str = ""
    thought: bool = False


class _Content(msgspec.Struct, frozen=True):
    parts: tuple[_Part, ...] = ()


class _Said(msgspec.Struct, frozen=True):
    content: _Content = _Content()


class _Saying(msgspec.Struct):
    candidates: list[_Said]


def _text(response: _Saying) -> str:
    first = response.candidates[0] if response.candidates else _Said()
    return "".join(part.text for part in first.content.parts if not part.thought)


DIALECT = Dialect(
    name="gemini",
    routes=re.compile(r"(?::|%3[Aa])(?:streamGenerateContent|generateContent|countTokens)$"),
    keys=Reader(_Response, _name).keys,
    text=reader_of_text(_Saying, _text),
    terminal={ERROR: "failed"},
    needs_terminal=False,
)
