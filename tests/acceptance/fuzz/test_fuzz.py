"""Readers of any bytes: what broke one once is read, and for a minute each nothing else is found
that does.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.support.corpus import DATA, ROOT
from tools.fuzz.targets import SEEDS, TARGETS

REGRESSIONS = sorted(path for path in (DATA / "fuzz").iterdir() if path.suffix != ".md")
SECONDS = 60
# Linux hands the peak of a parent's memory on to its child, and the suite's is above the fuzzer's
# limit: one between.
_APART = (sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")


@pytest.mark.parametrize("name", list(TARGETS))
def test_a_target_holds_for_its_seeds_and_what_is_left_of_them(name: str) -> None:
    for seed in SEEDS[name]:
        for end in range(0, len(seed) + 1, max(1, len(seed) // 50)):
            TARGETS[name](seed[:end])


def test_what_broke_a_target_once_does_not_again() -> None:
    for path in REGRESSIONS:
        TARGETS[path.name.partition("-")[0]](path.read_bytes())


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="no atheris here: it is for Linux and Python up to 3.13",
)
@pytest.mark.parametrize("name", list(TARGETS))
def test_nothing_is_found_that_breaks_a_target(name: str) -> None:
    command = [*_APART, sys.executable, "-m", "tools.fuzz.run", name, "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    assert "stat::number_of_executed_units" in done.stderr
