"""Streams through proxies: what an event costs, and how much later it comes."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from benchmarks.figures import Column, Round, Row, percentile
from benchmarks.load import SSE, WEBSOCKET, Load, Pace, Run, Wire
from benchmarks.paces import Closed, Flat, Paced
from benchmarks.settings import Settings
from benchmarks.subjects import Subject, names, running
from recorder.proxy.http import server

_CPU = (
    Column("CPU µs/event", "cpu_us"),
    Column("x relay", "cpu_us", "/", "relay"),
    Column("x proxy", "cpu_us", "/", "proxy"),
    Column("x recording", "cpu_us", "/", "recording"),
    Column("ingester µs/event", "ingester_us"),
)
_LATENCY = (
    Column("p50 µs", "p50_us"),
    Column("added p50", "p50_us", "-", "direct"),
    Column("p99 µs", "p99_us"),
    Column("added p99", "p99_us", "-", "direct"),
)
_REQUEST = (
    Column("CPU µs/request", "request_us"),
    Column("x relay", "request_us", "/", "relay"),
    Column("x nginx", "request_us", "/", "nginx"),
    Column("x proxy", "request_us", "/", "proxy"),
    Column("ingester µs/event", "ingester_us"),
)
_FIRST = (
    Column("first event p50 µs", "first_us"),
    Column("added", "first_us", "-", "direct"),
)
_MEMORY = (Column("KiB/stream", "stream_kib"),)
_AS_SSE = "recording, SSE"
_AGAINST_SSE = (Column("x SSE", "cpu_us", "/", _AS_SSE),)
_RATE = (
    Column("events/s", "events_s"),
    Column("x recording", "events_s", "/", "recording"),
    Column("load", "load"),
)


class Scenario(NamedTuple):
    """`window` is for how long it is measured; without one, from the first event to the end of all
    streams.
    """

    title: str
    streams: int
    pace: Callable[[Settings], Pace]
    columns: tuple[Column, ...]
    window: bool = True
    again: bool = False
    wire: Wire = SSE


def _paced(streams: int, events_s: int) -> Scenario:
    return Scenario(
        title=f"{streams:,} stream{'s' * (streams > 1)}, {events_s} events/s{' each' * (streams > 1)}",
        streams=streams,
        pace=lambda _: Paced(events_s, streams),
        columns=(*_CPU, *_LATENCY, *_MEMORY),
    )


SCENARIOS = {
    "paced1": _paced(1, 50),
    "paced10": _paced(10, 50),
    "paced100": _paced(100, 50),
    "paced500": _paced(500, 50),
    "paced1000": _paced(1000, 10),
    "closed100": Scenario(
        title="100 streams, the next event when the last has arrived",
        streams=100,
        pace=lambda _: Closed(),
        columns=(*_CPU, *_LATENCY, *_RATE),
    ),
    "ws100": Scenario(
        title="100 WebSocket connections, the next message when the last has arrived; and the same as SSE",
        streams=100,
        pace=lambda _: Closed(),
        columns=(*_CPU, *_AGAINST_SSE, *_LATENCY, *_RATE),
        wire=WEBSOCKET,
    ),
    "flat16": Scenario(
        title="16 streams, 16 events a write, flat out",
        streams=16,
        pace=lambda settings: Flat(settings.flat_events),
        columns=(*_CPU, *_RATE),
        window=False,
    ),
    "short": Scenario(
        title="50 clients, a new connection and request for every 20 events",
        streams=50,
        pace=lambda _: Closed(20),
        columns=(*_REQUEST, *_RATE),
        again=True,
    ),
    "first": Scenario(
        title="one client, a new connection and request for every event",
        streams=1,
        pace=lambda _: Closed(1),
        columns=(*_REQUEST, *_FIRST),
        again=True,
    ),
}


def rounds(scenario: Scenario, settings: Settings) -> list[Round]:
    """All subjects, in each round in another order."""
    with machine.on_core(machine.LOAD_CORE):
        return server.run(_rounds(scenario, settings))


async def _rounds(scenario: Scenario, settings: Settings) -> list[Round]:
    found: list[Round] = []
    load = Load()
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        async with AsyncExitStack() as stack:
            upstream_port = await load.start()
            stack.callback(load.close)
            subjects = {
                name: await stack.enter_async_context(
                    running(name, upstream_port, Path(folder) / name)
                )
                for name in names(few=settings.few)
            }
            for _ in range(settings.rounds):
                runs = {name: (subject, scenario) for name, subject in subjects.items()}
                if scenario.wire is not SSE:
                    runs[_AS_SSE] = subjects["recording"], scenario._replace(wire=SSE)
                rows = {
                    name: await measure(runs[name][1], load, runs[name][0], settings)
                    for name in random.sample(list(runs), len(runs))
                }
                _warn(rows)
                found.append({name: rows[name] for name in runs})
    return found


def _warn(rows: dict[str, Row]) -> None:
    for name, row in rows.items():
        if row["broken"]:
            print(
                f"{name}: {row['broken']:.0f} streams broke off, its figures mean nothing",
                file=sys.stderr,
            )


async def measure(scenario: Scenario, load: Load, subject: Subject, settings: Settings) -> Row:
    """One scenario through one subject, once."""
    ingester_s = subject.children_cpu_s()
    pace = scenario.pace(settings)
    run = Run(load, subject.port, scenario.streams, pace, again=scenario.again, wire=scenario.wire)
    with _no_collections():
        async with asyncio.TaskGroup() as tasks:
            await run.open(tasks)
            row = await (
                _window(run, subject, settings) if scenario.window else _to_the_end(run, subject)
            )
    # in the loop upstreams close, without which connections do not end
    await asyncio.to_thread(subject.settle)
    row["ingester_us"] = (subject.children_cpu_s() - ingester_s) / run.sent * 1e6
    row["broken"] = run.broken
    return row


async def _window(run: Run, subject: Subject, settings: Settings) -> Row:
    run.go()
    await asyncio.sleep(settings.warm_up_s)
    run.reset()
    begin = _Mark.now(subject)
    await asyncio.sleep(settings.window_s)
    row = _row(run, begin, _Mark.now(subject))
    row["stream_kib"] = subject.grown_bytes() / 2**10 / run.streams
    await run.stop()
    return row


async def _to_the_end(run: Run, subject: Subject) -> Row:
    begin = _Mark.now(subject)
    run.go()
    await run.until_ended()
    run.arrived = run.sent
    return _row(run, begin, _Mark.now(subject))


class _Mark(NamedTuple):
    wall_s: float
    cpu_s: float
    load_s: float

    @classmethod
    def now(cls, subject: Subject) -> _Mark:
        return cls(time.perf_counter(), subject.cpu_s(), time.process_time())


def _row(run: Run, begin: _Mark, end: _Mark) -> Row:
    wall_s, cpu_s, load_s = (after - before for before, after in zip(begin, end, strict=True))
    return {
        "cpu_us": cpu_s / max(run.arrived, 1) * 1e6,
        "request_us": cpu_s / max(run.requests, 1) * 1e6,
        "core": cpu_s / wall_s,
        "events_s": run.arrived / wall_s,
        "p50_us": percentile(run.latencies_ns, 0.50) / 1e3,
        "p99_us": percentile(run.latencies_ns, 0.99) / 1e3,
        "first_us": percentile(run.first_ns, 0.50) / 1e3,
        "load": load_s / wall_s,
    }


@contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
