"""Server-sent events for pages that follow what is being recorded: that there is more, never what.

Rules of this file:

* Each look at the log is one short transaction over what may still grow: what is open, and what
  began lately.
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
from recorder.store.queries.outlines import BEFORE_S, LATE_S, Growth, WatchedExchanges, id_ago
from recorder.store.queries.reader import LogReader

CONTENT_TYPE = b"text/event-stream"
POLL_S = 0.2  # of a session that grows: a person sees no more steps
LIST_POLL_S = 1.0  # of the list of sessions
IDLE_S, IDLE_POLL_S = 5.0, 1.0  # after so long without news the log is looked at less often
# between two comments: a client that has gone is noticed, and nobody takes the stream for dead
BEAT_S = 15.0
RETRY = b"retry: 2000\n\n"  # milliseconds before a browser asks again

log = logging.getLogger(__name__)

_News = Mapping[str, Growth]  # by exchange


async def growth(reader: LogReader, session_id: str) -> AsyncGenerator[bytes]:
    """Yield an event `grew` when a session has more; the first has all of its exchanges as they are
    now.
    """
    numbers: dict[str, int] = {}

    async def message(news: _News) -> bytes:
        if not news.keys() <= numbers.keys():
            numbers.update(
                (each.exchange_id, at)
                for at, each in enumerate(await reader.exchanges(session_id), 1)
            )
        grown = []
        for id in sorted(news.keys() & numbers.keys(), key=lambda id: numbers[id]):
            exchange = news[id].exchange
            point = {"last_pos": exchange.last_pos, "has_ended": bool(exchange.ended)}
            grown.append({"number": numbers[id], "exchange_id": id, **point})
        return _event("grew", {"exchanges": grown})

    watched = WatchedExchanges(reader, session_id)
    yield RETRY + await message(await watched.news(BEFORE_ALL))
    async for chunk in _watch(watched, POLL_S, message):
        yield chunk


async def changes(reader: LogReader) -> AsyncGenerator[bytes]:
    """Yield an event `sessions` when the list of sessions has changed."""

    async def message(_: _News) -> bytes:
        return _event("sessions", {})

    watched = WatchedExchanges(reader)
    await watched.news(id_ago(time.time_ns(), BEFORE_S))
    yield RETRY
    async for chunk in _watch(watched, LIST_POLL_S, message):
        yield chunk


async def _watch(
    watched: WatchedExchanges, poll_s: float, message: Callable[[_News], Awaitable[bytes]]
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
