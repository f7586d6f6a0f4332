"""The server that the tests start ends with them, also when they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.corpus import ROOT
from tests.support.server import wait_until

# What is forked has all that its parent had open, and lives on.
OWNER = f"""
import os, signal
from {postgres.__name__} import server

with server() as opened:
    child = os.fork()
    if child:
        print(child, opened.url.query["host"], flush=True)
    signal.pause()
"""
WITHIN_S = 240  # on a machine that has other things to do


def runs(pid: int) -> bool:
    """Whether there is such a process, and not only its exit code, which its parent has not read."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
    ).stdout
    return state.strip()[:1] not in ("", "Z")


@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.skipif(
    postgres.programs() is None, reason="there is no server of our own to be started"
)
def test_a_server_and_its_folder_go_when_the_process_that_opened_it_is_killed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != postgres.VARIABLE}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        child, folder = owner.stdout.readline().split()
        try:
            postmaster = int((Path(folder) / "data" / "postmaster.pid").read_text().split()[0])
            assert runs(postmaster)
            owner.kill()
            wait_until(lambda: not runs(postmaster) and not Path(folder).exists(), WITHIN_S)
        finally:
            os.kill(int(child), signal.SIGKILL)
            owner.kill()
