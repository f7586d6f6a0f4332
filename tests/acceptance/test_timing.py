"""A replay at speed 1 has the rhythm of the recording, as the reading end of a pipe sees it."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.logbook import entries
from tests.support.provider.server import start
from tests.support.server import PROGRAM, environment, everywhere, serving

pytestmark = pytest.mark.timed

MEDIAN_MS = 5.0  # generous: on an idle machine the 99th percentile is under 2 ms
EVENTS, RATE = 100, 60.0


def arrivals(db: Path, form: str) -> list[tuple[float, bytes]]:
    """What a replay writes, and when it can be read, in milliseconds."""
    command = [*PROGRAM, "replay", "latest", "--speed", "1", "--format", form, "--db", str(db)]
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(db.parent)) as process:
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 2**20):
            found.append((time.monotonic_ns() / 1e6, data))
    assert process.returncode == 0
    return found


def jsonl(read: list[tuple[float, bytes]]) -> list[tuple[float, float]]:
    """(when it was read, when it was recorded) of each event."""
    rows: list[tuple[float, dict[str, Any]]] = []
    rest = b""
    for at_ms, data in read:
        *whole, rest = (rest + data).split(b"\n")
        rows += [(at_ms, json.loads(line)) for line in whole]
    return [(at_ms, row["t_ns"] / 1e6) for at_ms, row in rows]


def sse(
    read: list[tuple[float, bytes]], recorded: list[tuple[float, bytes]]
) -> list[tuple[float, float]]:
    """The same of the bare bytes: an event is read when its last byte is."""
    found, end, received = [], 0, 0
    reads = iter(read)
    at_ms = 0.0
    for t_ms, raw in recorded:
        end += len(raw)
        while received < end:
            at_ms, data = next(reads)
            received += len(data)
        found.append((at_ms, t_ms))
    return found


def errors(pairs: list[tuple[float, float]]) -> list[float]:
    """How far each is from where it should be, when most are on time: the first alone may be early
    or late.
    """
    zero = statistics.median(read - recorded for read, recorded in pairs)
    return sorted(abs(read - recorded - zero) for read, recorded in pairs)


async def test_a_replay_has_the_rhythm_of_the_recording(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    db = tmp_path / "recorder.db"
    async with await start() as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:
            metadata = {"events": str(EVENTS), "rate": str(RATE)}
            request = {"model": "demo-load", "stream": True, "metadata": metadata, "input": "go"}
            async with httpx.AsyncClient() as client:
                await client.post(f"{serve.base}/v1/responses", json=request, timeout=30)
    recorded = [
        (event.t_ns / 1e6, event.raw) for event in entries(db)[0].events if event.kind == "frame"
    ]
    assert len(recorded) == EVENTS + 2
    assert recorded[-1][0] - recorded[0][0] > 0.9 * EVENTS / RATE * 1000
    for form in ("jsonl", "sse"):
        read = await asyncio.to_thread(arrivals, db, form)
        pairs = jsonl(read) if form == "jsonl" else sse(read, recorded)
        assert len(pairs) == len(recorded)
        wrong = errors(pairs)
        summary = f"{form}: median {statistics.median(wrong):.3f}, p99 {wrong[int(len(wrong) * 0.99)]:.3f} ms"
        record_property(form, summary)
        assert statistics.median(wrong) < MEDIAN_MS, summary
