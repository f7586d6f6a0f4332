"""The ingester as a process beside its recorder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from recorder.journal.writer import Journal
from recorder.program import command_of
from recorder.store.location import VARIABLE
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, body


def test_a_recorder_that_lets_go_of_its_pipe_first_is_ingested(tmp_path: Path) -> None:
    """A process that is killed closes what it has open in any order."""
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    exchange = Exchange(journal).chunk(COMPLETED).end()
    command = command_of("recorder.commands.serving.ingester", str(journal.directory))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, env={**os.environ, VARIABLE: str(path)}
    ) as process:
        try:
            assert process.stdin
            process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):  # it looks, in vain
                process.wait(1.5)
            journal.close()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert body(path, exchange.id) == exchange.received
