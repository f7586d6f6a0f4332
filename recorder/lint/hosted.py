"""The walk over the events of a session that a provider keeps: what is the same in each such
format.

Its parts stand in the folder of the format: the shapes of its events, their types, and in which of
them it rests.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar

from recorder.lint.faults import is_json, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import Object
from recorder.wire.dialects.keys import ERROR


class SessionWalk:
    """Follows the events of one session.

    `NO_EVENT` and the other names in capitals are ids of rules.
    """

    NO_EVENT: ClassVar[str]
    UNKNOWN: ClassVar[str]
    MISFIT: ClassVar[str]
    NO_REST: ClassVar[str]

    shapes: ClassVar[Shapes]  # with a family `event`
    at_rest: ClassVar[Collection[str]]  # types of events after which a session waits, or is over
    running: ClassVar[Collection[str]]  # those after which it does not

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._running: StreamBlock | None = None  # the event since which the session runs

    def feed(self, block: StreamBlock) -> Faults:
        if not block.is_event or not is_json(block):
            return
        type = block.type
        if type is None:
            yield self.NO_EVENT, block.pos, shown(block.payload)
            return
        yield from self.named(block, type)
        if type == ERROR or type in self.at_rest:
            self._running = None
        elif type in self.running:
            self._running = block
        if f"event.{type}" in self.shapes.by_name:
            for each in self.shapes.misfits(block.payload, "event"):
                yield self.MISFIT, block.pos, misfit(each)
            yield from self.event(block.pos, type, block.payload)
        elif type not in (ERROR, "ping"):
            yield self.UNKNOWN, block.pos, shown(type)

    def end(self) -> Faults:
        """Yield that the session still runs."""
        if self._running is not None and self._stream.is_seen_whole:
            yield (
                self.NO_REST,
                self._running.pos,
                f"{shown(self._running.type)} is its last state",
            )

    def named(self, block: StreamBlock, type: str) -> Faults:
        """Yield what is wrong with the line that names an event."""
        return ()

    @abstractmethod
    def event(self, pos: int, type: str, event: Object) -> Faults:
        """Yield what is wrong with an event, beside its shape."""
