"""Commands: the time from the start of the process to its first output, on a small log."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.store.location import VARIABLE

PYTHON = "python"
COMMANDS = (
    "--version",
    "sessions",
    "show latest",
    "events latest",
    "usage",
    "query 'SELECT 1'",
    "lint latest",
    "diff latest latest --json",
    "verify",
    "export latest",
    "replay latest --speed max",
    "serve --port 0",
    "mock latest --port 0",
)

_RECORDER = [sys.executable, "-m", "recorder"]

COLUMNS = (
    Column("first output ms", "first_ms"),
    Column("x python", "first_ms", "/", PYTHON),
    Column("CPU ms", "cpu_ms"),
)


def rounds(settings: Settings) -> list[Round]:
    """Each command once a round, and an interpreter that prints a line."""
    with (
        tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder,
        machine.on_core(machine.MEASURED_CORE),
    ):
        environment = {**os.environ, VARIABLE: str(Path(folder) / "recorder.db")}
        # else each start compiles what an installer compiles once
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([*_RECORDER, "demo"], env=environment, check=True, capture_output=True)
        programs = {PYTHON: [sys.executable, "-c", "print()"]}
        programs |= {command: [*_RECORDER, *shlex.split(command)] for command in COMMANDS}
        for program in programs.values():
            _measured(program, environment)  # compiles, and fills the caches of the disk
        return [_round(programs, environment) for _ in range(settings.rounds)]


def _round(programs: dict[str, list[str]], environment: dict[str, str]) -> Round:
    order = random.sample(list(programs), len(programs))
    rows = {name: _measured(programs[name], environment) for name in order}
    return {name: rows[name] for name in programs}


def _measured(program: list[str], environment: dict[str, str]) -> Row:
    """Run a program until it prints something, whether data or the line of a server; CPU is what it
    took until then.
    """
    begin_s = time.perf_counter()
    process = subprocess.Popen(
        program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    with process, process.stdout as output:
        if not os.read(output.fileno(), 1):
            raise RuntimeError(f"{shlex.join(program)} printed nothing")
        first_s, cpu_s = time.perf_counter() - begin_s, machine.cpu_s(process.pid)
        process.terminate()
        output.read()
    return {"first_ms": first_s * 1e3, "cpu_ms": cpu_s * 1e3}
