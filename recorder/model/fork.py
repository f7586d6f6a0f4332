"""The parent of a session that repeats another one: a label of the session's row.

{"forked_from": {"name": "weather", "until": 3, "session_id": "0199f3c2-…"}}
{"resent_from": {"name": "weather", "session_id": "0199f3c2-…", "model": "gpt-5-mini"}}
"""

from __future__ import annotations

import msgspec

from recorder.model.events import Session


class EditedTurn(msgspec.Struct, frozen=True):
    """A turn whose answer was another one than the recorded: a text, a call, or the status of an
    error.
    """

    turn: int
    what: str


class ForkedFrom(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parent: of its turns up to number `until`, requests that equal one were answered from the
    recording.
    """

    name: str
    until: int
    session_id: str | None = None  # None if the parent was a cassette, whose id no log has
    edited: tuple[EditedTurn, ...] = ()


class ResentFrom(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parent whose requests were sent once more, and what was different."""

    name: str
    session_id: str | None = None  # None if the parent was a file
    to: str | None = None  # the address, if it was another one
    model: str | None = None  # if it was another one


class _Labels(msgspec.Struct, frozen=True):
    forked_from: ForkedFrom | None = None
    resent_from: ResentFrom | None = None


def fork_labels(parent: ForkedFrom) -> str:
    """Return the labels of a fork."""
    return msgspec.json.encode({"forked_from": parent}).decode()


def resend_labels(parent: ResentFrom) -> str:
    """Return the labels of a session of requests that were sent again."""
    return msgspec.json.encode({"resent_from": parent}).decode()


def resent_from(session: Session) -> ResentFrom | None:
    """Return whose requests a session repeats; None if it does not, or its labels are of another
    kind.
    """
    return _labels_of(session).resent_from


def parent_of(session: Session) -> ForkedFrom | None:
    """Return the parent of a session; None if it is not a fork, or its labels are of another kind."""
    return _labels_of(session).forked_from


def _labels_of(session: Session) -> _Labels:
    try:
        return msgspec.json.decode(session.labels, type=_Labels)
    except msgspec.MsgspecError:
        return _Labels()
