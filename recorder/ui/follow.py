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
from typing import Any, NamedTuple

import msgspec

from recorder.errors import RecorderError
from recorder.model.ids import first_id
from recorder.store.queries.outlines import outlines
from recorder.store.queries.progress import progress
from recorder.store.queries.reader import LogReader

CONTENT_TYPE = b"text/event-stream"
POLL_S = 0.2  # of a session that grows: a person sees no more steps
LIST_POLL_S = 1.0  # of the list of sessions
IDLE_S, IDLE_POLL_S = 5.0, 1.0  # after so long without news the log is looked at less often
BEAT_S = 15.0  # between two comments: a client that has gone is noticed, and nobody takes the stream for dead
BEFORE_S = 24 * 3600  # how old an exchange may be and still go on: background responses take hours
OPEN = 500  # exchanges that go on for longer than LATE_S: those that a killed recorder left open would add up
LATE_S = 120  # how much later than its request an exchange may appear in the log
RETRY = b"retry: 2000\n\n"  # milliseconds before a browser asks again

log = logging.getLogger(__name__)


class _Point(NamedTuple):
    """How far an exchange has come."""

    last_pos: int
    has_ended: bool


_Points = dict[str, _Point]


async def growth(reader: LogReader, session_id: str) -> AsyncGenerator[bytes]:
    """Yield an event `grew` when a session has more; the first has all of its exchanges as they are now."""
    numbers: dict[str, int] = {}
    points = {each.exchange_id: _Point(each.events - 1, each.has_ended) for each in await outlines(reader, session_id)}

    async def message(news: _Points) -> bytes:
        if not news.keys() <= numbers.keys():
            numbers.update((each.exchange_id, at) for at, each in enumerate(await reader.exchanges(session_id), 1))
        grown = []
        for id in sorted(news.keys() & numbers.keys(), key=lambda id: numbers[id]):
            grown.append({"number": numbers[id], "exchange_id": id, **news[id]._asdict()})
        return _event("grew", {"exchanges": grown})

    yield RETRY + await message(points)
    async for chunk in _watch(_Watched(reader, points, session_id), POLL_S, message):
        yield chunk


async def changes(reader: LogReader) -> AsyncGenerator[bytes]:
    """Yield an event `sessions` when the list of sessions has changed."""

    async def message(_: _Points) -> bytes:
        return _event("sessions", {})

    since = _first_id(BEFORE_S)
    points = {each.exchange_id: _point(each.last_pos, each.ended) for each in await progress(reader, since)}
    yield RETRY
    async for chunk in _watch(_Watched(reader, points, None), LIST_POLL_S, message):
        yield chunk


class _Watched:
    """The exchanges that may grow, of one session or of all, and how far they had come."""

    def __init__(self, reader: LogReader, points: Mapping[str, _Point], session_id: str | None) -> None:
        self._reader, self._session_id = reader, session_id
        self._points = dict(points)

    async def news(self) -> _Points:
        """Return the exchanges that have come further since the last call."""
        since = _first_id(LATE_S)
        growing = self._open_before(since)
        rows = await progress(self._reader, since, growing, self._session_id)
        found = {row.exchange_id: _point(row.last_pos, row.ended) for row in rows}
        news = {id: point for id, point in found.items() if self._points.get(id) != point}
        self._points.update(news)
        open_before = set(self._open_before(since))
        self._points = {id: each for id, each in self._points.items() if id >= since or id in open_before}
        return news

    def _open_before(self, since: str) -> list[str]:
        """Return the exchanges before an id that may still grow, the newest of them if there are many."""
        return sorted(id for id, point in self._points.items() if id < since and not point.has_ended)[-OPEN:]


async def _watch(
    watched: _Watched, poll_s: float, message: Callable[[_Points], Awaitable[bytes]]
) -> AsyncGenerator[bytes]:
    """Yield a message for news, and a comment when there was nothing for long."""
    sent_s = news_s = time.monotonic()
    while True:
        is_idle = time.monotonic() - news_s > IDLE_S
        await asyncio.sleep(max(poll_s, IDLE_POLL_S) if is_idle else poll_s)
        try:
            news = await watched.news()
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


def _point(last_pos: int | None, has_ended: bool) -> _Point:
    return _Point(-1 if last_pos is None else last_pos, bool(has_ended))


def _first_id(ago_s: int) -> str:
    """Return the smallest id of an exchange that began at that time."""
    return first_id(time.time_ns() - ago_s * 1_000_000_000)


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
