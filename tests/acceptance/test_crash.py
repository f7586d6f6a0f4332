"""B1, SIGKILL to the whole tree in mid-stream: what a client has received is in the log, in order,
once.

`recorder serve` and its ingester as a user starts them, 20 live streams, killed at a random moment,
started again; at the end `tests.support.scripts` holds what every client received and what the
upstream sent against the log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import scripts
from tests.support.rows import projections
from tests.support.scripts import Action, Chunk, ReadAll, Received, Sleep, Upstream, ask, body_of
from tests.support.server import everywhere, run, serving

STREAMS = 20
LIVE_S = (0.05, 1.0)  # how long streams have lived when the kill comes
RATES = (5, 100, 100, 1000)  # chunks a second
LONGEST_S = 3.0  # no stream ends before its recorder does

_FRAME = b'event: e\ndata: {"type":"e","sequence_number":%d,"of":"%b","pad":"%b"}\n\n'


def script_of(id: str) -> list[Action]:
    """Frames, in chunks that cut them anywhere; the same for an id whenever it is asked for."""
    dice = random.Random(id)
    every_s = 1 / dice.choice(RATES)
    count = int(LONGEST_S / every_s)
    body = b"".join(_FRAME % (n, id.encode(), b"x" * dice.randrange(400)) for n in range(count + 1))
    size, script = len(body) // count, list[Action]()
    for at in range(0, len(body), size):
        script += [Chunk(body[at : at + size]), Sleep(every_s)]
    return script


async def killed_in_mid_stream(
    db: Path, upstream: Upstream, ids: Sequence[str], dice: random.Random
) -> list[Received]:
    """What each client has received when recorder and ingester are killed."""
    with serving(db, *everywhere(upstream.base)) as serve:
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(ask(serve.port, id, ReadAll())) for id in ids]
            await asyncio.sleep(dice.uniform(*LIVE_S))
            serve.kill()
        received = [task.result() for task in asking]
    assert all(each.ending == "broken" for each in received)
    return received


async def kill(db: Path, count: int, seed: int) -> scripts.Report:
    """Kill a recorder again and again; the next one recovers what it left, after the last one a
    command does.
    """
    dice, received = random.Random(seed), list[Received]()
    async with Upstream(script_of) as upstream:
        for number in range(count):
            ids = [f"{number}-{client}" for client in range(STREAMS)]
            received += await killed_in_mid_stream(db, upstream, ids, dice)
            if dice.random() < 0.1:
                assert (await asyncio.to_thread(run, db, "db", "recover")).code == 0
    assert (await asyncio.to_thread(run, db, "db", "recover")).code == 0
    return scripts.check(
        db, received, lambda id: body_of(script_of(id))[: upstream.sent.get(id, 0)]
    )


def assert_nothing_is_lost(report: scripts.Report) -> None:
    assert report.findings == []
    assert report.received_bytes > 0
    assert (set(report.outcomes), report.gap_bytes) == ({"recorder_crash"}, 0)


def assert_it_verifies(db: Path, report: scripts.Report) -> None:
    """Chains, sums, and projections: as they came they are what a rebuild makes of the log."""
    verified = run(db, "verify")
    assert verified.code == 0, verified.out
    as_it_came = projections(db)
    assert len(as_it_came["p_timing_v1"]) == report.exchanges
    assert run(db, "db", "rebuild").code == 0
    assert projections(db) == as_it_came
    assert list(Path(f"{db}.journal").iterdir()) == []


async def test_what_a_client_had_survives_a_kill(tmp_path: Path, seed: int) -> None:
    """B1, a sample."""
    assert_nothing_is_lost(await kill(tmp_path / "recorder.db", 2, seed))


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_what_a_client_had_survives_200_kills(tmp_path: Path, seed: int) -> None:
    """B1."""
    report = await kill(tmp_path / "recorder.db", 200, seed)
    assert_nothing_is_lost(report)
    assert_it_verifies(tmp_path / "recorder.db", report)
