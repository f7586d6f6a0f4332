"""D6 and D7, many clients: a thousand at once, ten thousand that leave. Nothing is lost, and
nothing is left open.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from recorder.ingest.ingester import recover
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import never
from tests.support import scripts
from tests.support.event_loop import on_uvloop
from tests.support.scripts import (
    Action,
    Behaviour,
    Chunk,
    End,
    LeaveAfter,
    ReadAll,
    Received,
    ResetAfter,
    Sleep,
    Stall,
    Upstream,
    ask,
    body_of,
)
from tests.support.server import Serving, everywhere, serving

AT_ONCE = 100
SPARE = 5  # descriptors that may come and go: the journal's next segment, a look at the ingester
AT_REST_S = 30.0  # until connections that are kept for the next request are closed


def script_of(id: str) -> list[Action]:
    """A short stream, the same for an id whenever it is asked for.

    One that is left goes on until it is closed.
    """
    dice, is_left = random.Random(id), id.startswith("left")
    chunks = [Chunk(b"data: %b\n\n" % dice.randbytes(100).hex().encode()) for _ in range(20)]
    pause = Sleep(0.01 if is_left else 0.3)
    return [
        *(action for chunk in chunks for action in (chunk, pause)),
        Stall() if is_left else End(),
    ]


def _sent(upstream: Upstream) -> scripts.Sent:
    return lambda id: body_of(script_of(id))[: upstream.sent.get(id, 0)]


def _recover(db: Path) -> None:
    """Ingest what was too much for the seconds that a recorder takes at its end."""
    with Store(db) as store:
        recover(store, Path(f"{db}.journal"), never)


def _leaving(dice: random.Random) -> Behaviour:
    size = dice.randrange(1, 4_000)
    return dice.choice((LeaveAfter(size), ResetAfter(size)))


async def leave(
    db: Path, count: int, normal: int, seed: int
) -> tuple[int, int, list[Received], scripts.Report]:
    """Clients that leave, each with a connection of its own, then some that stay.

    Returns the descriptors of the recorder at rest before and after, what the last ones got, and
    what the log lacks.
    """
    dice, received = random.Random(seed), list[Received]()
    async with Upstream(script_of) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            await ask(serve.port, "first", LeaveAfter(1))
            before = await at_rest(serve, 0)
            for start in range(0, count, AT_ONCE):
                ids = [f"left-{number}" for number in range(start, min(start + AT_ONCE, count))]
                received += await asyncio.gather(
                    *(ask(serve.port, id, _leaving(dice)) for id in ids)
                )
            stayed = await asyncio.gather(
                *(ask(serve.port, f"normal-{n}", ReadAll()) for n in range(normal))
            )
            after = await at_rest(serve, before + SPARE)
            await asyncio.to_thread(serve.stop)
        _recover(db)
        report = scripts.check(db, [*received, *stayed], _sent(upstream))
    return before, after, stayed, report


async def at_rest(serve: Serving, few: int) -> int:
    """How many descriptors the recorder has: when they are few, or when it had time to close what
    it can.
    """
    count, unchanged = -1, 0
    for _ in range(int(AT_REST_S / 0.5)):
        await asyncio.sleep(0.5)
        now = len(os.listdir(f"/proc/{serve.process.pid}/fd"))
        unchanged = unchanged + 1 if now == count else 0
        count = now
        if count <= few or (not few and unchanged == 5):
            break
    return count


def assert_nothing_is_left(
    before: int, after: int, stayed: list[Received], report: scripts.Report
) -> None:
    assert [each.ending for each in stayed] == ["complete"] * len(stayed)
    assert after <= before + SPARE, f"{after} descriptors, {before} before"
    assert report.findings == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@on_uvloop
async def test_after_10000_clients_that_left_100_succeed_and_nothing_is_open(
    tmp_path: Path, seed: int
) -> None:
    """D7; `test_proxy_endings` has a smaller one."""
    assert_nothing_is_left(*await leave(tmp_path / "recorder.db", 10_000, 100, seed))


@pytest.mark.slow
@pytest.mark.timeout(300)
@on_uvloop
async def test_a_thousand_streams_at_once_are_whole(tmp_path: Path) -> None:
    """D6."""
    db, ids = tmp_path / "recorder.db", [f"s{number}" for number in range(1_000)]
    async with Upstream(script_of) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            await ask(serve.port, "first", ReadAll())
            before = await at_rest(serve, 0)
            threads = len(os.listdir(f"/proc/{serve.process.pid}/task"))
            received = await asyncio.gather(*(ask(serve.port, id, ReadAll()) for id in ids))
            after = await at_rest(serve, before + SPARE)
            assert len(os.listdir(f"/proc/{serve.process.pid}/task")) <= threads
            assert await asyncio.to_thread(serve.stop) == 0
        _recover(db)
        report = scripts.check(db, received, _sent(upstream))
    assert_nothing_is_left(before, after, received, report)
    assert (report.outcomes, report.gap_bytes) == ({"eof": 1_000}, 0)
