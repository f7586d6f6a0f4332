"""The events of a Responses stream, with the payload of each. What the rules of this API read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import Object, object_

Json = Object

BEGINNING = "response.created"
EARLY = frozenset({BEGINNING, "response.queued", "response.in_progress"})
ENDINGS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


class StreamEvent(NamedTuple):
    """An event. Its type is that of its payload, else its SSE name: one rule reports if either is missing."""

    pos: int
    type: str
    payload: Json
    name: str | None

    @property
    def response(self) -> Json:
        """The response of an event that carries one; else empty."""
        return object_(self.payload, "response")

    @property
    def error(self) -> Json:
        """The error of an `error` event: nested as the API sends it, or flat as the reference has it."""
        nested = self.payload.get("error")
        return nested if isinstance(nested, dict) else self.payload


def stream_events(stream: StreamView) -> Sequence[StreamEvent]:
    """Return all events of a window that can be read, the unterminated last one included."""
    if "events" not in stream.memo:
        events = map(_stream_event, stream.blocks)
        stream.memo["events"] = [event for event in events if event is not None]
    found: Sequence[StreamEvent] = stream.memo["events"]
    return found


def events_of(stream: StreamView, *types: str) -> Iterator[StreamEvent]:
    """Yield the events of a window that are of these types."""
    return (event for event in stream_events(stream) if event.type in types)


class Course:
    """The course of a stream up to the end of a window: its first and last event, its ends, and if all was read."""

    def __init__(self) -> None:
        self.first: StreamEvent | None = None
        self.last: StreamEvent | None = None
        self.completed: StreamEvent | None = None  # the first that says so
        self.types: set[str] = set()  # of endings
        self.errors: list[int] = []  # their positions
        self.is_read = True

    def add(self, stream: StreamView) -> None:
        """Add a window."""
        self.is_read = self.is_read and all(is_done_mark(each) or _stream_event(each) for each in stream.frames)
        for each in stream_events(stream):
            self.first = self.first or each
            self.last = each
            if each.type in ENDINGS:
                self._end(each)

    def _end(self, event: StreamEvent) -> None:
        self.types.add(event.type)
        if event.type == "response.completed":
            self.completed = self.completed or event
        elif event.type == "error":
            self.errors.append(event.pos)


def course(stream: StreamView) -> Course:
    """Return the course of a stream so far."""
    return stream.follow(Course)


def is_readable(stream: StreamView) -> bool:
    """Return whether all events so far are there and have a type: if not, something that seems missing was perhaps
    sent.

    A stream that is resumed has only a part of what its items are.
    """
    return course(stream).is_read and not stream.has_gap and stream.exchange.resumes_after is None


def is_complete(stream: StreamView) -> bool:
    """Return whether a stream can be read and reports that the model is done: then every item, part and text must be
    closed."""
    return is_readable(stream) and course(stream).completed is not None


def _stream_event(frame: StreamBlock) -> StreamEvent | None:
    if not isinstance(frame.payload, dict):
        return None
    type = frame.type or frame.name or ("error" if frame.payload.get("error") else None)
    return StreamEvent(frame.pos, type, frame.payload, frame.name) if type else None
