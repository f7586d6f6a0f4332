"""The `console` blocks of a page: each line after `$ ` is typed in a terminal, and what it prints
is compared.

All blocks of a page run in its order, in one folder and with the variables that earlier lines have
set. A line shown as `…` stands for any lines. A command shown with `&` at its end runs until the
page ends, and goes on when the lines shown have come; so does one that is ended with `^C`. A
command must succeed, unless `echo $?` follows it. What is different each time, such as ids, times
and versions, is the same after `normal`. A file that a page introduces as "`name.py`:" before a
block is written first.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.support.corpus import ROOT
from tests.support.server import environment

TIMEOUT_S = 60.0  # of a command, on a machine that has other things to do
SIZE = (50, 110)  # rows and columns: a page has 120
SKIPPED = "…"
HOME = "/home/me"

FILE = re.compile(
    r"`([\w./-]+\.(?:py|toml|ini|yaml|yml|sql|json))`:\n\n```\w+\n(.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_PORT = re.compile(r"(?:127\.0\.0\.1:|localhost:|--(?:ui-|admin-)?port )(\d{4,5})\b")
_DEFAULT_PORTS = {
    "8787": "RECORDER_SERVE_PORT",
    "8788": "RECORDER_UI_PORT",
    "8900": "RECORDER_DEMO_PORT",
}

# What is different each time, and what stands for it.
_NORMAL: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r"), ""),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}(-[0-9a-f]{4}-[0-9a-f]{12})?\b"), "ID"),
    (re.compile(r"\b([a-z]+)_[0-9a-f]{8,}\b"), r"\1_ID"),
    (re.compile(r"\b\d{8}-\d{6}(-[0-9a-f]{4})?\b"), "STAMP"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d(\.\d+)?)?\b"), "TIME"),
    (re.compile(r"(?<![\d.])\d+\.\d+\.\d+(?!\.?\d)"), "VERSION"),
    (
        re.compile(r"\b\d[\d,]*(\.\d+)? ?(ns|µs|ms|s|min|events/s|tokens/s|[KMG]iB)(?![\w/])"),
        r"N \2",
    ),
    (re.compile(r"(?<![\d.])\d+\.\d\b(?!\.\d)"), "N"),  # milliseconds in a column
    (re.compile(r"([=─━-])\1{3,}"), r"\1\1\1"),
    (re.compile(r" {2,}"), " "),
]


class Step(NamedTuple):
    """A command and the lines that a page shows of what it prints."""

    command: str
    shown: list[str]

    @property
    def is_interrupted(self) -> bool:
        return self.shown[-1:] == ["^C"]

    @property
    def stays(self) -> bool:
        return self.command.endswith("&")


def steps(page: str) -> list[Step]:
    """Return the commands of the `console` blocks of a page.

    Raises `ValueError` for a block that begins with none.
    """
    found: list[Step] = []
    for block in blocks(page, "console"):
        if not block.startswith("$ "):
            raise ValueError(f"no command is at the beginning of this block:\n{block}")
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            elif line.startswith("> ") and not found[-1].shown:
                found[-1] = Step(f"{found[-1].command}\n{line[2:]}", [])
            else:
                found[-1].shown.append(line)
    return found


def normal(text: str, folder: Path) -> list[str]:
    """Return the lines of an output, with one word for each thing that is different each time;
    blank lines left out.
    """
    text = text.replace(str(folder), HOME)
    for pattern, stand_in in _NORMAL:
        text = pattern.sub(stand_in, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def agrees(shown: Sequence[str], printed: Sequence[str], *, whole: bool = True) -> bool:
    """Return whether a page shows what was printed; without `whole`, the beginning of it."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == SKIPPED else f"{re.escape(line)}\n" for line in shown
    )
    text = "".join(f"{line}\n" for line in printed)
    return bool((re.fullmatch if whole else re.match)(pattern, text))


