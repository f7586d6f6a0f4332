"""Whatever happens to the ingester or the database, no client notices, and the log is whole
afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from recorder.store.write.writer import Store
from tests.support.logbook import all_ended, assert_chained, entries
from tests.support.provider.server import start
from tests.support.server import PROGRAM, Serving, environment, everywhere, run, serving, wait_until
from tests.support.sockets import LAST_CHUNK, STREAM_HEAD, RawClient, chunked
from tests.support.upstreams import Answer, Upstream, request

STREAMS = 12
# that a chunk may be late, at most, when the database is locked, on a machine with other work
EXTRA_MS = 100.0
EXTRA_QUIET_MS = 20.0  # the same in the slow tier
ATTEMPTS = 3  # a busy machine delays chunks too, but not three times in a row

Lock = Callable[[Path], contextlib.AbstractContextManager[None]]

FRAME = 'event: e\ndata: {{"type":"e","sequence_number":{},"of":"{}","padding":"{}"}}\n\n'

_SENT = re.compile(rb'"sent_ns":(\d+)')


def frames(name: str, count: int) -> list[bytes]:
    return [FRAME.format(number, name, "x" * (number % 400)).encode() for number in range(count)]


def paced(name: str, count: int, every_s: float) -> Answer:
    pieces = [chunked(frame) for frame in frames(name, count)]
    return Answer([STREAM_HEAD, *pieces, LAST_CHUNK], every_s=every_s)


async def ask(serve: Serving, name: str) -> bytes:
    """The body that a client gets, whole."""
    async with await RawClient.connect(serve.port) as client:
        await client.send(request(f"/s/{name}/v1/responses", name))
        response = await client.response()
    assert response.ending == "complete"
    return response.body


async def _kill_repeatedly(serve: Serving, every_s: float) -> set[int]:
    """Kill the ingester whenever there is one, until cancelled; returns which were."""
    killed: set[int] = set()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            for pid in serve.ingesters():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            await asyncio.sleep(every_s)
    return killed


@pytest.mark.timed
@pytest.mark.parametrize(
    ("count", "kills"), [(300, 2), pytest.param(3_000, 15, marks=pytest.mark.slow)]
)
async def test_no_client_notices_that_the_ingester_is_killed(
    tmp_path: Path, count: int, kills: int
) -> None:
    db, names = tmp_path / "recorder.db", [f"s{number}" for number in range(STREAMS)]

    async with Upstream(lambda name: paced(name, count, 0.01)) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            async with asyncio.TaskGroup() as tasks:
                killer = tasks.create_task(_kill_repeatedly(serve, 0.3))
                bodies = await asyncio.gather(*(ask(serve, name) for name in names))
                killer.cancel()
            assert serve.stop() == 0
    # what the last seconds were too short for
    assert (await asyncio.to_thread(run, db, "db", "recover")).code == 0
    assert len(killer.result()) >= kills
    sent = {name: b"".join(frames(name, count)) for name in names}
    assert dict(zip(names, bodies, strict=True)) == sent
    found = entries(db)
    assert {entry.session: entry.body for entry in found} == sent
    assert all(entry.end["outcome"] == "eof" and entry.end["lossless"] for entry in found)
    assert_chained(found)
    assert serve.said.count("the ingester ended with code -9 and is started again") >= kills
    assert "Traceback" not in serve.said


async def delays_ms(port: int, events: int, session: str) -> tuple[list[float], bytes]:
    """How long each event of a paced stream was under way, and the body; upstream and client share
    this process.
    """
    metadata = {"events": str(events), "rate": "100"}
    body = json.dumps(
        {"model": "demo-load", "stream": True, "metadata": metadata, "input": "go"}
    ).encode()
    head = f"POST {session}/v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    found, received, scanned = [], b"", 0
    async with await RawClient.connect(port) as client:
        await client.send(head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        while data := await client.read():
            now_ns = time.monotonic_ns()
            received += data
            for match in _SENT.finditer(received, scanned):
                found.append((now_ns - int(match[1])) / 1e6)
                scanned = match.end()
    return found, received.partition(b"\r\n\r\n")[2]


@contextmanager
def transaction(db: Path) -> Iterator[None]:
    """Another program in a write transaction of its own."""
    with closing(sqlite3.connect(db, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def write_lock(db: Path) -> Iterator[None]:
    """Another command of ours that writes, and takes its time."""
    with open(f"{db}.lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.timed
@pytest.mark.parametrize(
    ("lock", "held_s"),
    [
        (transaction, 2),
        pytest.param(transaction, 10, marks=pytest.mark.slow),
        pytest.param(transaction, 60, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(write_lock, 10, marks=pytest.mark.slow),
    ],
)
async def test_no_chunk_is_late_because_the_database_is_locked(
    tmp_path: Path, lock: Lock, held_s: float
) -> None:
    db, events = tmp_path / "recorder.db", int((held_s + 0.8) * 100)
    bodies: list[bytes] = []
    async with await start() as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:
            for _ in range(ATTEMPTS):
                async with asyncio.TaskGroup() as tasks:
                    directly = tasks.create_task(delays_ms(demo.port, events, ""))
                    through = tasks.create_task(delays_ms(serve.port, events, "/s/locked"))
                    await asyncio.sleep(0.3)
                    with lock(db):
                        await asyncio.sleep(held_s)
                bodies.append(_dechunked(through.result()[1]))
                late_ms = max(through.result()[0]) - max(directly.result()[0])
                if late_ms < (EXTRA_MS if held_s < 60 else EXTRA_QUIET_MS):
                    break
            else:
                pytest.fail(
                    f"a chunk came {late_ms:.1f} ms later than without a recorder, {ATTEMPTS} times"
                )
            assert serve.stop() == 0
    # what the last seconds were too short for
    assert (await asyncio.to_thread(run, db, "db", "recover")).code == 0
    found = entries(db)
    assert [entry.body for entry in found] == bodies
    assert all(entry.end["status"] == "completed" for entry in found)
    assert bodies[-1].count(b"sent_ns") == events
    assert_chained(found)


@pytest.mark.timed
@pytest.mark.parametrize("lock", [transaction, pytest.param(write_lock, marks=pytest.mark.slow)])
async def test_what_a_locked_database_did_not_take_before_the_end_is_taken_by_the_next(
    tmp_path: Path, lock: Lock
) -> None:
    db = tmp_path / "recorder.db"
    async with Upstream({"one": paced("one", 50, 0)}) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            with lock(db):
                await ask(serve, "one")
                began = time.monotonic()
                assert serve.stop() == 0
                assert time.monotonic() - began < 8
    assert "Traceback" not in serve.said
    assert "the next start brings in the rest" in serve.said
    assert entries(db) == []
    assert run(db, "db", "recover") == (0, b"", "1 journal recovered.\n")
    [entry] = entries(db)
    assert (entry.body, entry.end["outcome"]) == (b"".join(frames("one", 50)), "eof")


def _dechunked(data: bytes) -> bytes:
    body = b""
    while data and (size := int(data.partition(b"\r\n")[0], 16)):
        start = data.index(b"\r\n") + 2
        body += data[start : start + size]
        data = data[start + size + 2 :]
    return body


def holds(db: Path, body: bytes) -> bool:
    """Whether a database is there, and that response in it."""
    with contextlib.suppress(sqlite3.OperationalError):
        return body in [entry.body for entry in entries(db)]
    return False


@pytest.mark.parametrize("is_in_the_way", [False, True], ids=["deleted", "replaced by a folder"])
async def test_a_database_that_is_deleted_while_recording_is_made_again(
    tmp_path: Path, is_in_the_way: bool
) -> None:
    """What was in it is gone with it, but for what the journal still has; what passes from then on
    is not.
    """
    db = tmp_path / "recorder.db"
    async with Upstream({"one": paced("one", 5, 0), "two": paced("two", 5, 0)}) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            await ask(serve, "one")
            await asyncio.to_thread(wait_until, lambda: all_ended(db, 1))
            for path in (db, Path(f"{db}-wal"), Path(f"{db}-shm")):
                path.unlink(missing_ok=True)
            if is_in_the_way:
                db.mkdir()
            body = await ask(serve, "two")
            if is_in_the_way:
                await asyncio.to_thread(
                    wait_until, lambda: "cannot be opened, the journal keeps" in serve.said
                )
                db.rmdir()
            await asyncio.to_thread(wait_until, lambda: holds(db, body))
            assert serve.stop() == 0
    assert holds(db, body)
    assert is_in_the_way or "was deleted or replaced" in serve.said
    assert "Traceback" not in serve.said


READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


@pytest.mark.parametrize(("end", "code"), [(None, 0), ("-wal", 1)], ids=["whole", "with a WAL"])
def test_a_database_on_a_read_only_mount_is_read_or_the_reason_said(
    tmp_path: Path, end: str | None, code: int
) -> None:
    mounting = ("unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", tmp_path)
    if (
        shutil.which("unshare") is None
        or subprocess.run([*mounting, "true"], capture_output=True).returncode
    ):
        pytest.skip("no mount namespace can be made here")
    db = tmp_path / "recorder.db"
    Store(db).close()
    for each in tmp_path.glob("recorder.db-*"):
        each.unlink()
    if end:
        Path(f"{db}{end}").write_bytes(b"changes")
    for verb in (["sessions", "--json"], ["query", "select count(*) from sessions"], ["verify"]):
        command: list[str | Path] = [*mounting, *PROGRAM, *verb, "--db", db]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path))
        assert ran.returncode in ((0, 3) if code == 0 else (code,)), ran.stderr
        assert ("is on a read-only mount, and recorder.db-wal has changes" in ran.stderr) == bool(
            code
        ), ran.stderr
