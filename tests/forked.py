"""Commands in processes of their own that need not import anything: forked from one that has.

Starting Python and importing the program takes nearly all of the time of a short command. What a process of its own
makes of a command, its streams, environment, folder, exit code, is the same here; that `python -m recorder` starts at
all is tested where a test starts it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

from tests import preloaded

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([preloaded.__name__])

TIMEOUT_S = 60.0

_LOCK = threading.Lock()
"""Of what reads exit codes: a start reads those of all other processes, and two that read one code give 255 to one."""


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    out: bytes
    err: bytes


def command(arguments: Sequence[object], environment: Mapping[str, str], cwd: Path, stdout: str | None = None) -> Ended:
    """`recorder` with these arguments, to its end; its stdout may be the file of that path. A signal is -number."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        streams = stdout or str(out), str(err)
        for path in (out, err):
            path.touch()
        process = _PROCESSES.Process(target=_run, args=([*map(str, arguments)], dict(environment), str(cwd), *streams))
        with _LOCK:
            process.start()
        has_ended = wait([process.sentinel], TIMEOUT_S)
        with _LOCK:
            if not has_ended:
                process.kill()
            process.join()
        if not has_ended:
            raise TimeoutError(f"recorder {' '.join(map(str, arguments))} has not ended within {TIMEOUT_S:g} s")
        assert process.exitcode is not None
        return Ended(process.exitcode, out.read_bytes(), err.read_bytes())


def _run(arguments: list[str], environment: dict[str, str], cwd: str, out: str, err: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the server ignores
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for path, descriptor in ((out, 1), (err, 2)):
        opened = os.open(path, os.O_WRONLY)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    preloaded.main(arguments)
