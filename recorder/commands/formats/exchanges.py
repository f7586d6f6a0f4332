"""The session that is exported, and its exchanges one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from recorder.errors import RecorderError
from recorder.model.events import MemoryBudget, Recording, Session
from recorder.recordings.loader import load_exchanges
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.wire.recording import require_answerable

BY_ROWS = "--format jsonl writes it row by row"


class ExportSource(NamedTuple):
    """A session in an open log, and which of its exchanges are exported."""

    log: LogReader
    session: Session
    chosen: Sequence[Numbered]
    is_one: bool  # an exchange was named

    async def recordings(self) -> AsyncIterator[Recording]:
        """Yield recordings, of which one is held at a time.

        Raises `RecorderError` if one is too large.
        """
        for number, exchange in self.chosen:
            budget = MemoryBudget(f"Exchange {number} takes", BY_ROWS)
            for recording in await load_exchanges(
                self.log, self.session, [(number, exchange)], budget
            ):
                yield recording


def readable(recording: Recording) -> Recording:
    try:
        return require_answerable(recording)
    except ValueError as error:
        raise RecorderError(f"It cannot be written in this format: {error}.") from error
