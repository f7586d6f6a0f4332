"""What the shells themselves complete with the script of click."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.conversations import FRAMES, Recorded
from tests.support.server import environment

BIN = Path(sys.executable).parent
TYPED_S = 60.0


@pytest.fixture
def db(tmp_path: Path) -> Path:
    made = Recorded(tmp_path / "recorder.db")
    made.session("weather", FRAMES[:1])
    made.session("with space", FRAMES[:1])
    return made.path


def variables(db: Path) -> dict[str, str]:
    home = environment(db.parent)
    return {**home, "PATH": f"{BIN}:{home['PATH']}", "RECORDER_DB": str(db), "TERM": "dumb"}


IN_BASH = """
eval "$(_RECORDER_COMPLETE=bash_source recorder)"
complete -p recorder
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _recorder_completion recorder
    echo "${COMPREPLY[@]}"
}
complete_words recorder show w
complete_words recorder exp
complete_words recorder db pur
complete_words recorder sessions --prob
"""


def test_bash_completes_names_of_sessions_verbs_and_options(db: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", IN_BASH], env=variables(db), capture_output=True, timeout=60
    )
    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == [
        "complete -o nosort -F _recorder_completion recorder",
        "weather",
        "export",
        "purge",
        "--probes",
    ]


IN_FISH = (
    "_RECORDER_COMPLETE=fish_source recorder | source; complete -C 'recorder show w'; "
    "complete -C 'recorder db pur'"
)


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_completes_names_of_sessions(db: Path) -> None:
    done = subprocess.run(
        ["fish", "--no-config", "-c", IN_FISH], env=variables(db), capture_output=True, timeout=60
    )
    assert done.stderr == b""
    assert [line.partition("\t")[0] for line in done.stdout.decode().splitlines()] == [
        "weather",
        "purge",
    ]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh_completes_names_of_sessions(db: Path) -> None:
    """Its completion works only at a prompt: somebody types at a terminal."""
    script = 'autoload -Uz compinit; compinit -D -u; eval "$(_RECORDER_COMPLETE=zsh_source recorder)"; echo is ready\n'
    terminal, end = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i", "-V"],
        env=variables(db),
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    try:
        os.close(end)
        os.write(terminal, script.encode())
        read_until(terminal, r"\nis ready")
        os.write(terminal, b"recorder show w\t")
        read_until(terminal, "show weather")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def read_until(terminal: int, wanted: str) -> None:
    shown, deadline = "", time.monotonic() + TYPED_S
    while not re.search(wanted, shown):
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
