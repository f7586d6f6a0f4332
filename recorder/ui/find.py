"""The events of a session that have a text: in their bytes, whatever their format is, or in a text
that they write.

A word that a model writes lies over several deltas, and none of them has it. To know which
exchanges are decoded for that, the projections are asked: they have the texts whole. An exchange
that they do not have yet is decoded, too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import or_, select

from recorder.errors import UsageError
from recorder.model.events import Event, Exchange
from recorder.model.facts import Field, ItemKey, TextAdded
from recorder.projections.fact_reader import FactReader
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.outlines import outlines
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of
from recorder.store.sql import of_session

FOUND_LIMIT = 20_000  # events of one answer: more than somebody looks through
TEXT_CHARS = 200  # of what is looked for: a longer one is not typed

_TEXTS = ("text", "refusal", "summary_text", "arguments", "output")


async def events_with(log: LogReader, session_ref: str, text: str | None) -> dict[str, Any]:
    """Return the positions of the events with a text by the number of their exchange, and whether
    these are all.

    Case counts only beyond ASCII. A text is found as it is, and as JSON writes it with escapes.
    """
    if not text or len(text) > TEXT_CHARS:
        raise UsageError(f"Give a text of 1 to {TEXT_CHARS} characters to look for.")
    needles = {each.encode("utf-8", "replace").lower() for each in (text, json.dumps(text)[1:-1])}
    session, numbered = await select_exchanges(log, session_ref, None)
    written = await _with_text(log, session.session_id, text)
    found: dict[int, list[int]] = {}
    total = 0
    for number, exchange in numbered:
        deltas = _Deltas(exchange, needles)
        positions = set()
        async for event in log.events(session.session_id, exchange.exchange_id):
            raw = event.raw.lower()
            if any(needle in raw for needle in needles):
                positions.add(event.pos)
            if exchange.exchange_id in written:
                deltas.add(event)
        positions.update(deltas.found())
        if positions:
            found[number] = sorted(positions)[: FOUND_LIMIT - total]
        total += len(positions)
        if total > FOUND_LIMIT:
            break
    return {"events": found, "is_all": total <= FOUND_LIMIT}


async def _with_text(log: LogReader, session_id: str, text: str) -> set[str]:
    """Return the exchanges whose items have a text, by the projections, and those that are not
    projected yet.
    """
    items = tables_of["items"]
    has_text = or_(*(items.c[name].icontains(text, autoescape=True) for name in _TEXTS))
    wanted = select(items.c.exchange_id).where(of_session(items), has_text).distinct()
    rows = await log.rows(wanted, session_id=session_id)
    unknown = {each.exchange_id for each in await outlines(log, session_id) if each.status is None}
    return {str(row.exchange_id) for row in rows} | unknown


class _Deltas:
    """The texts of the items of an exchange, and which event wrote each piece."""

    def __init__(self, exchange: Exchange, needles: Iterable[bytes]) -> None:
        self._needles = needles
        self._reading = FactReader(exchange)
        self._pieces: dict[tuple[ItemKey, Field, int], list[tuple[int, bytes]]] = defaultdict(list)

    def add(self, event: Event) -> None:
        """Read the next event."""
        for fact in self._reading.facts(event):
            if isinstance(fact, TextAdded):
                piece = fact.text.encode("utf-8", "replace").lower()
                self._pieces[fact.item, fact.field, fact.part].append((event.pos, piece))

    def found(self) -> Iterator[int]:
        """Yield the positions of the events that wrote a part of what is looked for."""
        for pieces in self._pieces.values():
            text = b"".join(piece for _, piece in pieces)
            for needle in self._needles:
                yield from _writers(pieces, text, needle)


def _writers(pieces: Sequence[tuple[int, bytes]], text: bytes, needle: bytes) -> Iterator[int]:
    """Yield the positions of the pieces that each place of a needle lies over."""
    at = text.find(needle)
    begin = 0
    for pos, piece in pieces:
        end = begin + len(piece)
        while 0 <= at < end:
            yield pos
            if at + len(needle) > end:
                break  # the next piece has more of it
            at = text.find(needle, at + len(needle))
        begin = end
