"""The elements of one JSON array as events, as they come: Gemini's `streamGenerateContent` without
`alt=sse`.

A piece is an element with what stands before it: bracket or comma, and white space. It ends with
the element, which so has the time at which it was complete; the end of the array is a comment.
Whether an element is JSON is not checked.
"""

from __future__ import annotations

import re

from recorder.wire.framing.blocks import BlockSplitter
from recorder.wire.framing.sse import Fields

_SPACE = b" \t\r\n"
_SEPARATOR = re.compile(rb"[ \t\r\n]*[\[,]?[ \t\r\n]*")
_SIGN = re.compile(rb'["\[\]{}]')  # within an element
_BETWEEN = re.compile(rb"[^ \t\r\n,]")  # the next element, or the end
_IN_STRING = re.compile(rb'"|\\.?', re.DOTALL)
_AFTER_SCALAR = re.compile(rb'[ \t\r\n,"\[\]{}]')  # of a number, or a word


class Splitter(BlockSplitter):
    """A splitter into elements."""

    spaces = _SPACE

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0  # 1 between elements, more within one
        self._is_in_string = self._is_in_scalar = False
        self._is_over = False  # the array, or all that could be read of it

    def _end(self, start: int) -> int:
        at = start + self._scanned
        while at < len(self._held) and not self._is_over:
            after, is_end = self._step(at)
            if is_end:
                self._scanned = 0
                return after
            if after == at:  # a backslash, and what it escapes is not here yet
                break
            at = after
        self._scanned = at - start
        return -1

    def _step(self, at: int) -> tuple[int, bool]:
        """Return where the next thing that counts ends, and whether a block ends there."""
        if self._is_in_string:
            return self._step_in_string(at)
        if self._is_in_scalar:
            found = _AFTER_SCALAR.search(self._held, at)
            self._is_in_scalar = found is None
            return (len(self._held), False) if found is None else (found.start(), True)
        found = (_SIGN if self._depth > 1 else _BETWEEN).search(self._held, at)
        return (len(self._held), False) if found is None else (found.end(), self._is_end(found[0]))

    def _step_in_string(self, at: int) -> tuple[int, bool]:
        found = _IN_STRING.search(self._held, at)
        if found is None:
            return len(self._held), False
        if found[0] == b"\\":
            return found.start(), False
        self._is_in_string = found[0] != b'"'
        return found.end(), self._depth == 1 and not self._is_in_string

    def _is_end(self, sign: bytes) -> bool:
        """Read a sign outside of strings; return whether a block ends with it."""
        if self._depth == 0:
            self._is_over = sign != b"["
            self._depth = 1
        elif sign == b'"':
            self._is_in_string = True
        elif sign in b"[{":
            self._depth += 1
        elif sign in b"]}":
            self._depth -= 1
            self._is_over = self._depth == 0
            return self._depth <= 1
        else:
            self._is_in_scalar = True
        return False

    def _is_comment(self, raw: bytes) -> bool:
        return self._is_over


def begins_array(data: bytes) -> bool | None:
    """Return whether a body that begins so is an array; None if it is too short to tell."""
    begun = data.lstrip(_SPACE)
    return begun.startswith(b"[") if begun else None


def fields(raw: bytes) -> Fields:
    """Return the fields of a piece: its data is the element."""
    separator = _SEPARATOR.match(raw)
    start = separator.end() if separator else 0
    data = raw[start:]
    return Fields(None, data, start, len(data)) if data else Fields()


def placed(raw: bytes, is_first: bool) -> bytes:
    """Return a piece as the first of an array, or as a later one: with a bracket before it, or a
    comma.
    """
    separator = _SEPARATOR.match(raw)
    end = separator.end() if separator else 0
    wrong, right = (b",", b"[") if is_first else (b"[", b",")
    before = raw[:end].replace(wrong, right)
    return (before if right in before else right + before) + raw[end:]
