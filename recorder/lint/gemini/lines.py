"""What is wrong with the lines of a Gemini stream: each is `data: ` and JSON, or an error as bare JSON.

The SDK for Python reads line by line, and takes what is neither for a piece of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recorder.lint.rule import Hit
from recorder.lint.stream import StreamBlock
from recorder.lint.walk import Fault

BARE = (b"{", b"[")
"""How JSON begins that has no `data:` in front."""

_USUAL = re.compile(rb"data: [^\r\n]*(?:\r\n\r\n|\n\n|\r\r)?")
_LINE = re.compile(rb"[^\r\n]+")
_BOM = b"\xef\xbb\xbf"


def faults(told: StreamBlock) -> Iterable[Fault]:
    """The faults of the lines of a block."""
    if _USUAL.fullmatch(told.raw):
        return
    raw = told.raw.removeprefix(_BOM)
    if raw.lstrip().startswith(BARE):
        return
    for line in _LINE.findall(raw):
        if not line.startswith(b"data: "):
            yield _named(line), Hit(told.pos, line[:60].decode("utf-8", "replace"))


def _named(line: bytes) -> str:
    if line.startswith(b":"):
        return "GE002"
    return "GE003" if line.startswith(b"data:") else "GE001"
