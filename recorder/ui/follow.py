"""Server-sent events for pages that follow what is being recorded: that there is more, never what.

Rules of this file:

* Each look at the log is one short transaction over what may still grow: what is open, and what began lately. An
  exchange may enter the log later than one that began after it.
* A page asks for what is new in its own time, so a slow one costs nothing here.
* A stream has no end of its own. If the log cannot be read it breaks off, and browsers ask again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from recorder.errors import RecorderError
from recorder.model.ids import BEFORE_ALL
from recorder.store.queries.outlines import BEFORE_S, LATE_S, ExchangeProgress, id_ago, progress
from recorder.store.queries.reader import LogReader

CONTENT_TYPE = b"text/event-stream"
POLL_S = 0.2  # of a session that grows: a person sees no more steps
LIST_POLL_S = 1.0  # of the list of sessions
IDLE_S, IDLE_POLL_S = 5.0, 1.0  # after so long without news the log is looked at less often
BEAT_S = 15.0  # between two comments: a client that has gone is noticed, and nobody takes the stream for dead
OPEN = 500  # exchanges that go on for longer than LATE_S: those that a killed recorder left open would add up
RETRY = b"retry: 2000\n\n"  # milliseconds before a browser asks again

log = logging.getLogger(__name__)


_News = Mapping[str, ExchangeProgress]  # by exchange


async def growth(reader: LogReader, session_id: str) -> AsyncGenerator[bytes]:
    """Yield an event `grew` when a session has more; the first has all of its exchanges as they are now."""
    numbers: dict[str, int] = {}

    async def message(news: _News) -> bytes:
        if not news.keys() <= numbers.keys():
            numbers.update((each.exchange_id, at) for at, each in enumerate(await reader.exchanges(session_id), 1))
        grown = []
        for id in sorted(news.keys() & numbers.keys(), key=lambda id: numbers[id]):
            point = {"last_pos": news[id].last_pos, "has_ended": bool(news[id].ended)}
            grown.append({"number": numbers[id], "exchange_id": id, **point})
        return _event("grew", {"exchanges": grown})

    watched = _Watched(reader, session_id)
    yield RETRY + await message(await watched.news(BEFORE_ALL))
    async for chunk in _watch(watched, POLL_S, message):
        yield chunk


async def changes(reader: LogReader) -> AsyncGenerator[bytes]:
    """Yield an event `sessions` when the list of sessions has changed."""

    async def message(_: _News) -> bytes:
        return _event("sessions", {})

    watched = _Watched(reader, None)
    await watched.news(id_ago(time.time_ns(), BEFORE_S))
    yield RETRY
    async for chunk in _watch(watched, LIST_POLL_S, message):
        yield chunk


class _Watched:
    """The exchanges that may grow, of one session or of all, and how far they had come."""

    def __init__(self, reader: LogReader, session_id: str | None) -> None:
        self._reader, self._session_id = reader, session_id
        self._known: dict[str, ExchangeProgress] = {}

    async def news(self, since: str) -> _News:
        """Return the exchanges with this id or a later one, and of older ones those that go on, which have come
        further since the last call.
        """
        rows = await progress(self._reader, since, self._open_before(since), self._session_id)
        news = {row.exchange_id: row for row in rows if self._known.get(row.exchange_id) != row}
        self._known |= news
        open_before = set(self._open_before(since))
        self._known = {id: each for id, each in self._known.items() if id >= since or id in open_before}
        return news

    def _open_before(self, since: str) -> list[str]:
        """Return the exchanges before an id that may still grow, the newest of them if there are many."""
        return sorted(id for id, each in self._known.items() if id < since and not each.ended)[-OPEN:]


async def _watch(
    watched: _Watched, poll_s: float, message: Callable[[_News], Awaitable[bytes]]
) -> AsyncGenerator[bytes]:
    """Yield a message for news, and a comment when there was nothing for long."""
    sent_s = news_s = time.monotonic()
    while True:
        is_idle = time.monotonic() - news_s > IDLE_S
        await asyncio.sleep(max(poll_s, IDLE_POLL_S) if is_idle else poll_s)
        try:
            news = await watched.news(id_ago(time.time_ns(), LATE_S))
            chunk = await message(news) if news else b""
        except RecorderError as error:
            log.warning("following stopped, the page will try again: %s", error)
            return
        if news:
            news_s = time.monotonic()
        elif time.monotonic() - sent_s > BEAT_S:
            chunk = b":\n\n"
        if chunk:
            sent_s = time.monotonic()
            yield chunk


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
