"""Transcripts on their way into the log: found in directories, and without what the log has
already.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from recorder.cassettes.content import HEAD_BYTES, TRANSCRIPTS, formats
from recorder.cassettes.transcripts import REST_S, Transcript
from recorder.model.events import Session
from recorder.model.ids import without_time
from recorder.recordings.files import NAMES, read_unpacked, unpacking
from recorder.recordings.names import STDIN
from recorder.store.queries.imported_history import (
    derived_exchanges,
    derived_session,
    recorded_responses,
)
from recorder.store.write.writer import Store

PATTERNS = ("*.jsonl", "*.json", "*.jsonl.zst", "opencode*.db")


class LeftOut(NamedTuple):
    """The responses of transcripts that an import leaves out."""

    known: int = 0  # the log has them
    unsettled: int = 0  # they may still be written

    def __add__(self, other: object) -> LeftOut:
        if not isinstance(other, LeftOut):
            return NotImplemented
        return LeftOut(self.known + other.known, self.unsettled + other.unsettled)


class TranscriptHistory:
    """What the log has of transcripts, with what this import adds to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions: dict[str, Session] = {}
        with store.looking():
            self._known = derived_exchanges(store)

    def leave_out(self, transcript: Transcript, path: Path) -> LeftOut:
        """Take out of a transcript what is known already, or not settled."""
        is_resting = path == STDIN or time.time() - path.stat().st_mtime >= REST_S
        unsettled = 0 if is_resting else transcript.leave_unsettled()
        with self._store.looking():
            recorded = recorded_responses(self._store, *transcript.span_ns)
        left_out = transcript.leave_known(self._known, recorded)
        self._known.update(map(without_time, transcript.ids))
        return LeftOut(left_out, unsettled)

    def session(self, transcript: Transcript, name: str) -> Session:
        """Return the session of that name that an earlier file or import has made, or a new one."""
        if name not in self._sessions:
            with self._store.looking():
                found = derived_session(self._store, name)
            self._sessions[name] = found or transcript.session(name, NAMES)
        return self._sessions[name]


def transcripts_in(path: Path) -> list[Path]:
    """Return the transcripts in a directory; a path that has none is refused or read where it is
    opened.
    """
    found = (
        [each for each in sorted(path.rglob("*")) if _is_transcript(each)] if path.is_dir() else []
    )
    return found or [path]


def _is_transcript(path: Path) -> bool:
    if not any(map(path.match, PATTERNS)) or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = read_unpacked(unpacking(file), HEAD_BYTES)
    except OSError:
        return True  # it is named where it is opened again, and the others are read
    return not TRANSCRIPTS.isdisjoint(formats(head))
