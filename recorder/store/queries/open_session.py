"""What is known of an exchange that has not ended, and of a session of such: only requests say it."""

from __future__ import annotations

from typing import NamedTuple

from recorder.model.events import Event, Exchange
from recorder.projections.rows import ExchangeRow
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import REQUEST_KINDS, requested

# exchanges: a client may ask for a title or a quota before it sends what a person said
LOOKED_AT = 3
MOST_BYTES = 4 * 2**20  # of a request: a page that follows the list asks for it each second


class Asked(NamedTuple):
    """What the first requests of a session say."""

    title: str | None
    models: tuple[str, ...]


async def asked_in(log: LogReader, session_id: str) -> Asked:
    """Return the first text of a person in a session, else of any request, and the models that are
    asked.
    """
    rows: list[ExchangeRow] = []
    for exchange in (await log.exchanges(session_id))[:LOOKED_AT]:
        rows += await requested_rows(log, exchange)
    asking = [row for row in rows if row.user_text]
    of_person = [row for row in asking if row.purpose in (None, "turn")]
    title = next((row.user_text for row in [*of_person, *asking]), None)
    return Asked(
        title, tuple(dict.fromkeys(row.request_model for row in rows if row.request_model))
    )


async def requested_rows(log: LogReader, exchange: Exchange) -> list[ExchangeRow]:
    """Return the row of an exchange as far as its request says; none of one that is too large."""
    events: list[Event] = []
    size_bytes = 0
    async for event in log.events(exchange.session_id, exchange.exchange_id, kinds=REQUEST_KINDS):
        size_bytes += len(event.raw)
        if size_bytes > MOST_BYTES:
            return []
        events.append(event)
    rows: list[ExchangeRow] = requested(exchange, events)["exchanges"]
    return rows
