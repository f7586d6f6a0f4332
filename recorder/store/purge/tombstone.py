"""Tombstones of purged sessions: when, why, how much, and the journals that late records may come from."""

from __future__ import annotations

import datetime

import msgspec

ARCHIVED = "archived"
"""The reason on the tombstone of a session that is in an archive now."""


class Counts(msgspec.Struct, frozen=True):
    """The size of a purged session, and the exchanges that journals may still hold."""

    exchanges: int = 0
    events: int = 0
    bytes: int = 0
    # Of each recorder whose journal was still there: the ids of the exchanges that it may tell once more.
    late: dict[str, list[str]] = {}


class Tombstone(msgspec.Struct, frozen=True):
    """A row of `tombstones`."""

    session_id: str
    purged_ns: int
    reason: str
    counts: str
    last_hash: bytes | None

    @property
    def late(self) -> dict[str, list[str]]:
        """The exchanges that journals may still hold, by recorder."""
        return msgspec.json.decode(self.counts, type=Counts).late

    def __str__(self) -> str:
        at = datetime.datetime.fromtimestamp(self.purged_ns / 1e9).astimezone()
        if self.reason == ARCHIVED:
            remedy = "`recorder db attach` its archive, or name that with --db"
            return f"Session {self.session_id} was archived on {at:%Y-%m-%d at %H:%M %z}: {remedy}."
        return f"Session {self.session_id} was purged on {at:%Y-%m-%d at %H:%M %z}: {self.reason}."
