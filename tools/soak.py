"""A recorder for an hour under everything at once:
`python -m tools.soak --minutes 60 --streams 200`, or `make soak`.

`recorder serve` as a user starts it, hundreds of streams through it, faults on both sides of each,
and a nemesis that kills, stops and locks what is between. At the end two questions: is what it
takes (memory, descriptors, WAL, journal) as flat as it should be, and is every byte that a client
received in the log, in order, once, or in a counted gap.

One seed is one plan: which stream does what, and what the nemesis does when. The recorder as a
whole is killed in the first half only; in the second half one process lives long enough for a leak
to be seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import platform
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import click
import msgspec
import uvloop

from recorder.journal.reader import SUFFIX
from tests.support import scripts
from tests.support.scripts import (
    Action,
    Behaviour,
    Chunk,
    End,
    Fin,
    LeaveAfter,
    ReadAll,
    Received,
    Reset,
    ResetAfter,
    Sleep,
    Slow,
    Stall,
    Upstream,
    ask,
    body_of,
)
from tests.support.server import PROGRAM, Ran, Serving, environment, everywhere, serving
from tools.trends import Sample, Trend, trends

SAMPLE_S = 3.0
PATIENCE_S = 20.0  # of a client: a stalled stream holds its place no longer
NEMESIS_S = (4.0, 12.0)  # of peace, between two of its deeds
HOLD_S = (1.0, 15.0)  # how long it holds a lock, or the ingester
SEIZE_S = 15.0  # how long it tries to get a lock
SETTLE_S = 30.0  # for idle connections to the upstream to be closed
CATCH_UP_S = 60.0  # for the log to be where the journal is, once nobody asks any more
WARM_SHARE = 0.2  # of the judged half: pools and arenas fill

# -- what streams do

_DELTA = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d,'
    b'"item_id":"msg_1","output_index":0,"delta":"%s"}\n\n'
)


class Plan(NamedTuple):
    """What becomes of one stream."""

    script: list[Action]
    behaviour: Behaviour


def plan(seed: int, id: str) -> Plan:
    """The same for a seed and an id, whenever it is asked for."""
    dice = random.Random(f"{seed}/{id}")
    frames = [
        _DELTA % (number, dice.randbytes(dice.randint(2, 60)).hex().encode())
        for number in range(100)
    ]
    frames = frames[: dice.randint(5, 60)]
    if dice.random() < 0.05:
        # over the limit of a frame
        frames.append(_DELTA % (len(frames), b"x" * dice.randint(10_000, 400_000)))
    body, script = b"".join(frames), list[Action]()
    pause_s = dice.uniform(0.05, 0.8)
    while body:
        size = min(len(body), max(dice.randint(1, 500), len(body) // 200))  # chunks are not frames
        script += [Chunk(body[:size]), Sleep(dice.uniform(0, 2 * pause_s))]
        body = body[size:]
    behaviour = _behaviour(dice, len(body_of(script)))
    return Plan(_faulty(dice, script), behaviour)


def _faulty(dice: random.Random, script: list[Action]) -> list[Action]:
    """The script with what goes wrong upstream."""
    cut = script[: dice.randrange(len(script))]
    faults: list[tuple[int, list[Action]]] = [
        (72, [*script, End()]),
        (6, [Reset()]),
        (6, [*cut, Reset()]),
        (6, [*cut, Fin()]),
        (4, [*cut, Stall()]),
        (6, [*cut, Sleep(dice.uniform(3, 12)), *script[len(cut) :], End()]),
    ]
    weights, scripts = zip(*faults, strict=True)
    return list(dice.choices(scripts, weights)[0])


def _behaviour(dice: random.Random, size: int) -> Behaviour:
    some = dice.randrange(1, size + 1)
    behaviours: list[tuple[int, Behaviour]] = [
        *((60, ReadAll()), (10, Slow(dice.uniform(500, 4_000)))),
        *((15, LeaveAfter(some)), (15, ResetAfter(some))),
    ]
    weights, choices = zip(*behaviours, strict=True)
    return cast(Behaviour, dice.choices(choices, weights)[0])


# -- what is between


class Recorder:
    """The recorder, started again and again on one database."""

    def __init__(self, database: Path, base: str) -> None:
        self._database, self._options = database, ("--admin-port", "0", *everywhere(base))
        self._stack = contextlib.ExitStack()
        self.serve: Serving | None = None
        self.starts = 0

    @property
    def port(self) -> int:
        """Where it listens; a port of nobody while it does not."""
        return self.serve.port if self.serve else 1

    @property
    def ingester(self) -> int | None:
        return next(iter(self.serve.ingesters()), None) if self.serve else None

    async def start(self) -> None:
        self.serve = await asyncio.to_thread(
            lambda: self._stack.enter_context(
                serving(self._database, *self._options, program=PROGRAM)
            )
        )
        self.starts += 1

    async def kill(self) -> None:
        serve, self.serve = self.serve, None
        if serve is not None:
            await asyncio.to_thread(serve.kill)
        self._stack.close()

    async def stop(self) -> int | None:
        """As a supervisor does it; returns the exit code."""
        serve, self.serve = self.serve, None
        code = await asyncio.to_thread(serve.stop) if serve else None
        self._stack.close()
        return code

    async def metrics(self) -> dict[str, float]:
        """What it says of itself; nothing if it cannot be asked."""
        found = re.search(
            r"^Metrics and health on (\S+)$", self.serve.said if self.serve else "", re.MULTILINE
        )
        try:
            text = await asyncio.to_thread(_fetch, f"{found[1]}/metrics" if found else "")
        except (OSError, ValueError):
            return {}
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        return str(response.read().decode())


class Nemesis:
    """What happens to the recorder, one thing at a time."""

    def __init__(self, dice: random.Random, recorder: Recorder, database: Path) -> None:
        self._dice, self._recorder, self._database = dice, recorder, database
        self.deeds: Counter[str] = Counter()

    async def rage(self, until_s: float, mercy_s: float) -> None:
        """Until a time; the recorder as a whole is spared after `mercy_s`."""
        deeds: Mapping[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "kill ingester": (4, self._kill_ingester),
            "stop ingester": (3, self._stop_ingester),
            "lock database": (3, self._lock_database),
            "kill recorder": (2, self._kill_recorder),
        }
        while time.monotonic() < until_s - HOLD_S[1]:
            await asyncio.sleep(self._dice.uniform(*NEMESIS_S))
            names = [
                name for name in deeds if name != "kill recorder" or time.monotonic() < mercy_s
            ]
            name = self._dice.choices(names, [deeds[name][0] for name in names])[0]
            self.deeds[name] += 1
            await deeds[name][1]()

    async def _kill_ingester(self) -> None:
        if (ingester := self._recorder.ingester) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(ingester, signal.SIGKILL)

    async def _stop_ingester(self) -> None:
        if (ingester := self._recorder.ingester) is not None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself at any time
                os.kill(ingester, signal.SIGSTOP)
                await asyncio.sleep(self._dice.uniform(*HOLD_S))
                os.kill(ingester, signal.SIGCONT)

    async def _lock_database(self) -> None:
        holder = sqlite3.connect(
            self._database, isolation_level=None, timeout=0, check_same_thread=False
        )
        with contextlib.closing(holder):
            if not await self._seized(holder):
                self.deeds["lock database, in vain"] += 1
                return
            await asyncio.sleep(self._dice.uniform(*HOLD_S))
            holder.execute("ROLLBACK")

    @staticmethod
    async def _seized(holder: sqlite3.Connection) -> bool:
        """Whether the lock was got: an ingester that is starved of the processor may hold it for
        long.
        """
        deadline_s = time.monotonic() + SEIZE_S
        while time.monotonic() < deadline_s:
            try:
                holder.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_BUSY_SNAPSHOT,
                ):
                    raise
                await asyncio.sleep(0.05)
            else:
                return True
        return False

    async def _kill_recorder(self) -> None:
        await self._recorder.kill()
        await asyncio.sleep(self._dice.uniform(0, 2))
        await self._recorder.start()


# -- what it takes


def _proc(pid: int) -> tuple[int, int, int]:
    """Memory, descriptors and threads of a process; nothing if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (
            int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            len(os.listdir(f"/proc/{pid}/fd")),
            int(fields[17]),
        )
    except OSError:
        return 0, 0, 0


