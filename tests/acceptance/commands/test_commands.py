"""`python -m recorder`: what is said of the process itself, its signals, its pipes, its listening."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.conversations import Recorded
from tests.support.corpus import ROOT
from tests.support.server import PROGRAM, run


@pytest.mark.parametrize("format", ["table", "json"])
def test_a_long_session_is_written_as_it_is_read(tmp_path: Path, format: str) -> None:
    """Neither a table nor an array is held in memory: what was read is on stdout before the rest."""
    made = Recorded(tmp_path / "recorder.db")
    made.session("long", [b'data: {"n":%d}\n\n' % number for number in range(3_000)])
    command = [*PROGRAM, "events", "long", "--db", str(made.path)]
    with subprocess.Popen(
        [*command, *(["--json"] if format == "json" else [])], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1_000_000)
        whole = first + process.stdout.read()
    assert len(first) < len(whole)
    rows = json.loads(whole) if format == "json" else whole.decode().splitlines()[1:]
    assert len(rows) == 3_000 + 5
    if format == "table":
        assert [row.rpartition("  ")[2] for row in rows[3:-2]] == [
            f'{{"n":{number}}}' for number in range(3_000)
        ]


INTERRUPTED = """
import os, signal, sys

class At:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, At())
from recorder.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["click", "recorder.commands.sessions", "rich.cells"])
def test_an_interrupt_while_the_program_is_loaded_is_quiet(name: str) -> None:
    program = INTERRUPTED.format(name=name)
    done = subprocess.run(
        [sys.executable, "-c", program, "sessions"], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_an_interrupted_demo_does_not_look_like_an_upstream_fault(tmp_path: Path) -> None:
    command = [*PROGRAM, "demo", "--db", str(tmp_path / "demo.db")]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # the second one streams now
        next(line for line in process.stderr if "POST /v1/responses" in line)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (process.returncode, "Traceback" in said) == (130, False), said
    [row] = json.loads(run(tmp_path / "demo.db", "sessions", "--json").out)
    assert row["status"] in ("completed", "client_disconnect", "recorder_shutdown")


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.timed  # on a busy machine it says at its end that it is late
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_the_address_of_ipv6_has_brackets(host: str, tmp_path: Path) -> None:
    command = [*PROGRAM, "serve", "--host", host, "--port", "0", "--db", str(tmp_path / "x.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(7)]
        process.terminate()
        assert process.stderr.read() == ""
    assert re.fullmatch(r"Listening on http://\[::1\]:\d+\n", lines[1])
    assert re.search(r"recorder env CLIENT --url 'http://\[::1\]:\d+'", lines[6])


def test_the_launcher_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "cli.py", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("recorder, version")
