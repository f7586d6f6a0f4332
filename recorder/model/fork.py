"""The parent of a session that repeats what was recorded in another one and is live else: a label of the session's row.

{"forked_from": {"name": "weather", "until": 3, "session_id": "0199f3c2-…"}}
"""

from __future__ import annotations

import msgspec

from recorder.model.events import Session


class EditedTurn(msgspec.Struct, frozen=True):
    """A turn whose answer was another one than the recorded: a text, a call, or the status of an error."""

    turn: int
    what: str


class ForkedFrom(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parent: of its turns up to number `until`, requests that equal one were answered from the recording."""

    name: str
    until: int
    session_id: str | None = None  # None if the parent was a cassette, whose id no log has
    edited: tuple[EditedTurn, ...] = ()


class _Labels(msgspec.Struct, frozen=True):
    forked_from: ForkedFrom | None = None


def fork_labels(parent: ForkedFrom) -> str:
    """Return the labels of a fork."""
    return msgspec.json.encode({"forked_from": parent}).decode()


def parent_of(session: Session) -> ForkedFrom | None:
    """Return the parent of a session; None if it is not a fork, or its labels are of another kind."""
    try:
        return msgspec.json.decode(session.labels, type=_Labels).forked_from
    except msgspec.MsgspecError:
        return None
