"""B16: edges, collectors and the store between them are killed and away: nothing is lost, and
nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.acceptance import test_crash
from tests.support import scripts
from tests.support.rows import projections
from tests.support.scripts import Action, End, ReadAll, Received, Upstream, ask, body_of
from tests.support.server import Serving, everywhere, run
from tests.support.shipping import FaultyStore, collector, edge, left_at

log = logging.getLogger(__name__)

AWAY_S = 3.0
SETTLED_S = 60.0  # until the lag is back, once all is well again


def script_of(id: str) -> list[Action]:
    return [*test_crash.script_of(id), End()]


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

    async def kill_something(self) -> str:
        """Kill an edge or a collector and start it again, or take the store away for a while."""
        what = self._dice.choice(["edge", "edge", "collector", "collector", "store"])
        if what == "store":
            self._store.is_away = True
            await asyncio.sleep(AWAY_S)
            self._store.is_away = False
            return what
        group = self.edges if what == "edge" else self.collectors
        number = self._dice.choice([*group])
        await asyncio.to_thread(group[number].kill)
        await (self.start_edge(number) if what == "edge" else self.start_collector(number))
        return what

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


async def round_of(fleet: Fleet, name: str, streams: int, dice: random.Random) -> list[Received]:
    """All edges have streams, and in the middle of them something is killed."""
    async with asyncio.TaskGroup() as tasks:
        asking = []
        for number, serve in fleet.edges.items():
            ids = [f"{name}-{number}-{stream}" for stream in range(streams)]
            asking += [tasks.create_task(ask(serve.port, id, ReadAll())) for id in ids]
        await asyncio.sleep(dice.uniform(0.1, 2.0))
        await fleet.kill_something()
    return [task.result() for task in asking]


async def survive(
    folder: Path, db: Path | URL, seed: int, *, edges: int, streams: int, kills: int
) -> scripts.Report:
    dice, received = random.Random(seed), list[Received]()
    async with Upstream(script_of) as upstream, FaultyStore(seed) as store:
        with contextlib.ExitStack() as stack:
            fleet = Fleet(folder, db, store, upstream, stack, dice)
            await fleet.start(edges, 2)
            for number in range(kills):
                received += await round_of(fleet, str(number), streams, dice)
            await fleet.stop_edges()
            for number in range(edges):
                await fleet.ship_rest(number)
            took_s = await fleet.settled_s()
            codes = [await asyncio.to_thread(each.stop) for each in fleet.collectors.values()]
            assert set(codes) == {0}
        log.warning("collected %.1f s after the last edge; the store: %s", took_s, dict(store.done))
        assert min(store.done[fault] for fault in ("refused", "repeated", "lost")) > 0
    return scripts.check(
        fleet.db, received, lambda id: body_of(script_of(id))[: upstream.sent.get(id, 0)]
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_nothing_is_lost_or_twice_whatever_is_killed_or_away(
    request: pytest.FixtureRequest, tmp_path: Path, seed: int, engine: str
) -> None:
    db = tmp_path / "log.db" if engine == "sqlite" else request.getfixturevalue("postgres_database")
    report = await survive(tmp_path, db, seed, edges=8, streams=4, kills=12)
    log.warning("%s", report._replace(findings=report.findings[:5]))
    assert (report.findings, report.gap_bytes) == ([], 0)
    assert report.received_bytes > 0
    assert_it_verifies(db)


def assert_it_verifies(db: Path | URL) -> None:
    """Projections, as they came, are what a rebuild makes of the log."""
    verified = run(db, "verify")
    assert verified.code == 0, verified.out
    as_it_came = projections(db)
    assert run(db, "db", "rebuild").code == 0
    assert projections(db) == as_it_came
