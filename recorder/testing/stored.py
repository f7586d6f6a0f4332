"""Recordings of a database, to be replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from recorder.errors import RecorderError
from recorder.model.events import Event, Exchange
from recorder.wire.recording import Recorded, recorded

T = TypeVar("T")


def recorded_in(database: str | Path, session: str = "latest") -> list[Recorded]:
    """The exchanges of a session: its id, the beginning of one, its name, or `latest`.

    Raises `recorder.errors.NotFoundError` if there is no such session or database, and `RecorderError` if bytes are
    missing in one of them, or too many.
    """
    __tracebackhide__ = True
    return apart(lambda: _read(database, session))


def apart(read: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What is read, in a thread of its own: whoever asks may run in an event loop. Of that they see nothing."""
    __tracebackhide__ = True
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: asyncio.run(read()))
    error = reading.exception()
    if isinstance(error, RecorderError):
        raise error.with_traceback(None) from None
    return reading.result()


async def _read(database: str | Path, session: str) -> list[Recorded]:
    from recorder.store.reader import LogReader

    async with await LogReader.open(database) as log:
        found = await log.session(session)
        exchanges = await log.exchanges(found.session_id)
        return [
            whole(number, each, [event async for event in log.events(each.session_id, each.exchange_id)])
            for number, each in enumerate(exchanges, 1)
        ]


def whole(number: int, exchange: Exchange, events: Iterable[Event]) -> Recorded:
    """An exchange as it can be answered with. Raises `RecorderError` if bytes are missing in it, or too many."""
    events = list(events)
    try:
        made = recorded(exchange, events)
    except ValueError as error:
        raise RecorderError(f"A recording cannot be an answer: {error}.") from error
    if any(event.kind == "gap" for event in events):
        raise _gap(number)
    return made


def all_whole(recordings: Sequence[Recorded]) -> Sequence[Recorded]:
    """The same, of exchanges that were read elsewhere."""
    for number, each in enumerate(recordings, 1):
        if each.end is not None and each.end.gap_chunks:
            raise _gap(number)
    return recordings


def _gap(number: int) -> RecorderError:
    return RecorderError(f"Exchange {number} has a gap, bytes that were not kept: record it anew.")
