"""Background responses: they continue without a client, and can be retrieved by id and resumed.

A response is a list of events with the times they are due; how far it has come is read off the
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.support.provider.reply import Step

LIMIT = 100  # responses; the oldest goes first


class TimedEvent(NamedTuple):
    at_s: float
    fields: dict[str, Any]
    frame: bytes


class BackgroundResponse:
    """One background response under way since `started`, a time of `clock`."""

    def __init__(self, clock: Callable[[], float], pace: float, events: list[TimedEvent]) -> None:
        self._clock = clock
        self._pace = pace
        self._events = events
        self.started = clock()

    def steps(self, after: int = -1) -> Iterator[Step]:
        """Yield the frames with a sequence number over `after`, the same bytes for everyone."""
        for event in self._events:
            if event.fields["sequence_number"] > after:
                yield Step(event.at_s, event.frame)

    def latest(self) -> dict[str, Any]:
        """Return the response object of this moment."""
        passed = self._clock() - self.started
        states = [event for event in self._events if "response" in event.fields]
        due = [event for event in states if event.at_s * self._pace <= passed]
        state: dict[str, Any] = (due or states)[-1 if due else 0].fields["response"]
        return state


class BackgroundResponses:
    """The background responses by id."""

    def __init__(self, clock: Callable[[], float], pace: float) -> None:
        self._clock = clock
        self._pace = pace
        self._responses: dict[str, BackgroundResponse] = {}

    def start(self, response_id: str, events: list[TimedEvent]) -> BackgroundResponse:
        while len(self._responses) >= LIMIT:
            self._responses.pop(next(iter(self._responses)))
        response = self._responses[response_id] = BackgroundResponse(
            self._clock, self._pace, events
        )
        return response

    def find(self, response_id: str) -> BackgroundResponse | None:
        return self._responses.get(response_id)
