"""A manifest: one line for each session, with a digest over its exchanges, to be kept elsewhere: in
git, or signed.

    # recorder manifest 2: session_id exchanges events root last_hash
    01994c2e-… 3 210 9f86d081884c… 60303ae22b99…
    01994c2f-… purged fcde2b2edba5…

A chain of hashes in the log proves that nothing *in* an exchange was changed. That a session, or
the end of one, is still there at all can only be proved by somebody who noted it. Pure: lines in
and out, no file.

The digest after each exchange is the one before it, hashed with the exchange's row, its number of
events and its last hash. So a session that has grown still has the digest that it had, after as
many exchanges.

A session that was purged has a digest of its tombstone. One that is purged after the manifest has a
tombstone that says how much there was, and the last hash: recorder writes what it finds, so what
fits the manifest may be a purge, and what does not is none. Manifests of version 1 have no last
hash and no tombstones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec

from recorder.model.events import Exchange, Session
from recorder.store.maintain.purge.tombstone import Tombstone

FIRST_LINE = "# recorder manifest 2: session_id exchanges events root last_hash"
_FIRST_LINES = (FIRST_LINE, "# recorder manifest 1: session_id exchanges events root")

_LINE = re.compile(
    r"(?P<id>\S+) (?P<exchanges>\d{1,18}) (?P<events>\d{1,18}) (?P<root>[0-9a-f]{64})(?: (?P<last>[0-9a-f]{64}|-))?"
)
_PURGED = re.compile(r"(?P<id>\S+) purged (?P<root>[0-9a-f]{64})")


class Mark(NamedTuple):
    """A digest, how many exchanges of a session with how many events it is over, and the hash of
    the last of these.
    """

    exchanges: int
    events: int
    root: str
    last_hash: str = ""  # which a manifest of version 1 does not have


class PurgeMark(NamedTuple):
    """The digest of a tombstone."""

    root: str


Marks = Mapping[str, Mark | PurgeMark]
"""What a manifest has of each session."""


class Roots:
    """The digests of a session, one after each ended exchange, in order of their ids."""

    def __init__(self, session: Session) -> None:
        self._digest = sha256(msgspec.json.encode(msgspec.structs.astuple(session))).digest()
        self._marks = [Mark(0, 0, self._digest.hex())]

    def add(self, exchange: Exchange, events: int, head: bytes) -> None:
        """Add the next exchange: its events up to its end, and the hash of that."""
        row = msgspec.json.encode((msgspec.structs.astuple(exchange), events))
        self._digest = sha256(self._digest + row + head).digest()
        last = self.last
        self._marks.append(
            Mark(last.exchanges + 1, last.events + events, self._digest.hex(), head.hex())
        )

    def after(self, exchanges: int) -> Mark | None:
        """Return the mark after so many exchanges; None if there are fewer."""
        return self._marks[exchanges] if exchanges < len(self._marks) else None

    @property
    def last(self) -> Mark:
        return self._marks[-1]


def mark_of(tombstone: Tombstone) -> PurgeMark:
    return PurgeMark(sha256(msgspec.json.encode(msgspec.structs.astuple(tombstone))).hexdigest())


def line(session_id: str, mark: Mark | PurgeMark) -> str:
    if isinstance(mark, PurgeMark):
        return f"{session_id} purged {mark.root}"
    return f"{session_id} {mark.exchanges} {mark.events} {mark.root} {mark.last_hash or '-'}"


def read(lines: Iterable[str]) -> Marks:
    """Return the marks of a manifest by session.

    Raises `ValueError` with the number of a line that makes no sense.
    """
    marks: dict[str, Mark | PurgeMark] = {}
    for number, given in enumerate(lines, 1):
        text = given.strip()
        if number == 1 and text not in _FIRST_LINES:
            raise ValueError(f"line 1 is not {FIRST_LINE!r}")
        if not text or text.startswith("#"):
            continue
        if match := _LINE.fullmatch(text):
            last_hash = (match["last"] or "").strip("-")
            marks[match["id"]] = Mark(
                int(match["exchanges"]), int(match["events"]), match["root"], last_hash
            )
        elif match := _PURGED.fullmatch(text):
            marks[match["id"]] = PurgeMark(match["root"])
        else:
            raise ValueError(f"line {number} is not a line of a manifest")
    return marks


def difference(then: Mark, now: Roots) -> str | None:
    """Return how a session differs from its manifest; None if it is the same or has grown."""
    same = now.after(then.exchanges)
    if same is None:
        there = now.last.exchanges
        return f"it had {then.exchanges} exchanges that had ended and now has {there}: some were removed or cut off"
    if same.events != then.events:
        return f"its exchanges had {then.events} events and now have {same.events}: {_OR_LATE}"
    if same.root != then.root:
        return f"its exchanges are not those of the manifest: {_OR_LATE}"
    return None


_OR_LATE = "they were changed, or an older journal was recovered into it since"


def purge_difference(then: Mark | PurgeMark, now: Tombstone | None) -> str | None:
    """Return why a tombstone is not that of a purge of the session that a manifest has; None if it
    may be.
    """
    if isinstance(then, PurgeMark):
        if now is None:
            return "the manifest has its tombstone: it was purged then, and the tombstone was removed since"
        return (
            None if then == mark_of(now) else "its tombstone is not the one that the manifest has"
        )
    if now is None:
        return f"the manifest has it, with {then.exchanges} exchanges: the session was removed, and not by a purge"
    counts = now.size
    if counts.exchanges < then.exchanges or counts.events < then.events:
        return (
            f"the manifest has it, with {then.exchanges} exchanges of {then.events} events, and its tombstone is of "
            f"{counts.exchanges} exchanges of {counts.events} events: recorder did not purge it"
        )
    is_as_it_was = (counts.exchanges, counts.events) == (then.exchanges, then.events)
    if is_as_it_was and then.last_hash and then.last_hash != (now.last_hash or b"").hex():
        return "its tombstone has another last hash than the manifest: recorder did not purge it"
    return None
