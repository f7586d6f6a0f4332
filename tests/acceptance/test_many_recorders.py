"""C10, C6 and B9: several recorders write into one log and one session, while somebody reads it all
the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import scripts
from tests.support.event_loop import on_uvloop
from tests.support.rows import projections
from tests.support.scripts import (
    Action,
    Chunk,
    End,
    ReadAll,
    Received,
    Sleep,
    Upstream,
    ask,
    body_of,
)
from tests.support.server import Serving, everywhere, run, serving

STREAMS = 8  # at once, of each recorder

NEWEST = 100  # exchanges that a poll looks at: those that are under way, and some before them

_LOOK = (
    "SELECT exchange_id, count(*), max(pos), sum(kind = 'end'), max(CASE kind WHEN 'end' THEN pos END) "
    f"FROM (SELECT session_id, exchange_id FROM exchanges ORDER BY exchange_id DESC LIMIT {NEWEST}) "
    "JOIN events USING (session_id, exchange_id) GROUP BY session_id, exchange_id"
)


def script_of(id: str) -> list[Action]:
    dice = random.Random(id)
    frames = [
        b'data: {"sequence_number":%d,"pad":"%b"}\n\n' % (n, b"x" * dice.randrange(300))
        for n in range(40)
    ]
    return [*(action for frame in frames for action in (Chunk(frame), Sleep(0.02))), End()]


class Look:
    """Somebody who reads again and again: event n is never there without n - 1, nor an end before
    the last frame.
    """

    def __init__(self, db: Path) -> None:
        self._db = db
        self.polls = 0
        self.findings: list[str] = []
        self._ended: dict[str, int] = {}

    def poll(self) -> None:
        self.polls += 1
        with closing(sqlite3.connect(f"{self._db.as_uri()}?mode=ro", uri=True)) as connection:
            for exchange_id, count, last, ends, end in connection.execute(_LOOK):
                if count != last + 1:
                    self.findings.append(f"{exchange_id} has {count} events up to {last}")
                if ends > 1 or (ends and end != last):
                    self.findings.append(f"{exchange_id} goes on after its end")
                if self._ended.setdefault(exchange_id, last if ends else -1) not in (-1, last):
                    self.findings.append(f"{exchange_id} has grown after its end")
                if ends:
                    self._ended[exchange_id] = last


async def record(
    db: Path, recorders: int, polls: int
) -> tuple[list[Received], Look, scripts.Report, list[Serving]]:
    look, received, serves = Look(db), list[Received](), list[Serving]()
    async with Upstream(script_of) as upstream:
        with contextlib.ExitStack() as stack:
            for _ in range(recorders):
                serves.append(
                    await asyncio.to_thread(
                        stack.enter_context, serving(db, *everywhere(upstream.base))
                    )
                )
            rounds = 0
            while look.polls < polls or not rounds:
                async with asyncio.TaskGroup() as tasks:
                    asking = [
                        tasks.create_task(
                            ask(
                                serve.port, f"{rounds}-{place}-{number}", ReadAll(), prefix="/s/one"
                            )
                        )
                        for place, serve in enumerate(serves)
                        for number in range(STREAMS)
                    ]
                    await _read_while(asking, look)
                received += [task.result() for task in asking]
                rounds += 1
            for serve in serves:
                await asyncio.to_thread(serve.stop)
    assert run(db, "db", "recover").code == 0
    look.poll()
    return received, look, scripts.check(db, received, lambda id: body_of(script_of(id))), serves


async def _read_while(asking: Sequence[asyncio.Task[Received]], look: Look) -> None:
    while not all(task.done() for task in asking):
        await asyncio.to_thread(look.poll)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@on_uvloop
async def test_four_recorders_write_one_session_and_every_poll_sees_whole_beginnings(
    tmp_path: Path,
) -> None:
    """C10: no conflict, all verifies. C6: what each adds is projected. B9: ten thousand polls."""
    db = tmp_path / "recorder.db"
    received, look, report, serves = await record(db, 4, 10_000)
    assert {each.ending for each in received} == {"complete"}
    assert (look.findings, report.findings, report.gap_bytes) == ([], [], 0)
    assert report.outcomes == {"eof": len(received)}
    assert run(db, "verify").code == 0
    assert len(projections(db)["p_timing_v1"]) == len(received)
    assert all("Traceback" not in serve.said and "refuses" not in serve.said for serve in serves)
