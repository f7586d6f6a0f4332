"""The recordings that a command answers with: whole exchanges of sessions and of cassettes, held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.commands.ui.catch_up import current_url
from recorder.commands.ui.selection import select
from recorder.errors import NotFoundError, RecorderError
from recorder.model.events import LATEST, Event, Exchange
from recorder.model.text import safe_text
from recorder.store.reader import LogReader
from recorder.wire.recording import Recorded, recorded

HELD_LIMIT = 512 * 2**20
"""Bytes of all together: a hundred long sessions of an agent, and what any machine can spare."""

EVENT_BYTES = 200
"""What an event takes besides its bytes."""


async def recordings(
    db: str | None,
    sessions: Sequence[str],
    cassettes: Sequence[Path],
    *,
    allow_gaps: bool = False,
    limit_bytes: int = HELD_LIMIT,
) -> list[Recorded]:
    """Those of the sessions and the cassettes, in the order they are named; of `latest` if none is.

    Raises `RecorderError` if bytes are missing in one, or if they are too many; `NotFoundError` if there is none.
    """
    held = _Held(allow_gaps, limit_bytes)
    if sessions or not cassettes:
        async with await LogReader.open(current_url(db)) as log:
            for session in sessions or [LATEST]:
                await held.add_session(log, session)
    for cassette in dict.fromkeys(cassettes):
        held.add_cassette(cassette)
    if not held.recordings:
        raise NotFoundError("There is nothing to answer with: no exchange was recorded there.")
    return held.recordings


class _Held:
    """What is held so far."""

    def __init__(self, allow_gaps: bool, limit_bytes: int) -> None:
        self.recordings: list[Recorded] = []
        self._allow_gaps, self._limit_bytes = allow_gaps, limit_bytes
        self._sessions: set[str] = set()
        self._size_bytes = 0

    async def add_session(self, log: LogReader, session: str) -> None:
        """Add the exchanges of a session, if they are not there yet."""
        found, chosen = await select(log, session, None)
        if found.session_id in self._sessions:
            return
        self._sessions.add(found.session_id)
        for number, exchange in chosen:
            await self._add_exchange(log, exchange, f"Exchange {number} of session {safe_text(found.name)}")

    def add_cassette(self, path: Path) -> None:
        """Add the exchanges of a cassette."""
        for number, each in enumerate(read_cassette(path), 1):
            if each.end is not None and each.end.gap_chunks:
                self._refuse_gap(f"Exchange {number} of {safe_text(str(path))}")
            self._count(len(each.request_body) + sum(len(piece.raw) + EVENT_BYTES for piece in each.pieces))
            self.recordings.append(each)

    async def _add_exchange(self, log: LogReader, exchange: Exchange, name: str) -> None:
        events: list[Event] = []
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            if event.kind == "gap":
                self._refuse_gap(name)
            self._count(len(event.raw) + EVENT_BYTES)
            events.append(event)
        try:
            made = recorded(exchange, events)
        except ValueError as error:
            raise RecorderError(f"{name} cannot be an answer: {error}.") from error
        self.recordings.append(replace(made, name=name[0].lower() + name[1:]))

    def _refuse_gap(self, name: str) -> None:
        if not self._allow_gaps:
            raise RecorderError(f"{name} has a gap, bytes that were not kept: --allow-gaps takes the rest.")

    def _count(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._limit_bytes:
            raise RecorderError(
                f"These recordings take over {self._limit_bytes >> 20} MiB of memory: name fewer of them, or make "
                "a cassette of what is needed with `recorder export SESSION --exchange N --format cassette`."
            )
