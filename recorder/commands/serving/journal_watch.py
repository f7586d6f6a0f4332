"""A look at the files of the journal, once a second, in the thread that writes them."""

from __future__ import annotations

import asyncio

from recorder.journal.writer import Journal

LOOK_S = 1.0  # a look takes some microseconds; for as long, at most, nobody but the recorder has what was deleted


async def watch_journal(journal: Journal, look_s: float = LOOK_S) -> None:
    """Look for ever."""
    while True:
        await asyncio.sleep(look_s)
        journal.look()
