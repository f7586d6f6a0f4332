"""A manifest: one line for each session, with a digest over its exchanges, to be kept elsewhere: in git, or signed.

    # recorder manifest 1: session_id exchanges events root
    01994c2e-… 3 210 9f86d081884c…

A chain of hashes in the log proves that nothing *in* an exchange was changed. That a session, or the end of one, is
still there at all can only be proved by somebody who noted it. Pure: lines in and out, no file.

The digest after each exchange is the one before it, hashed with the exchange's row, its number of events and its last
hash. So a session that has grown still has the digest that it had, after as many exchanges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec

from recorder.model.events import Exchange, Session

FIRST_LINE = "# recorder manifest 1: session_id exchanges events root"

_LINE = re.compile(r"(\S+) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})")


class Mark(NamedTuple):
    """A digest, and how many exchanges of a session with how many events it is over."""

    exchanges: int
    events: int
    root: str


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
        self._marks.append(Mark(last.exchanges + 1, last.events + events, self._digest.hex()))

    def after(self, exchanges: int) -> Mark | None:
        """Return the mark after so many exchanges; None if there are fewer."""
        return self._marks[exchanges] if exchanges < len(self._marks) else None

    @property
    def last(self) -> Mark:
        return self._marks[-1]


def line(session_id: str, mark: Mark) -> str:
    return f"{session_id} {mark.exchanges} {mark.events} {mark.root}"


def read(lines: Iterable[str]) -> Mapping[str, Mark]:
    """Return the marks of a manifest by session. Raises `ValueError` with the number of a line that makes no sense."""
    marks: dict[str, Mark] = {}
    for number, given in enumerate(lines, 1):
        text = given.strip()
        if number == 1 and text != FIRST_LINE:
            raise ValueError(f"line 1 is not {FIRST_LINE!r}")
        if not text or text.startswith("#"):
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            raise ValueError(f"line {number} is not a line of a manifest")
        marks[found[1]] = Mark(int(found[2]), int(found[3]), found[4])
    return marks


def difference(then: Mark, now: Roots) -> str | None:
    """Return how a session differs from its manifest; None if it is the same or has grown."""
    same = now.after(then.exchanges)
    if same == then:
        return None
    if same is None:
        there = now.last.exchanges
        return f"it had {then.exchanges} exchanges that had ended and now has {there}: some were removed or cut off"
    if same.events != then.events:
        return f"its exchanges had {then.events} events and now have {same.events}: {_OR_LATE}"
    return f"its exchanges are not those of the manifest: {_OR_LATE}"


_OR_LATE = "they were changed, or an older journal was recovered into it since"
