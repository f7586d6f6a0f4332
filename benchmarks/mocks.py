"""`recorder mock` over sockets: how far from its recorded time an event arrives, for one client and
for many at once.

The server is a process of its own. An event is due when it was recorded, counted from when its
client wrote the request: late is positive. What taking in the request costs is part of it, as it
was when it was recorded; `pace` is without that, against the first event. The reference sleeps to
the same timetable and does nothing else (`benchmarks.timetable`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple, cast

from benchmarks import machine
from benchmarks.figures import Column, Round, Row, percentile
from benchmarks.replay import record
from benchmarks.settings import Settings
from benchmarks.traffic import BODY
from recorder.commands.terminal.recordings import loader
from recorder.proxy.http import server

EVENTS_S = 50  # of each stream, on average
STAGGER_S = 0.5  # in which all of them begin
GRACE_S = 30.0  # for streams that are late: a run that takes longer has broken
STOP_S = 15.0

REFERENCE = "timetable"
COLUMNS = (
    Column("error p50 µs", "p50_us"),
    Column("error p99 µs", "p99_us"),
    Column("x timetable", "p99_us", "/", REFERENCE),
    Column("pace p99 µs", "pace_p99_us"),
    Column("x timetable, pace", "pace_p99_us", "/", REFERENCE),
    Column("largest", "max_us"),
    Column("drift µs/s", "drift_us_s"),
    Column("core", "core"),
)

_NUMBER = re.compile(rb'"sequence_number":(\d+),')
_REQUEST = (
    b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
_LAST_CHUNK = b"0\r\n\r\n"


class _Client(asyncio.Protocol):
    """One stream: asks at once, and notes when each event arrives."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._held = b""
        self.asked_ns = 0
        self.arrived_ns: dict[int, int] = {}  # by number of the event
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.asked_ns = time.monotonic_ns()
        self.transport.write(_REQUEST)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        self._held += data
        seen = 0
        for found in _NUMBER.finditer(self._held):
            self.arrived_ns[int(found[1])] = now_ns
            seen = found.end()
        self._held = self._held[seen:]
        if self._held.endswith(_LAST_CHUNK):
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended()

    def errors(self, due_ns: Sequence[int]) -> list[tuple[float, float]]:
        """When each event was due, in seconds, and how late it was then, in microseconds."""
        return [
            (due_ns[number] / 1e9, (at_ns - self.asked_ns - due_ns[number]) / 1e3)
            for number, at_ns in self.arrived_ns.items()
        ]


def rounds(streams: int, settings: Settings) -> list[Round]:
    """That many streams of both, in each round in another order."""
    with machine.on_core(machine.LOAD_CORE):
        return server.run(_rounds(streams, settings))


async def _rounds(streams: int, settings: Settings) -> list[Round]:
    found: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        path = record(Path(folder), settings.replay_s, EVENTS_S)
        (recorded,) = await loader(str(path)).answers([], [])
        due_ns = [piece.t_ns for piece in recorded.pieces]
        async with _serving(_timetable(path)) as reference, _serving(_mock(path)) as mock:
            servers = {REFERENCE: reference, "mock": mock}
            for _ in range(settings.rounds):
                order = random.sample(list(servers), len(servers))
                rows = {name: await _measure(servers[name], streams, due_ns) for name in order}
                _warn(rows)
                found.append({name: rows[name] for name in servers})
    return found


def _warn(rows: dict[str, Row]) -> None:
    for name, row in rows.items():
        if row["missing"]:
            print(
                f"{name}: {row['missing']:.0f} events did not come, its figures mean nothing",
                file=sys.stderr,
            )


async def _measure(subject: _Server, streams: int, due_ns: Sequence[int]) -> Row:
    """The streams, from the first request to the last end."""
    begin_s, begin_cpu_s = time.perf_counter(), machine.cpu_s(subject.pid)
    with _no_collections():
        clients = await _play(subject.port, streams, due_ns[-1] / 1e9 + STAGGER_S + GRACE_S)
    cpu_s, wall_s = machine.cpu_s(subject.pid) - begin_cpu_s, time.perf_counter() - begin_s
    errors = [client.errors(due_ns) for client in clients]
    sizes = [abs(error) for each in errors for _, error in each]
    paces = [abs(error - each[0][1]) for each in errors for _, error in each[1:]]
    slopes = [linear_regression(*zip(*each, strict=True)).slope for each in errors if len(each) > 1]
    return {
        "p50_us": percentile(sizes, 0.50),
        "p99_us": percentile(sizes, 0.99),
        "pace_p99_us": percentile(paces, 0.99),
        "max_us": max(sizes, default=0.0),
        "drift_us_s": median(slopes) if slopes else 0.0,
        "core": cpu_s / wall_s,
        "missing": streams * len(due_ns) - len(sizes),
    }


async def _play(port: int, streams: int, limit_s: float) -> list[_Client]:
    """Clients that begin at odd times, once all of their streams have ended."""
    loop, dice = asyncio.get_running_loop(), random.Random(1)
    left, ended = streams, asyncio.Event()

    def one_has_ended() -> None:
        nonlocal left
        left -= 1
        if not left:
            ended.set()

    async def begin(client: _Client, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await loop.create_connection(lambda: client, "127.0.0.1", port)

    clients = [_Client(one_has_ended) for _ in range(streams)]
    async with asyncio.timeout(limit_s), asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(begin(client, dice.uniform(0, STAGGER_S)))
        await ended.wait()
    return clients


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Server(NamedTuple):
    port: int
    pid: int


def _timetable(database: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.timetable", str(database)]


def _mock(database: Path) -> list[str]:
    """As a user starts it."""
    return [sys.executable, "-m", "recorder", "mock", "--port", "0", "--db", str(database)]


def _start(command: list[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    with machine.on_core(machine.MEASURED_CORE):
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )


@contextlib.asynccontextmanager
async def _serving(command: list[str]) -> AsyncIterator[_Server]:
    """A server on the core for what is measured.

    It says its port in the first line that ends in one.
    """
    process = _start(command)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            said = next(
                found
                for line in process.stdout
                if (found := re.search(r"(?:^|127\.0\.0\.1:)(\d+)$", line))
            )
            yield _Server(int(said[1]), process.pid)
        finally:
            process.stdin.close()
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
