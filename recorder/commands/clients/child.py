"""A child command: it has the terminal, handles its own signals, and its exit code becomes ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from recorder.commands.terminal.output import echo
from recorder.model.text import safe_text
from recorder.proxy.http.server_capacity import lower_limit

NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as shells, env and timeout say it
# of each stream of a command: what an answer prints is far less, and it is compared whole
CAPTURED_BYTES = 2**20
KILLED = 128  # plus the number of the signal

# What a terminal sends goes to all of its foreground: the command has it already.
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_SIGNALS = (*_OF_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def refusal(command: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Return the exit code of a command that cannot be started, and print why; None if it can."""
    name = command[0]
    path = environment.get("PATH", os.defpath)
    if shutil.which(name, path=path):
        return None
    there = shutil.which(name, mode=os.F_OK, path=path)
    what = (
        "cannot be executed: give it the right to, or name what runs it"
        if there
        else "is not on the PATH"
    )
    echo(f"Error: {safe_text(name)} {what}.")
    return NOT_EXECUTABLE if there else NOT_FOUND


async def run(command: Sequence[str], environment: Mapping[str, str], *, descriptors: int) -> int:
    """Run a command to its end and return its exit code, as a shell gives it.

    From here on signals go to the command, and have no effect once it has ended, so that the
    recorder can finish its work.
    """
    process = _started(command, environment)
    if process is None:
        return NOT_EXECUTABLE
    lower_limit(process.pid, descriptors)
    for number in _handled():
        asyncio.get_running_loop().add_signal_handler(number, _pass_on, process, number)
    return _as_shell(await asyncio.to_thread(process.wait))


def piped(command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Start a command between two pipes, to which signals go from here on; None if it cannot be
    executed.
    """
    process = _started(
        command, os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    if process is not None:
        for number in _handled():
            signal.signal(number, lambda received, frame: _pass_on(process, received))
    return process


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """Wait for a command; return its exit code, as a shell gives it."""
    return _as_shell(process.wait())


def _handled() -> list[signal.Signals]:
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _pass_on(process: subprocess.Popen[bytes], number: int) -> None:
    if number in _OF_TERMINAL and _in_foreground():
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _as_shell(code: int) -> int:
    return code if code >= 0 else KILLED - code


class Captured(NamedTuple):
    """What a command printed, as far as it is kept, and its exit code; None if it did not end in
    time.
    """

    code: int | None
    out: bytes
    err: bytes


async def captured(
    command: Sequence[str], environment: Mapping[str, str], *, seconds: float, descriptors: int
) -> Captured:
    """Run a command without a terminal, and end it and all that it started after so many seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        code = await apart(
            command, environment, seconds=seconds, descriptors=descriptors, **streams
        )
        printed = [os.pread(each.fileno(), CAPTURED_BYTES, 0) for each in (out, err)]
    return Captured(code, *printed)


async def apart(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    descriptors: int,
    seconds: float | None = None,
    **streams: Any,
) -> int | None:
    """Run a command without a terminal, then end all that it started; return its exit code, as a
    shell gives it.

    None if it did not end within `seconds`. `streams` are those of `subprocess.Popen`.
    """
    process = _started(command, environment, start_new_session=True, **streams)
    if process is None:
        return NOT_EXECUTABLE
    lower_limit(process.pid, descriptors)
    code: int | None = None
    try:
        code = await asyncio.to_thread(process.wait, seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also where the whole is interrupted
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return code if code is None else _as_shell(code)


def _started(
    command: Sequence[str], environment: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes] | None:
    """Start the child without the event loop: uvloop resets SIGHUP for a child that was started
    with nohup.
    """
    try:
        return subprocess.Popen(command, env=environment, **options)
    except OSError as error:  # the wrong kind of file: a script without its first line
        echo(f"Error: {safe_text(command[0])} cannot be executed: {error.strerror}.")
        return None


def _in_foreground() -> bool:
    """Return whether a terminal's Ctrl-C reaches us, and so the command."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
