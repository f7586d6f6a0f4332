"""B16: edges, collectors and the store between them are killed and away: nothing is lost, and
nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import logging
import os
import random
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from sqlalchemy import URL

from tests.support import scripts
from tests.support.rows import projections
from tests.support.scripts import (
    Action,
    Chunk,
    End,
    ReadAll,
    Received,
    Report,
    Sleep,
    Upstream,
    ask,
    body_of,
)
from tests.support.server import Serving, everywhere, run, started, wait_until
from tests.support.shipping import FaultyStore, collector, edge, left_at

log = logging.getLogger(__name__)

SETTLED_S = 300.0  # until all is collected, on a machine that has other things to do
LAG_S = 5.0  # when all is well
_LAG = re.compile(r"^recorder_collect_lag_seconds (\S+)$", re.MULTILINE)


class Size(NamedTuple):
    """What a fleet has, and what happens to it."""

    edges: int
    streams: int  # at a time, through each edge
    kills: int
    away_s: float  # for so long the store is away at once
    every_s: float  # between two chunks of a stream
    pace: float  # of kills: about one in so many seconds
    calm_s: float  # of streams and nothing else, when it is back


SMALL = Size(edges=2, streams=3, kills=4, away_s=3.0, every_s=0.05, pace=1, calm_s=2.0)
FULL = Size(edges=50, streams=20, kills=30, away_s=120.0, every_s=2.0, pace=2, calm_s=90.0)

_FRAME = b'event: e\ndata: {"type":"e","sequence_number":%d,"of":"%b","pad":"%b"}\n\n'


def script_of(id: str, every_s: float) -> list[Action]:
    """Frames, in chunks that cut them anywhere; the same for an id whenever it is asked for."""
    dice = random.Random(id)
    count = dice.randrange(5, 20)
    body = b"".join(_FRAME % (n, id.encode(), b"x" * dice.randrange(400)) for n in range(count + 1))
    size, script = len(body) // count, list[Action]()
    for at in range(0, len(body), size):
        script += [Chunk(body[at : at + size]), Sleep(every_s * dice.uniform(0.5, 1.5))]
    return [*script, End()]


class Fleet:
    """Edges and collectors that are killed and started again. Each edge has a home of its own."""

    def __init__(
        self,
        folder: Path,
        db: Path | URL,
        store: FaultyStore,
        upstream: Upstream,
        stack: ExitStack,
        dice: random.Random,
    ) -> None:
        self._folder, self._store, self._upstream, self._stack, self._dice = (
            folder,
            store,
            upstream,
            stack,
            dice,
        )
        self.db = db
        self.edges: dict[int, Serving] = {}
        self.collectors: dict[int, Serving] = {}
        self.received: list[Received] = []
        self.is_over = False
        self.lags: list[tuple[float, float]] = []  # when, and how many seconds

    def home(self, number: int) -> Path:
        return self._folder / f"edge-{number}"

    async def start_edge(self, number: int) -> None:
        made = edge(self.home(number), self._store, *everywhere(self._upstream.base))
        self.edges[number] = await asyncio.to_thread(self._stack.enter_context, made)

    async def start_collector(self, number: int) -> None:
        made = collector(self.db, self._folder, self._store)
        self.collectors[number] = await asyncio.to_thread(self._stack.enter_context, made)

    async def start(self, edges: int, collectors: int) -> None:
        for number in range(collectors):
            await self.start_collector(number)
        await asyncio.gather(*map(self.start_edge, range(edges)))

    async def kill_something(self) -> None:
        """Kill an edge, only its shipper, or a collector, and start it again."""
        what = self._dice.choice(["edge", "edge", "shipper", "collector"])
        if what == "shipper":
            for pid in self._dice.choice([*self.edges.values()]).ingesters():
                os.kill(pid, signal.SIGKILL)
            return
        group = self.edges if what == "edge" else self.collectors
        number = self._dice.choice([*group])
        await asyncio.to_thread(group[number].kill)
        await (self.start_edge(number) if what == "edge" else self.start_collector(number))

    async def stream(self, number: int, name: str) -> None:
        """Ask an edge for one stream after another, whatever becomes of it."""
        for count in itertools.count():
            if self.is_over:
                break
            id = f"{number}-{name}-{count}"
            answer = await ask(self.edges[number].port, id, ReadAll(), patience_s=300)
            self.received.append(answer)
            await asyncio.sleep(0.2)

    async def watch(self) -> None:
        """Note the lag each second: that of the collector which is farther behind."""
        while not self.is_over:
            found = await asyncio.to_thread(self._lag_s)
            if found is not None:
                self.lags.append((time.monotonic(), found))
            await asyncio.sleep(1.0)

    async def caught_up(self) -> None:
        """Wait until the lag is small, and has been for some seconds."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < SETTLED_S:
            await asyncio.sleep(1.0)
            last = [lag_s for at_s, lag_s in self.lags if at_s > time.monotonic() - 5]
            if last and max(last) < LAG_S:
                break
        log.warning("caught up %.0f s after the last kill", time.monotonic() - began_s)

    def _lag_s(self) -> float | None:
        found: list[float] = []
        for each in self.collectors.values():
            with contextlib.suppress(OSError, http.client.HTTPException):
                with urlopen(f"{each.base}/metrics", timeout=5) as page:
                    found += map(float, _LAG.findall(page.read().decode()))
        return max(found, default=None)

    async def stop_edges(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(serve.stop) for serve in self.edges.values()))

    async def ship_rest(self, number: int) -> None:
        """Start an edge again for what its stop left no time for, until there is nothing."""
        while left_at(self.home(number)):
            await self.start_edge(number)
            await asyncio.to_thread(self.edges[number].stop)

    async def settled_s(self) -> float:
        """Wait until all is collected; return how long that took."""
        began_s = time.monotonic()
        while True:
            left, took_s = await asyncio.to_thread(self._store.keys), time.monotonic() - began_s
            if not left:
                return took_s
            assert took_s < SETTLED_S, f"{left}: {[each.said for each in self.collectors.values()]}"
            await asyncio.sleep(0.5)


