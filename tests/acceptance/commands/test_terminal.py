"""What the process makes of a stdout that is gone or full, and of a folder that is gone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.conversations import FRAMES, Recorded


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    made = Recorded(tmp_path_factory.mktemp("terminal") / "recorder.db")
    made.session("one", FRAMES)
    return made


def shell(line: str, db: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash, in which `recorder` is the program."""
    program = f'recorder() {{ RECORDER_DB="$1" {sys.executable} -m recorder "${{@:2}}"; }}'
    script = f"{program}\nset -o pipefail\n{line}"
    return subprocess.run(
        ["bash", "-c", script, "bash", db], capture_output=True, text=True, cwd="/"
    )


def test_a_stdout_that_is_closed_is_one_sentence(recorded: Recorded) -> None:
    for command in ("--help", "events latest"):
        done = shell(f'recorder "$1" {command} >&-', recorded.path)
        assert done.returncode == 1
        assert re.fullmatch(r"Error: stdout cannot be written: .*\.\n", done.stderr), done.stderr


def test_a_reader_that_has_seen_enough_is_told_nothing(recorded: Recorded) -> None:
    for command in ("sessions --jsonl", "events latest --raw", "--help"):
        assert shell(f'recorder "$1" {command} | true', recorded.path).stderr == ""


def test_a_working_directory_that_is_gone_is_one_sentence(
    recorded: Recorded, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    done = shell(
        f'mkdir {gone} && cd {gone} && rmdir ../gone && recorder "" sessions', recorded.path
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The working directory does not exist any more")
