"""Tombstones of sessions that were purged or archived: when, why, how much, where late records may
come from.
"""

from __future__ import annotations

import datetime

import msgspec

ARCHIVED = "archived"
"""The reason on the tombstone of a session that is in an archive now."""


class Counts(msgspec.Struct, frozen=True):
    """The size of a session that is gone, and the exchanges that journals may still hold."""

    exchanges: int = 0
    events: int = 0
    bytes: int = 0
    # Of each recorder whose journal was still there: the ids of the exchanges that it may tell once
    # more.
    late: dict[str, list[str]] = {}
    archive: str = ""  # where the session is instead, without a password


class Tombstone(msgspec.Struct, frozen=True):
    """A row of `tombstones`."""

    session_id: str
    purged_ns: int
    reason: str
    counts: str
    last_hash: bytes | None

    @property
    def size(self) -> Counts:
        """What is gone. A tombstone that somebody else wrote may have any text: that is nothing."""
        try:
            return msgspec.json.decode(self.counts, type=Counts)
        except msgspec.DecodeError:
            return Counts()

    @property
    def late(self) -> dict[str, list[str]]:
        """The exchanges that journals may still hold, by recorder."""
        return self.size.late

    @property
    def archive(self) -> str | None:
        """The name of the archive that the session is in; None if it was purged."""
        return self.size.archive or None if self.reason == ARCHIVED else None

    def __str__(self) -> str:
        at = datetime.datetime.fromtimestamp(self.purged_ns / 1e9).astimezone()
        if self.reason == ARCHIVED:
            place = f" in {self.archive}" if self.archive else ""
            remedy = "`recorder db archive --attach` its archive, or name that with --db"
            return f"Session {self.session_id} was archived on {at:%Y-%m-%d at %H:%M %z}{place}: {remedy}."
        return f"Session {self.session_id} was purged on {at:%Y-%m-%d at %H:%M %z}: {self.reason}."
