"""An import that does not come to its end: nothing that it has read is lost. And one on a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from recorder.store.sqlite.connection import write_lock
from tests.support.logbook import Entry, assert_chained, entries
from tests.support.server import PROGRAM, environment, run, wait_until


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


@contextmanager
def stuck_import(db: Path, data: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """An import whose journal holds some of `data` already, and whose database is locked by
    somebody else.
    """
    journal = Path(f"{db}.journal")
    command = [*PROGRAM, "import", "-", "--db", str(db)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stderr=pipe, env=environment(db.parent), start_new_session=True
    )
    try:
        assert process.stdin is not None
        # more than a pipe holds: the import has begun when all of it is taken
        process.stdin.write(data)
        process.stdin.flush()
        with write_lock(db, 10):
            process.stdin.close()
            process.stdin = None
            wait_until(lambda: sum(path.stat().st_size for path in journal.glob("*/*.seg")) > 2**21)
            yield process
    finally:
        process.kill()
        process.wait()
        for pipe_end in (process.stdin, process.stderr):
            if pipe_end is not None:
                pipe_end.close()


def recovered(db: Path) -> Entry:
    assert run(db, "db", "recover").err.endswith("1 journal recovered.\n")
    [entry] = entries(db)
    assert_chained([entry])
    return entry


LONG = b"data: " + b"x" * 100_000 + b"\n\n"


def test_what_a_killed_import_had_read_is_recovered(db: Path) -> None:
    with stuck_import(db, LONG * 100) as process:
        process.kill()
        process.wait()
    entry = recovered(db)
    assert entry.end["status"] == "recorder_crash"
    assert len(entry.body) > 2**21
    assert (LONG * 100).startswith(entry.body)


def test_an_interrupted_import_says_how_to_go_on(db: Path) -> None:
    with stuck_import(db, LONG * 100) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait() == 130
    assert said.rstrip().endswith("`recorder db recover` brings in what was read so far.")
    assert recovered(db).end["status"] == "recorder_shutdown"


def test_a_terminal_sees_how_far_one_file_is(db: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.sse"
    path.write_bytes(LONG)
    terminal, end = os.openpty()
    with open(terminal, "rb", buffering=0) as screen:
        variables = {**environment(tmp_path), "TERM": "xterm"}
        command = [*PROGRAM, "import", str(path), "--db", str(db)]
        with subprocess.Popen(
            command, stderr=end, stdout=subprocess.DEVNULL, env=variables
        ) as process:
            os.close(end)
            shown = bytearray()
            with suppress(OSError):  # EIO, when nobody has the other end any more
                while piece := screen.read(2**16):
                    shown += piece
    assert process.returncode == 0
    assert b"Importing" in shown
    assert shown.index(b"Importing") < shown.index(b"1 file imported")
