"""`recorder tail` as a process: it follows until a limit or Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from recorder.model.events import Exchange, Kind
from recorder.store.write.writer import Store
from tests.support.empty_log import empty
from tests.support.rows import START_NS, add, begin, make_end, make_events
from tests.support.server import PROGRAM, environment

FRAME = b'data: {"type":"response.output_text.delta","delta":"Hi"}\n\n'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(empty(tmp_path / "recorder.db")) as store:
        yield store


@contextmanager
def tailing(db: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, following already."""
    pipe = subprocess.PIPE
    command = [*PROGRAM, "tail", "--db", str(db), *options]
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment(db.parent))
    try:
        assert line(process.stderr) == "Following; Ctrl-C ends it."
        yield process
    finally:
        process.kill()
        process.communicate()


def line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode().rstrip("\n")


def live(store: Store, number: int) -> Exchange:
    """An exchange that begins now: the command has no other clock."""
    return begin(store, number + (time.time_ns() - START_NS) // 1_000_000)


async def test_a_line_for_each_event(store: Store) -> None:
    with tailing(store.path, "--limit", "3") as process:
        request = b'{"method":"POST","target":"/v1/responses"}'
        exchange = live(store, 1)
        kinds: list[Kind] = ["request", "frame", "reads", "end"]
        add(store, make_events(exchange, [request, FRAME, b"[]", make_end("completed")], kinds))
        lines = [await asyncio.to_thread(line, process.stdout) for _ in range(4)]
        assert process.wait(60) == 0
    assert lines[0].split() == ["t_s", "session", "exchange", "type", "text"]
    assert lines[1].split()[2:] == ["1", "delta", "POST", "/v1/responses"]
    assert lines[2].split()[2:] == [
        "1",
        "delta",
        "data:",
        '{"type":"response.output_text.delta","delta":"Hi"}',
    ]
    assert lines[3].split()[2:] == ["1", "delta", "completed"]


async def test_the_lines_of_json_are_rows_with_the_name_of_their_session(store: Store) -> None:
    with tailing(store.path, "--jsonl", "--limit", "1") as process:
        exchange = live(store, 1)
        [event] = make_events(exchange, [FRAME])
        add(store, [event])
        row = json.loads(await asyncio.to_thread(line, process.stdout))
    assert row["session_name"].startswith("run-")
    assert (row["exchange_number"], row["exchange_id"], row["raw"]) == (
        1,
        exchange.exchange_id,
        FRAME.decode(),
    )
    assert row["hash"] == event.hash.hex()


def test_it_goes_on_until_interrupted(store: Store) -> None:
    with tailing(store.path) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