async def trouble(fleet: Fleet, store: FaultyStore, size: Size, dice: random.Random) -> float:
    """Kill parts, take the store away, and return how long it took until the lag was back."""
    for _ in range(size.kills):
        await asyncio.sleep(dice.uniform(0.1, 2.0) * size.pace)
        await fleet.kill_something()
    await fleet.caught_up()
    store.is_away = True
    await asyncio.sleep(size.away_s)
    store.is_away = False
    returned_s = time.monotonic()
    await asyncio.sleep(size.calm_s)
    late = [at_s for at_s, lag_s in fleet.lags if lag_s > LAG_S and at_s > returned_s]
    log.warning("lag by second: %s", [(round(at - returned_s), lag) for at, lag in fleet.lags])
    return max(late, default=returned_s) - returned_s


async def survive(folder: Path, db: Path | URL, seed: int, size: Size) -> tuple[Report, float]:
    """Return what a check finds, and how long the lag took to be back."""
    dice = random.Random(seed)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
    played = partial(script_of, every_s=size.every_s)
    async with Upstream(played) as upstream, FaultyStore(seed) as store:
        with contextlib.ExitStack() as stack:
            fleet = Fleet(folder, db, store, upstream, stack, dice)
            await fleet.start(size.edges, 2)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fleet.watch())
                for number in range(size.edges):
                    for name in range(size.streams):
                        tasks.create_task(fleet.stream(number, str(name)))
                back_s = await trouble(fleet, store, size, dice)
                fleet.is_over = True
            await fleet.stop_edges()
            await asyncio.gather(*map(fleet.ship_rest, range(size.edges)))
            took_s = await fleet.settled_s()
            codes = [await asyncio.to_thread(each.stop) for each in fleet.collectors.values()]
            assert set(codes) == {0}
        log.warning("collected %.1f s after the last edge; the store: %s", took_s, dict(store.done))
        assert min(store.done[fault] for fault in ("refused", "repeated", "lost")) > 0
    sent = upstream.sent
    report = scripts.check(db, fleet.received, lambda id: body_of(played(id))[: sent.get(id, 0)])
    log.warning("%s; back after %.1f s", report._replace(findings=report.findings[:5]), back_s)
    return report, back_s


async def survived_whole(folder: Path, db: Path | URL, seed: int, size: Size) -> None:
    """Fail if a byte is lost or there twice. How long the lag took to be back is said."""
    report, _ = await survive(folder, db, seed, size)
    assert (report.findings, report.gap_bytes) == ([], 0)
    assert report.received_bytes > 0
    assert_it_verifies(db)


@pytest.mark.long
async def test_nothing_is_lost_or_twice_in_a_small_fleet(tmp_path: Path, seed: int) -> None:
    await survived_whole(tmp_path, tmp_path / "log.db", seed, SMALL)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_nothing_is_lost_or_twice_whatever_is_killed_or_away(
    request: pytest.FixtureRequest, tmp_path: Path, seed: int, engine: str
) -> None:
    """50 edges, 30 kills, and two minutes without the store."""
    db = tmp_path / "log.db" if engine == "sqlite" else request.getfixturevalue("postgres_database")
    await survived_whole(tmp_path, db, seed, FULL)


def assert_it_verifies(db: Path | URL) -> None:
    """Projections, as they came, are what a rebuild makes of the log."""
    verified = run(db, "verify")
    assert verified.code == 0, verified.out
    as_it_came = projections(db)
    assert run(db, "db", "rebuild").code == 0
    assert projections(db) == as_it_came


def test_an_edge_that_got_another_place_names_what_waits_for_the_one_before(
    tmp_path: Path,
) -> None:
    words = ("serve", "--port", "0", "--ship")
    with started(tmp_path / "none.db", tmp_path, *words, f"file:{tmp_path}/before") as serve:
        serve.kill()
    [before] = (tmp_path / "recorder" / "edges").iterdir()
    for lock in before.rglob("lock"):
        os.utime(lock, (0, 0))  # a journal that was only just made may be locked in a moment
    with started(tmp_path / "none.db", tmp_path, *words, f"file:{tmp_path}/now") as serve:
        wait_until(lambda: f"{before} waits for another place" in serve.said)
