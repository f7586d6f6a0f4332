"""`recorder.ingest.supervisor`: an ingester that dies is followed by another one, and none is left
behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recorder.ingest.supervisor import IngesterSupervisor
from recorder.journal.writer import Journal
from recorder.store.location import database_url, journal_root
from recorder.store.write.writer import Store

LIMIT_S = 60.0  # for a process to start on a busy machine


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    url = database_url(tmp_path / "log.db")
    Store(url).close()
    journal = Journal(journal_root(url), "r1")
    yield journal
    if not journal._closed:
        journal.close()


@pytest.fixture
def supervisor(tmp_path: Path, journal: Journal) -> Iterator[IngesterSupervisor]:
    supervisor = IngesterSupervisor(database_url(tmp_path / "log.db"), journal.directory)
    supervisor.start()
    yield supervisor
    supervisor.stop()


def until(is_so: Callable[[], Any]) -> Any:
    limit_s = time.monotonic() + LIMIT_S
    while not (found := is_so()):
        assert time.monotonic() < limit_s
        time.sleep(0.01)
    return found


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_its_process_runs_when_the_start_is_over(supervisor: IngesterSupervisor) -> None:
    """A program that ends at once takes the thread with it, and nobody else would start the
    process.
    """
    assert supervisor.pid is not None


def test_an_ingester_that_is_killed_is_followed_by_another_one(
    supervisor: IngesterSupervisor,
) -> None:
    first = until(lambda: supervisor.pid)
    os.kill(first, signal.SIGKILL)
    until(lambda: supervisor.pid not in (first, None))
    assert (supervisor.restarts, supervisor.last_end) == (1, "ended with code -9")
    assert not is_running(first)


def test_one_that_dies_at_the_end_is_followed_by_one_that_reads_the_rest(
    supervisor: IngesterSupervisor, journal: Journal
) -> None:
    os.kill(until(lambda: supervisor.pid), signal.SIGSTOP)  # it does not see that the pipe closes
    journal.close()
    supervisor.finish()
    assert not supervisor.wait(0.2)
    os.kill(until(lambda: supervisor.pid), signal.SIGKILL)
    assert supervisor.wait(LIMIT_S)
    assert not journal.directory.exists()
    assert supervisor.pid is None


def test_one_that_dies_at_the_end_is_the_last_without_retry(
    supervisor: IngesterSupervisor, journal: Journal
) -> None:
    os.kill(until(lambda: supervisor.pid), signal.SIGSTOP)
    journal.close()
    supervisor.finish(retry=False)
    os.kill(until(lambda: supervisor.pid), signal.SIGKILL)
    assert supervisor.wait(LIMIT_S)
    assert journal.directory.exists()
    assert supervisor.pid is None


def test_a_stopped_supervisor_leaves_no_process(supervisor: IngesterSupervisor) -> None:
    pid = until(lambda: supervisor.pid)
    os.kill(pid, signal.SIGSTOP)
    supervisor.stop()
    assert not is_running(pid)
    assert supervisor.wait(0)


def test_a_process_that_is_being_started_when_all_ends_is_not_left_behind(
    tmp_path: Path, journal: Journal
) -> None:
    for _ in range(5):
        supervisor = IngesterSupervisor(database_url(tmp_path / "log.db"), journal.directory)
        supervisor.start()
        supervisor.stop()
        assert supervisor.wait(0)
        assert supervisor._process is None or not is_running(supervisor._process.pid)


def test_a_password_of_the_database_is_in_no_command_line(journal: Journal) -> None:
    """All users of a machine see the command lines of its processes."""
    supervisor = IngesterSupervisor(
        database_url("postgresql://me:hidden@127.0.0.1:9/none"), journal.directory
    )
    supervisor.start()
    try:
        until(lambda: supervisor.pid is not None)
        shown = subprocess.check_output(
            ["ps", "-ww", "-o", "args=", "-p", str(supervisor.pid)], text=True
        )
        assert "serving.ingester" in shown
        assert "hidden" not in shown
    finally:
        supervisor.stop()


def test_a_recorder_that_is_killed_takes_its_ingester_with_it(tmp_path: Path) -> None:
    program = (
        "import sys, time; from recorder.ingest.supervisor import *; from recorder.journal.writer import Journal; "
        "from recorder.store.location import *; from recorder.store.write.writer import Store; "
        "url = database_url(sys.argv[1]); Store(url).close(); journal = Journal(journal_root(url), 'r1'); "
        "supervisor = IngesterSupervisor(url, journal.directory); supervisor.start()\n"
        "while supervisor.pid is None: time.sleep(0.01)\n"
        "print(supervisor.pid, flush=True); sys.stdin.read()"
    )
    command, pipe = [sys.executable, "-c", program, str(tmp_path / "log.db")], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    until(lambda: not is_running(pid))
    assert not (journal_root(database_url(tmp_path / "log.db")) / "r1").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_ours_does_not_hang_who_waits(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def popen(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(subprocess, "Popen", popen)
    supervisor = IngesterSupervisor(database_url(tmp_path / "log.db"), journal.directory)
    supervisor.start()
    supervisor._thread.join()
    assert supervisor.wait(0)
