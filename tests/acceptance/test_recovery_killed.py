"""B4, a crash of recovery: `recorder db recover` is killed at each of its first steps, and the next
one completes it.

A step is a call that changes the disk: a write, a sync, a truncation, a new, moved or deleted name.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder.ingest.ingester import Ingester, recover
from recorder.journal.writer import Journal
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import Exchange, never, rows, stream
from tests.support.corpus import ROOT
from tests.support.disk_faults import Disk, on_disk
from tests.support.logbook import assert_chained, entries
from tests.support.rows import projections
from tests.support.server import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

STEPS = 50

PROGRAM = """
import sys
from pathlib import Path
from recorder.commands import main
from tests.acceptance.test_recovery_killed import Deadly
from tests.support.disk_faults import on_disk
with on_disk(Path(sys.argv[1]), Deadly(int(sys.argv[2]))):
    main(["db", "recover", "--db", sys.argv[1] + "/recorder.db"])
"""


class Deadly(Disk):
    """Kills this process before its n-th step."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _step(self, *_: object, **__: object) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    opening = making = deleting = renaming = writing = truncating = syncing = _step


def killed(where: Path, at: int) -> int:
    command = [sys.executable, "-c", PROGRAM, str(where), str(at)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(where), capture_output=True, timeout=60
    ).returncode


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What recorders left that were killed: one had told a part, two nothing; ended and open
    exchanges.
    """
    where = tmp_path_factory.mktemp("dead")
    root = where / "recorder.db.journal"
    with Store(where / "recorder.db") as store:
        for number in range(3):
            journal = Journal(root, f"recorder-{number}", segment_bytes=3000)
            for each in range(4):
                exchange = Exchange(journal)
                for chunk in stream(number * 10 + each):
                    exchange.chunk(chunk)
                if each % 2:
                    exchange.end()
            if number == 2:  # the first steps are those of one that had told nothing
                Ingester(store, journal.directory, never).step()
            journal.close()
    return where


def outcome(where: Path) -> Any:
    """Recover, and look at all there is."""
    with Store(where / "recorder.db") as store:
        recover(store, where / "recorder.db.journal", never)
    assert list((where / "recorder.db.journal").iterdir()) == []
    found = entries(where / "recorder.db")
    assert_chained(found)
    assert len(found) == 12
    assert all(entry.end for entry in found)
    return rows(where / "recorder.db"), projections(where / "recorder.db")


@pytest.fixture(scope="module")
def expected(dead: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What recovery makes of it that nobody disturbs."""
    where = tmp_path_factory.mktemp("expected") / "copy"
    shutil.copytree(dead, where)
    steps = Deadly(0)
    with on_disk(where, steps):
        found = outcome(where)
    assert -steps.left > STEPS
    return found


def test_recovery_that_is_killed_at_any_of_its_steps_is_completed_by_the_next(
    dead: Path, expected: Any, tmp_path: Path
) -> None:
    """B4: complete, once."""
    for at in range(1, STEPS + 1):
        where = tmp_path / str(at)
        shutil.copytree(dead, where)
        assert killed(where, at) == -signal.SIGKILL
        assert outcome(where) == expected, f"killed at step {at}"
        shutil.rmtree(where)


def test_recovery_that_is_killed_again_and_again_is_completed_by_the_last(
    dead: Path, expected: Any, tmp_path: Path, seed: int
) -> None:
    """B4, on the same files."""
    where, dice = tmp_path / "copy", random.Random(seed)
    shutil.copytree(dead, where)
    for _ in range(15):
        assert killed(where, dice.randrange(1, STEPS)) in (0, -signal.SIGKILL)
    assert outcome(where) == expected
