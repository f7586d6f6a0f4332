"""Ingesters that need not import anything, for recorders that `tests.support.processes` forks.

A recorder starts its ingester in another interpreter, which takes 0.8 s of processor time to import what the fork has.
So the fork is forked once more before it does anything, and that process, the spare, waits for what the recorder would
give a new one: arguments, environment, standard input. It is the recorder's child, in a session of its own, and has no
file of the recorder's open. An ingester that follows a dead one is started as ever.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, Any, NoReturn

from recorder.commands.serving import ingester
from recorder.ingest import supervisor

VERBS = ("demo", "probe", "run", "serve")  # that have an ingester

_CHANNEL = 3  # the only file of a spare but its standard streams
_CHUNK = 65_536


class _Ingester:
    """A spare that has become an ingester: of `subprocess.Popen` what a supervisor uses."""

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        self.pid, self.stdin = pid, stdin
        self.returncode: int | None = None

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, 9)


class Spares:
    """The module `subprocess` of a supervisor: the first process that it starts is there already."""

    PIPE = subprocess.PIPE

    def __init__(self) -> None:
        """Fork the spare; to be called while the process has one thread."""
        here, there = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            os.dup2(there.fileno(), _CHANNEL)
            _wait()
        there.close()
        self._channel: socket.socket | None = here

    def Popen(self, command: Sequence[str], *, env: Mapping[str, str], **how: Any) -> Any:
        channel, self._channel = self._channel, None
        if channel is None:
            return subprocess.Popen(command, env=env, **how)
        reading, writing = os.pipe()
        with channel, open(reading, "rb"):
            socket.send_fds(channel, [json.dumps([command[-1], dict(env)]).encode()], [reading])
        return _Ingester(self._pid, open(writing, "wb", buffering=0))


def prepare(arguments: Sequence[str]) -> None:
    """Have a spare for what these arguments start, if that has an ingester."""
    if arguments and arguments[0] in VERBS:
        vars(supervisor)["subprocess"] = Spares()


def _wait() -> NoReturn:
    """Become an ingester when asked; end with the recorder if that does not ask."""
    os.setsid()
    os.closerange(_CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))
    code = 0
    with socket.socket(fileno=_CHANNEL) as channel:
        said, files, *_ = socket.recv_fds(channel, _CHUNK, 1)
        while more := channel.recv(_CHUNK):
            said += more
    if files:
        os.dup2(files[0], 0)
        os.close(files[0])
        code = _follow(*json.loads(said))
    os._exit(code)


def _follow(directory: str, environment: dict[str, str]) -> int:
    """As the command of an ingester with that environment. Return the exit code."""
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    try:
        ingester.main(directory)
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()
    return 0
