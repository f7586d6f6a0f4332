"""The walks over an answer, and the words for what they find."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from recorder.lint.rule import Faults, MakeWalk, StreamWalk
from recorder.lint.shape import Misfit
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import as_json

_SHOWN = 60  # characters of a value that is shown


class _AnswerWalk:
    """A walk over an answer up to its first gap: after it, nothing can be reported as out of order."""

    def __init__(self, stream: StreamView, walk: StreamWalk) -> None:
        self._walk = walk
        self._is_answer = stream.is_answer
        self._gap_pos = stream.gaps[0].pos if stream.gaps else None

    def feed(self, block: StreamBlock) -> Faults:
        is_behind = self._gap_pos is not None and block.pos >= self._gap_pos
        return self._walk.feed(block) if self._is_answer and not is_behind else ()

    def end(self) -> Faults:
        return self._walk.end() if self._is_answer else ()


def of_answer(walk: Callable[[StreamView], StreamWalk]) -> MakeWalk:
    """Return a walk that is made of streams that began well, and only up to their first gap."""
    return lambda stream: _AnswerWalk(stream, walk(stream))


def is_json(frame: StreamBlock) -> bool:
    """Return whether the data of a frame is JSON."""
    return frame.payload is not None or frame.data == b"null"


def is_whole_number(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; `true` is not a number to a client."""
    return isinstance(value, int) and not isinstance(value, bool)


def misfit(found: Misfit) -> str:
    """Describe a misfit."""
    state = "is missing" if found.value is None else f"is {shown(found.value)}"
    return f"{found.path or 'it'} {state}, which must be {found.wanted}"


def shown(value: object) -> str:
    """Encode a value as JSON, shortened to what is worth showing."""
    encoded = as_json(value)
    return encoded if len(encoded) <= _SHOWN else encoded[:_SHOWN] + "…"
