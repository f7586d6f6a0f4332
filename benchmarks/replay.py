"""Replay: how far from its time an event is played, at the original speed, out of a real log."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.figures import Column, Round, Row, percentile
from benchmarks.log import prepare_journal
from benchmarks.settings import Settings
from benchmarks.traffic import TICK_NS
from recorder.ingest.ingester import Ingester
from recorder.model.events import BODY_KINDS
from recorder.replay.pace import LOOP, paced
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.store.write.writer import Store

EVENTS_S = 100  # of the stream that is played, on average; its pauses are of 0 to 20 ms

COLUMNS = (
    Column("error p50 µs", "p50_us"),
    Column("error p99 µs", "p99_us"),
    Column("largest", "max_us"),
    Column("last event", "last_us"),
)


def rounds(settings: Settings) -> list[Round]:
    """One stream, played in each round."""
    with (
        tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder,
        machine.on_core(machine.MEASURED_CORE),
    ):
        path = record(Path(folder), settings.replay_s, EVENTS_S)
        return [{"1 stream": asyncio.run(_play(path))} for _ in range(settings.rounds)]


def record(folder: Path, seconds: float, events_s: int) -> Path:
    """A log with one stream whose events come at odd times: so many a second, on average."""
    dice = random.Random(1)
    frames = int(seconds * events_s)
    times_ns = [TICK_NS]  # when its head comes
    for _ in range(frames):
        times_ns.append(times_ns[-1] + round(dice.uniform(0, 2e9 / events_s)))
    path = folder / "recorder.db"
    journal = prepare_journal(
        folder / "recorder.db.journal", frames, exchanges=1, when=times_ns.__getitem__
    )
    with Store(path) as store:
        Ingester(store, journal, lambda _: False).drain()
    return path


async def _play(path: Path) -> Row:
    """As `recorder replay` does it. An error is against the first event: late is positive."""
    played: list[tuple[int, int]] = []
    async with await LogReader.open(path) as log:
        session = await session_named(log, "latest")
        (exchange,) = await log.exchanges(session.session_id)
        events = log.events(session.session_id, exchange.exchange_id, kinds=BODY_KINDS)
        async for event in paced(events, 1):
            played.append((LOOP.now_ns(), event.t_ns))
    errors_us = [((now - played[0][0]) - (due - played[0][1])) / 1e3 for now, due in played[1:]]
    sizes = [abs(error) for error in errors_us]
    return {
        "p50_us": percentile(sizes, 0.50),
        "p99_us": percentile(sizes, 0.99),
        "max_us": max(sizes),
        "last_us": errors_us[-1],
    }