def _run(database: Path, *words: str) -> Ran:
    """A command on the database, however long it takes."""
    command = [*PROGRAM, *words, "--db", str(database)]
    done = subprocess.run(command, capture_output=True, cwd="/", env=environment(database.parent))
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# -- all of it


class Soak:
    """One run."""

    def __init__(self, seed: int, minutes: float, streams: int, folder: Path) -> None:
        self.seed, self._length_s, self._streams = seed, minutes * 60, streams
        self._database = folder / "soak.db"
        self._upstream = Upstream(lambda id: plan(seed, id).script)
        self._numbers = itertools.count()
        self.received: list[Received] = []
        self.samples: list[Sample] = []
        self.judged: list[Sample] = []
        self.findings: list[str] = []
        self.idle_before = self.idle_after = 0
        # that were not in the log when the last stream had ended
        self.left_bytes: float | None = None
        self.caught_up_s: float | None = None  # how long those took

    async def run(self) -> None:
        """Load and faults, then peace, then the end."""
        async with self._upstream:
            self.recorder = Recorder(self._database, self._upstream.base)
            self.nemesis = Nemesis(random.Random(self.seed), self.recorder, self._database)
            await self.recorder.start()
            assert self.recorder.serve is not None
            await asyncio.sleep(1)
            self.idle_before = _proc(self.recorder.serve.process.pid)[1]
            began_s = time.monotonic()
            until_s = began_s + self._length_s
            async with asyncio.TaskGroup() as tasks:
                sampling = tasks.create_task(self._sample())
                raging = tasks.create_task(self.nemesis.rage(until_s, began_s + self._length_s / 2))
                clients = [tasks.create_task(self._client(until_s)) for _ in range(self._streams)]
                await asyncio.wait([raging, *clients])
                sampling.cancel()
            await self._settle()
            if (code := await self.recorder.stop()) != 0:
                self.findings.append(f"the recorder ended with code {code}")
        self._judge(began_s)

    async def _client(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            number = next(self._numbers)
            id = f"s{number}"
            prefix = f"/s/soak-{number % 50}"
            received = await ask(
                self.recorder.port,
                id,
                plan(self.seed, id).behaviour,
                prefix=prefix,
                patience_s=PATIENCE_S,
            )
            self.received.append(received)
            if received.ending == "refused":
                await asyncio.sleep(0.2)

    async def _sample(self) -> None:
        began_s = time.monotonic()
        while True:
            await asyncio.sleep(SAMPLE_S)
            serve, ingester = self.recorder.serve, self.recorder.ingester
            if serve is None:
                continue
            metrics = await self.recorder.metrics()
            root = Path(f"{self._database}.journal")
            sample = Sample(
                time.monotonic() - began_s,
                self.recorder.starts,
                *_proc(serve.process.pid),
                _proc(ingester)[0] if ingester else 0,
                _size(Path(f"{self._database}-wal")),
                sum(map(_size, root.glob(f"*/*{SUFFIX}"))),
                metrics.get("recorder_ingest_lag_seconds"),
            )
            if sample.rss_bytes:
                self.samples.append(sample)

    async def _settle(self) -> None:
        """Nobody asks any more: what was open is closed, and the log catches up."""
        assert self.recorder.serve is not None
        pid, began_s = self.recorder.serve.process.pid, time.monotonic()
        while (passed_s := time.monotonic() - began_s) < CATCH_UP_S:
            metrics = await self.recorder.metrics()
            if self.caught_up_s is None and self.left_bytes is None:
                self.left_bytes = metrics.get("recorder_ingest_lag_bytes")
            if self.caught_up_s is None and metrics.get("recorder_ingest_lag_bytes") == 0:
                self.caught_up_s = passed_s
            self.idle_after = _proc(pid)[1]
            is_quiet = self.idle_after <= self.idle_before or passed_s > SETTLE_S
            if is_quiet and self.caught_up_s is not None:
                return
            await asyncio.sleep(1)
        if self.caught_up_s is None:
            self.findings.append(
                f"the log did not catch up within {CATCH_UP_S:g} s after the last stream"
            )

    def _judge(self, began_s: float) -> None:
        half_s = self._length_s / 2
        last = self.recorder.starts
        self.judged = [
            each
            for each in self.samples
            if each.starts == last and half_s * (1 + WARM_SHARE) < each.at_s < self._length_s
        ]
        if self.idle_after > self.idle_before + 5:
            self.findings.append(
                f"{self.idle_after} descriptors at rest, {self.idle_before} at the beginning"
            )
        more = {id: count for id, count in self._upstream.requests.items() if count > 1}
        if more:
            self.findings.append(f"requests that reached the upstream more than once: {more}")
        recovered = _run(self._database, "db", "recover")
        if recovered.code != 0:
            self.findings.append(f"recovery ended with code {recovered.code}: {recovered.err}")
        if left := list(Path(f"{self._database}.journal").glob(f"*/*{SUFFIX}")):
            self.findings.append(f"{len(left)} segments of journals are left")

    def history(self) -> scripts.Report:
        """What the log has, against what was received and sent."""
        return scripts.check(self._database, self.received, self._sent)

    def verify(self) -> None:
        """Every hash, count and projection."""
        verified = _run(self._database, "verify")
        if verified.code != 0:
            self.findings.append(
                f"verify ended with code {verified.code}: {verified.out.decode()[-2_000:]}"
            )

    def _sent(self, id: str) -> bytes:
        return body_of(plan(self.seed, id).script)[: self._upstream.sent.get(id, 0)]


def report(soak: Soak, checked: scripts.Report, found: Sequence[Trend]) -> dict[str, Any]:
    """All of it, for the file."""
    lags = [each.lag_s for each in soak.samples if each.lag_s is not None]
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "seed": soak.seed,
        "starts": soak.recorder.starts,
        "deeds": dict(soak.nemesis.deeds),
        "endings": dict(Counter(each.ending for each in soak.received)),
        "history": checked._asdict(),
        "findings": soak.findings,
        "most_lag_s": max(lags, default=None),
        "left_bytes": soak.left_bytes,
        "caught_up_s": soak.caught_up_s,
        "descriptors_at_rest": [soak.idle_before, soak.idle_after],
        "judged_samples": len(soak.judged),
        "trends": [{**msgspec.to_builtins(each), "is_flat": each.is_flat} for each in found],
        "samples": msgspec.to_builtins(soak.samples),
    }


