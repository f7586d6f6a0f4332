"""The bytes of events as templates, in which a text that the file has elsewhere is a reference. Pure.

A template is a text, or a list of parts: texts, numbers of shared texts, and references `[style, source]`. `source` is
the number of an operation of the event's step, whose text was added then, or a path into the document right after the
event. `style` says how the text is written as JSON: 0 escapes what it must, 1 all but ASCII. Bytes that are not UTF-8
are `{"base64": …}`. A reference takes the place of characters that equal what it gives, so templates are exact.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from recorder.ui.ops import apply

Template = str | list[Any] | dict[str, str]

LONG = 64
"""Characters of a text that is referred to: a reference and its path take about 40."""

_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)


class Templates:
    """The templates of the events of a file, and the texts that they share."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, raw: bytes, added: Sequence[str | None], document: Any) -> Template:
        """Return the template of an event: with the texts that its operations add, in their order, None for those that
        add none, and the document after it.
        """
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(raw).decode()}
        references: dict[str, Any] = {}
        for number, each in enumerate(added):
            references |= _references(each or "", number)
        long_texts: dict[str, Any] | None = None  # of the document, which is looked at once, if at all
        parts: list[Any] = []
        end = 0  # of what is in the parts
        for match in _STRING.finditer(text):
            reference = references.get(match[1])
            if reference is None and len(match[1]) >= LONG:
                if long_texts is None:
                    long_texts = _long_texts(document)
                reference = long_texts.get(match[1])
                if reference is None:
                    reference = self._shared(match[1])
            if reference is not None:
                parts += [text[end : match.start(1)], reference]
                end = match.end(1)
        rest = text[end:]
        return [*parts, rest] if parts else rest

    def _shared(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def documents(steps: Sequence[Sequence[Any]]) -> Iterator[tuple[list[Any], Any]]:
    """Yield, for each event from the first on and without an end, what it changes and the document right after it.

    The document is one object, which the next event changes. Steps from outside of the exchange, which come after an
    event, are in the document of the next one.
    """
    document: Any = {}
    at = 0
    # `to_builtins` copies: a document has the values of its operations as its own, and later ones change them.
    for pos in count():
        while at < len(steps) and steps[at][0] < pos:
            document = apply(document, msgspec.to_builtins(steps[at][1]))
            at += 1
        ops: list[Any] = []
        if at < len(steps) and steps[at][0] == pos and len(steps[at]) == 2:
            ops = steps[at][1]
            document = apply(document, msgspec.to_builtins(ops))
            at += 1
        yield ops, document


def escaped(text: str, as_ascii: bool) -> str:
    """Return a text as a string of JSON has it, without its quotes, the way that JSON.stringify writes it."""
    written = json.dumps(text, ensure_ascii=as_ascii)[1:-1]
    return written if as_ascii or text.isascii() else without_halves(written)


def without_halves(written: str) -> str:
    """Return JSON with an escape for each half of a character that stands alone."""
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def _styles(text: str) -> tuple[bool, ...]:
    """Return the styles in which a text is written differently, the preferred one last."""
    return (False,) if text.isascii() and "\x7f" not in text else (True, False)


_LONE = re.compile("[\ud800-\udfff]")


def _long_texts(document: Any) -> dict[str, Any]:
    """Return references to the long texts of a document, by how they may be written."""
    found: dict[str, Any] = {}
    for path, text in _texts(document, ()):
        found |= _references(text, list(path))
    return found


def _references(text: str, source: int | list[str | int]) -> dict[str, Any]:
    """Return references to a text, by how it may be written."""
    return {escaped(text, style): [int(style), source] for style in _styles(text)} if text else {}


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        if len(value) >= LONG:
            yield path, value
        return
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, each in inner:
        yield from _texts(each, (*path, key))
