"""Background responses: those that go on without a client, and can be asked for by id, resumed and cancelled.

A held response is a list of events with the times they are due; how far it has come is read off the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from recorder.demo.reply import Step

HELD_LIMIT = 100  # responses; the oldest goes first


class HeldEvent(NamedTuple):
    at_s: float
    fields: dict[str, Any]
    frame: bytes


class Held:
    """One background response under way since `started`, a time of `clock`."""

    def __init__(self, clock: Callable[[], float], pace: float, events: list[HeldEvent]) -> None:
        self._clock = clock
        self._pace = pace
        self._events = events
        self._cancelled: dict[str, Any] | None = None
        self.started = clock()

    def steps(self, after: int = -1) -> Iterator[Step]:
        """The frames with a sequence number over `after`, the same bytes for everyone; none once cancelled."""
        for event in self._events:
            if self._cancelled:
                return
            if event.fields["sequence_number"] > after:
                yield Step(event.at_s, event.frame)

    def latest(self) -> dict[str, Any]:
        """The response object as it stands now."""
        if self._cancelled:
            return self._cancelled
        passed = self._clock() - self.started
        states = [event for event in self._events if "response" in event.fields]
        due = [event for event in states if event.at_s * self._pace <= passed]
        state: dict[str, Any] = (due or states)[-1 if due else 0].fields["response"]
        return state

    def cancel(self) -> dict[str, Any]:
        """Stop it where it stands; one that has ended stays as it is."""
        latest = self.latest()
        if latest["status"] in ("queued", "in_progress"):
            self._cancelled = {**latest, "status": "cancelled"}
        return self._cancelled or latest


class Background:
    """The held responses by id."""

    def __init__(self, clock: Callable[[], float], pace: float) -> None:
        self._clock = clock
        self._pace = pace
        self._held: dict[str, Held] = {}

    def hold(self, response_id: str, events: list[HeldEvent]) -> Held:
        while len(self._held) >= HELD_LIMIT:
            self._held.pop(next(iter(self._held)))
        held = self._held[response_id] = Held(self._clock, self._pace, events)
        return held

    def find(self, response_id: str) -> Held | None:
        return self._held.get(response_id)
