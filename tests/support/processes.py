"""Commands in processes of their own that need not import anything: forked from one that has.

Starting Python and importing the program takes nearly all of the time of a short command, and half a second of
processor time of a server. What a process of its own makes of a command, its streams, environment, folder, exit code,
is the same here; that `python -m recorder` starts at all is tested where a test starts it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, cast

from tests.support import preloaded, spares

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([preloaded.__name__])

TIMEOUT_S = 60.0

_LOCK = threading.Lock()
"""Of what reads exit codes: a start reads those of all other processes, and two that read one code give 255 to one."""


Main = Callable[[list[str]], object]
"""What a program does with its arguments; a function at the top of its module."""


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    out: bytes
    err: bytes


class Process:
    """A process that runs a command: of `subprocess.Popen` what the tests use of a server."""

    def __init__(
        self,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        cwd: Path,
        streams: tuple[str, str],
        *,
        leads: bool = False,
        umask: int = -1,
        main: Main = preloaded.main,
    ) -> None:
        """Start `recorder` with these arguments; `streams` are the paths of the files that get stdout and stderr.

        With `leads` it has a session of its own, as with `start_new_session`. `main` is that of another program.
        """
        how = (main, [*map(str, arguments)], dict(environment), str(cwd), streams, leads, umask)
        self._process = _PROCESSES.Process(target=_run, args=how)
        with _LOCK:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, -number of a signal, or None while the process runs."""
        with _LOCK:  # not the sentinel: it is silent between the code, once read, and the end of its pipe
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. Raises `TimeoutError`."""
        if not wait([self._process.sentinel], timeout):
            raise TimeoutError(f"process {self.pid} has not ended within {timeout:g} s")
        with _LOCK:
            self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def command(
    arguments: Sequence[object],
    environment: Mapping[str, str],
    cwd: Path,
    stdout: str | None = None,
    main: Main = preloaded.main,
) -> Ended:
    """`recorder` with these arguments, to its end; its stdout may be the file of that path. A signal is -number."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        for path in (out, err):
            path.touch()
        process = Process(arguments, environment, cwd, (stdout or str(out), str(err)), main=main)
        try:
            code = process.wait(TIMEOUT_S)
        except TimeoutError:
            process.kill()
            process.wait()
            raise TimeoutError(
                f"recorder {' '.join(map(str, arguments))} has not ended within {TIMEOUT_S:g} s"
            ) from None
        return Ended(code, out.read_bytes(), err.read_bytes())


def _run(
    main: Main,
    arguments: list[str],
    environment: dict[str, str],
    cwd: str,
    streams: tuple[str, str],
    leads: bool,
    umask: int,
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the server ignores
    cast("dict[str, Any]", sys.modules)["pandas"] = None  # DuckDB imports it where it is; the program asks for none
    if leads:
        os.setsid()
    if umask != -1:
        os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for path, descriptor in zip(streams, (1, 2), strict=True):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if main is preloaded.main:
        spares.prepare(arguments)
    main(arguments)
