"""Recordings of a database, to be replayed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recorder.recorded import Recorded, recorded


def recorded_in(database: str | Path, session: str = "latest") -> list[Recorded]:
    """The exchanges of a session: its id, the beginning of one, its name, or `latest`.

    Raises `recorder.errors.NotFoundError` if there is no such session or database.
    """
    with ThreadPoolExecutor(1) as threads:  # whoever asks may run in an event loop of their own
        return threads.submit(lambda: asyncio.run(_read(database, session))).result()


async def _read(database: str | Path, session: str) -> list[Recorded]:
    from recorder.log import Log

    async with await Log.open(database) as log:
        found = await log.session(session)
        exchanges = await log.exchanges(found.session_id)
        return [
            recorded(each, [event async for event in log.events(each.session_id, each.exchange_id)])
            for each in exchanges
        ]
