"""Private values, which must be nowhere in a cassette, and the search for them, however a text spells them.

A value of fewer than four characters, and a number of fewer than six digits, may be anywhere by chance: it is replaced
where the settings name it, and looked for nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote_plus

from recorder.wire.redaction.headers import REDACTED
from recorder.wire.redaction.unescape import Splice

LETTERS = 4
DIGITS = 6

_COMMON = frozenset({"true", "false", "null"})
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_TEXT = re.compile(rb'("(?:[^"\\\r\n]|\\.)*")(\s*:)?')  # of JSON; the second group says that it is a name
_IN_PLACE = f'"{REDACTED}"'.encode()


class PrivateValues:
    """Values, each with the line of the settings that calls it private."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._numbers: dict[str, re.Pattern[str]] = {}

    @property
    def is_empty(self) -> bool:
        """Return True if there is no value to look for."""
        return not self._lines

    def add(self, line: str, value: Any) -> None:
        """Add a value, or all that are in it."""
        for text in _leaves(value):
            if text.isdecimal():
                if len(text) >= DIGITS:
                    self._lines[text] = line
                    self._numbers[text] = re.compile(rf"(?<![\w.]){text}(?!\w|\.\d)")
            elif len(text.strip()) >= LETTERS and text not in _COMMON and not text.startswith(REDACTED):
                self._lines[_paired(text)] = line

    def line_of(self, *texts: bytes) -> str | None:
        """Return the line of the settings whose private value is in one of these texts, or None."""
        for reading in _readings(texts) if self._lines else ():
            for value, line in self._lines.items():
                pattern = self._numbers.get(value)
                if value in reading and (pattern is None or pattern.search(reading)):
                    return line
        return None

    def is_part(self, text: str) -> bool:
        """Return True if a text has a private value in it, or is a part of one."""
        return len(text) >= LETTERS and any(text in value or value in text for value in self._lines)

    def echoes(self, body: bytes) -> list[Splice]:
        """Return where a text of JSON is a private value."""
        if not self._lines:
            return []
        texts = (text for text in _TEXT.finditer(body) if not text[2] and _meant(text[1]) in self._lines)
        return [Splice(*text.span(1), _IN_PLACE) for text in texts]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _readings(texts: Iterable[bytes]) -> Iterator[str]:
    """Yield each text as it is, without the escapes of JSON, of JSON in JSON and of a URL, and as UTF-16 or UTF-32."""
    for text in texts:
        plain = text.decode("utf-8", "replace")
        yield plain
        if "\\" in plain:
            once = _unescaped(plain)
            yield once
            yield _unescaped(once)
        if "%" in plain or "+" in plain:
            yield unquote_plus(plain)
        if b"\0" in text:
            yield text.replace(b"\0", b"").decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    return _paired(_ESCAPE.sub(_character, text))


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])


def _paired(text: str) -> str:
    """Return a text with pairs of surrogates as the characters that they are."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _meant(token: bytes) -> str | None:
    try:
        text: str = json.loads(token)
    except ValueError:
        return None
    return _paired(text)