class Terminal:
    """A folder with what is typed there; leave it, and what still runs is ended."""

    def __init__(self, folder: Path, page: str) -> None:
        """Give each port of the page, and each that is meant without a word, a free one of this
        machine.
        """
        self.folder = folder
        named = {*_PORT.findall("\n".join(blocks(page, "console"))), *_DEFAULT_PORTS}
        self._ports = dict(zip(sorted(named), map(str, _free_ports(len(named))), strict=True))
        self._state = folder.parent / f"{folder.name}.state"
        self._where = (folder, self._variables())
        self._code = 0
        self._jobs: list[Command] = []
        for name, text in FILE.findall(page):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(self._here(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for job in reversed(self._jobs):
            job.end()

    def do(self, step: Step) -> None:
        """Type a command.

        Raises `AssertionError` if it prints anything but what is shown, or the one before failed.
        """
        assert self._code == 0 or step.command == "echo $?", (
            f"before {step.command!r} the exit code was {self._code}"
        )
        number = re.fullmatch(r"kill %(\d+)", step.command)
        if number:
            self._jobs[int(number[1]) - 1].end()
            return
        command = Command(self._script(step), *self._where)
        self._jobs.append(command)
        shown = normal("\n".join(line for line in step.shown if line != "^C"), self.folder)
        assert shown or not (step.stays or step.is_interrupted), (
            f"{step.command}: nothing says when to go on"
        )
        if step.stays or step.is_interrupted:
            command.wait(lambda: agrees(shown, self._printed(command), whole=False))
            printed, whole = self._printed(command), False
        else:
            command.wait(lambda: False)
            printed, whole = self._printed(command), True
        assert agrees(shown, printed, whole=whole), _difference(step.command, shown, printed)
        if step.stays:
            return
        self._jobs.pop()
        self._code = command.end()
        if step.is_interrupted:
            assert self._code in (0, 130), f"{step.command}: exit code {self._code}"
            self._code = 0

    def _variables(self) -> dict[str, str]:
        variables = {
            **environment(self.folder),
            "PATH": f"{Path(sys.executable).parent}:{environment(self.folder)['PATH']}",
            "RECORDER_DB": str(self.folder / "recorder.db"),
            "RECORDER_ENV_URL": f"http://127.0.0.1:{self._ports['8787']}",
            "RECORDER_MOCK_PORT": self._ports["8787"],
            # the plugins of these tests are not the reader's
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p recorder.pytest_plugin",
            "BROWSER": "true",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "TZ": "UTC",
        }
        return variables | {name: self._ports[port] for port, name in _DEFAULT_PORTS.items()}

    def _script(self, step: Step) -> str:
        command = self._here(step.command)
        if step.stays:
            return (
                f'test ! -e "{self._state}" || . "{self._state}"; exec {command.removesuffix("&")}'
            )
        before = f'test ! -e "{self._state}" || . "{self._state}"; cd "$PWD"; (exit {self._code})'
        return f'{before}\n{command}\ncode=$?; export -p > "{self._state}"; exit $code'

    def _here(self, text: str) -> str:
        """With the ports of this machine, and its folder."""
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text.replace(HOME, str(self.folder))

    def _printed(self, command: Command) -> list[str]:
        text = command.text
        for port, free in self._ports.items():
            text = re.sub(rf"\b{free}\b", port, text)
        return normal(text, self.folder)


class Command:
    """A command in a terminal of its own."""

    def __init__(self, script: str, folder: Path, variables: Mapping[str, str]) -> None:
        self._terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self._process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=end,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        os.close(end)
        self._read = b""
        self._is_open = True

    @property
    def text(self) -> str:
        return self._read.decode("utf-8", "replace")

    def wait(self, until: Callable[[], bool]) -> None:
        """Read what comes until the command has ended, or this holds.

        Raises `TimeoutError`, and kills it.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not until() and self._receive(deadline):
            if time.monotonic() > deadline:
                self._signal(signal.SIGKILL)
                raise TimeoutError(
                    f"it has not ended, nor printed what is shown, but:\n{self.text}"
                )

    def end(self) -> int:
        """Interrupt it if it runs, and return its exit code."""
        if self._is_open:
            self._signal(signal.SIGINT)
            self.wait(lambda: False)
        code = self._process.wait(TIMEOUT_S)
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        return code

    def _receive(self, deadline: float) -> bool:
        """Read once; return whether there may be more."""
        ready, _, _ = select.select(
            [self._terminal], [], [], max(0.0, deadline - time.monotonic()) + 0.01
        )
        try:
            data = os.read(self._terminal, 65536) if ready else b""
        except OSError as failed:
            if failed.errno != errno.EIO:  # on Linux, what a terminal says at its end
                raise
            data, ready = b"", [self._terminal]
        self._read += data
        self._is_open = bool(data) or not ready
        return self._is_open

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _difference(command: str, shown: Sequence[str], printed: Sequence[str]) -> str:
    return "\n".join([f"$ {command}", "-- the page shows:", *shown, "-- it printed:", *printed])


# -- The pages of the documentation, README first, and the blocks of code in them


FOLDER = ROOT / "docs"
INDEX = FOLDER / "index.md"
MADE = FOLDER / "reference"  # by tools.reference, of what is tested elsewhere
WRITTEN = [path for path in FOLDER.rglob("*.md") if path != INDEX and MADE not in path.parents]
PAGES = [ROOT / "README.md", *sorted(WRITTEN)]


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    """Return the code of each block in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
