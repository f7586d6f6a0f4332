"""The sessions of hosted agents: what nobody has been given of them yet, and what waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]
Timed = tuple[float, Json]
"""An event, and the pause before it."""


class HostedSessions:
    """By the id of a session, the events that nobody has been given, all of them, and the turn that
    waits.
    """

    def __init__(self) -> None:
        self.pending: dict[str, list[Timed]] = {}
        self.history: dict[str, list[Json]] = {}
        self.waiting: dict[str, str] = {}

    def begin(self, id: str) -> str:
        self.pending[id], self.history[id] = [], []
        return id

    def add(self, id: str, events: Iterable[Timed]) -> None:
        for each in events:
            self.pending[id].append(each)
            self.history[id].append(each[1])

    def require(self, id: str) -> None:
        """Raise `ValueError` if there is no such session."""
        if id not in self.pending:
            raise ValueError(f"No session has the id {id}.")

    def take(self, id: str) -> list[Timed]:
        """Return what is to be given on a connection."""
        self.require(id)
        given, self.pending[id] = self.pending[id], []
        return given