def lines(told: Mapping[str, Any]) -> list[str]:
    """For a person."""
    seen = told["history"]
    yes = {True: "ok  ", False: "BAD "}
    silent = [f"      {finding}" for finding in [*told["findings"], *seen["findings"]][:20]]
    return [
        f"seed {told['seed']}; {seen['streams']:,} streams, endings {told['endings']}",
        f"nemesis: {told['deeds']}; the recorder was started {told['starts']} times; most lag {told['most_lag_s']} s",
        f"left at the end: {told['left_bytes']} bytes, in the log after {told['caught_up_s']} s",
        f"log: {seen['exchanges']:,} exchanges {seen['outcomes']}",
        f"bytes: {seen['received_bytes']:,} received, {seen['stored_bytes']:,} stored, {seen['gap_bytes']:,} in gaps",
        *(
            f"{yes[each['is_flat']]}{each['name']:<20} drift {each['drift']:>14,.0f} of {each['bound'][0]:>12,.0f}"
            f"   most {each['most']:>14,.0f} of {each['bound'][1]:>12,.0f}   ({each['bound'][2]})"
            for each in told["trends"]
        ),
        f"{yes[not silent]}nothing is lost silently, everything verifies, all is closed",
        *silent,
    ]


@click.command()
@click.option("--minutes", type=float, default=60.0, show_default=True)
@click.option("--streams", type=int, default=200, show_default=True)
@click.option("--seed", type=int, default=None, help="[default: of the clock]")
@click.option(
    "--json", "path", type=click.Path(path_type=Path), default=Path("soak.json"), show_default=True
)
def main(minutes: float, streams: int, seed: int | None, path: Path) -> None:
    """Let a recorder soak, and judge it. Exit code 1 if something was lost silently, or grows."""
    seed = int(time.time()) if seed is None else seed
    click.echo(f"{minutes:g} minutes, {streams} streams, --seed {seed}", err=True)
    with TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(seed, minutes, streams, Path(folder))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(soak.run())
        soak.verify()
        told = report(soak, soak.history(), trends(soak.samples, soak.judged))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1))
    click.echo("\n".join(lines(told)))
    if (
        told["findings"]
        or told["history"]["findings"]
        or not all(each["is_flat"] for each in told["trends"])
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
