"""A shared pass over a stream: it runs once, and reports each fault by the id of the one rule that names it.

Rules whose faults follow from each other share a walk, so that a fault is named by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeGuard

from recorder.lint.rule import Check, Hit
from recorder.lint.shape import Misfit
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import as_json

Fault = tuple[str, Hit]
"""The id of a rule, and where it is broken."""

Faults = Iterable[Fault]

_SHOWN = 60  # characters of a value that is shown


class StreamWalk(Protocol):
    """What follows the blocks of one stream up to the first gap: after it, nothing can be reported as out of order."""

    def feed(self, frame: StreamBlock) -> Faults:
        """Yield the faults of a block."""

    def end(self, is_seen_whole: bool) -> Faults:
        """Yield the faults of the end: what is missing there was perhaps sent if the stream was not seen whole."""


def shared_checks(walk_of: Callable[[StreamView], StreamWalk]) -> Callable[[str], Check]:
    """Return what makes the check of a rule, by its id, from a walk that all rules of a format share."""

    def found(stream: StreamView) -> dict[str, list[Hit]]:
        by_rule: dict[str, list[Hit]] | None = stream.memo.get("faults")
        if by_rule is None:
            by_rule = stream.memo["faults"] = {}
            for id, hit in _faults(stream, walk_of) if is_answer(stream) else ():
                by_rule.setdefault(id, []).append(hit)
        return by_rule

    return lambda id: lambda stream: found(stream).get(id, ())


def _faults(stream: StreamView, walk_of: Callable[[StreamView], StreamWalk]) -> Faults:
    """Yield the faults of a window, in order, then those of the end of the stream."""
    walk = stream.kept("walk", lambda: walk_of(stream))
    lost = stream.gaps[0].pos if stream.gaps else None
    for frame in stream.blocks:
        if lost is not None and frame.pos >= lost:
            break
        yield from walk.feed(frame)
    if stream.is_last:
        yield from walk.end(is_seen_whole(stream))


def is_answer(stream: StreamView) -> bool:
    """Return whether the response is a stream that began well: an error status is reported by a rule of HTTP."""
    return stream.is_stream and stream.status < 400


def is_seen_whole(stream: StreamView) -> bool:
    """Return whether what is missing at the end was not sent: no side left early, and the recorder lost nothing."""
    return not (stream.was_cut_by_us or stream.has_gap)


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
