"""The exchanges that ran at some time, in whichever session."""

from __future__ import annotations

from sqlalchemy import URL

from recorder.store.queries.overlapping import BEFORE_NS, overlapping
from recorder.store.queries.reader import LogReader
from tests.support.conversations import Conversations, message, response

FRAMES = response(*message("Yes."))  # each 100 ms after the one before


async def test_only_what_ran_at_the_time_is_found_whatever_its_session(database: URL) -> None:
    made = Conversations(database)
    apart_s = len(FRAMES) / 10 + 1
    before, asked, within, after = (
        made.session(str(n)).exchange(FRAMES, at_s=n * apart_s) for n in range(4)
    )
    async with await LogReader.open(database) as log:
        found = await overlapping(log, asked.started_ns, within.started_ns, limit=10)
        assert found == [asked, within]
        assert await overlapping(log, asked.started_ns, within.started_ns, limit=1) == [asked]
        long_after_ns = after.started_ns + 2 * BEFORE_NS
        assert await overlapping(log, before.started_ns, long_after_ns, limit=10) == [
            before,
            asked,
            within,
            after,
        ]
