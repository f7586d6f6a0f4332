"""`recorder serve` in a process of its own on a free port, gone at the end whatever happens; and
commands in this one.

A server takes a second of processor time to start: share one where the claims allow.

with serving(tmp_path / "recorder.db", "--upstream", f"openai={url}") as serve:
    … serve.base …                     # http://127.0.0.1:PORT
serve.said                             # what it wrote to stdout and stderr

run(db, "sessions", "--json").out
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple, TextIO

import pytest
from sqlalchemy import URL

from recorder.commands import main
from recorder.store.engine import address_of
from recorder.store.location import database_path
from tests.support.postgres import conninfo

STARTED_S = 60.0  # to listen, on a machine that has other things to do
COMMAND_S = 60.0
STOPPED_S = 60.0  # the grace of open streams, and as much as a busy machine may want
POLL_S = 0.01

PROGRAM = (sys.executable, "-m", "recorder")

NOT_ALL = "not all of the journal is in the log yet"

_LISTENING = re.compile(
    r"^Listening on http://127\.0\.0\.1:(?P<port>\d+)(?:/t/\S+)?$", re.MULTILINE
)


class Ran(NamedTuple):
    """A finished command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


def environment(home: Path) -> dict[str, str]:
    """The environment of a user who has set nothing."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home),
    }


def _environment(db: Path | URL) -> dict[str, str]:
    """The environment of a user who has set that database, at home where it is if it is a file."""
    path = db if isinstance(db, Path) else database_path(db) if address_of(db).is_local else None
    return {**environment(path.parent if path else Path("/")), "RECORDER_DB": address(db)}


def address(db: Path | URL) -> str:
    """As `--db` takes it."""
    return (
        str(db)
        if isinstance(db, Path)
        else str(database_path(db))
        if address_of(db).is_local
        else conninfo(db)
    )


_IN_PROCESS = threading.Lock()
"""Of the environment, the folder and the standard streams of this process: a command has them for
itself.
"""


def run(
    db: Path | URL,
    *arguments: object,
    cwd: Path = Path("/"),
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    **variables: str,
) -> Ran:
    """A command on a database, to its end, in this process, with these further variables: it has
    imported everything.

    `stdout` may be a terminal, or what takes nothing. Under a running event loop the command is on
    a thread, and the loop waits: there a verb that takes signals cannot run.
    """
    variables = {**_environment(db), **variables}
    if asyncio._get_running_loop() is None:
        return _run(arguments, variables, cwd, stdout, stderr)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, arguments, variables, cwd, stdout, stderr).result()


def _run(
    arguments: Sequence[object],
    variables: Mapping[str, str],
    cwd: Path,
    stdout: TextIO | None,
    stderr: TextIO | None,
) -> Ran:
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
    )
    with _IN_PROCESS, pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        patched.chdir(cwd)
        patched.setattr(sys, "stdout", stdout or out)
        if stdout is not None:
            # which is asked for the width of the terminal
            patched.setattr(sys, "__stdout__", stdout)
        patched.setattr(sys, "stderr", stderr or err)
        patched.setattr(logging.root, "handlers", [])
        level = logging.root.level
        try:
            with pytest.raises(SystemExit) as ended:
                main(list(map(str, arguments)))
        finally:
            # some verbs say less, and the next test of this process reads warnings
            logging.root.setLevel(level)
            gc.enable()
    said, told = (stream.buffer.getvalue() for stream in (err, out))
    return Ran(int(ended.value.code or 0), told, said.decode())


def run_parent(db: Path, *arguments: object, **variables: str) -> Ran:
    """A command in this process that starts another program: with what both of them write, and
    nothing else set.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        pytest.MonkeyPatch.context() as patched,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        _as_descriptor(out, 1) as stdout,
        _as_descriptor(err, 2) as stderr,
    ):
        for name in {*os.environ} - {"PATH"}:
            patched.delenv(name)
        ran = run(db, *arguments, cwd=db.parent, stdout=stdout, stderr=stderr, **variables)
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)  # which a recorder raises
        said, told = (os.pread(each.fileno(), 2**26, 0) for each in (err, out))
    return Ran(ran.code, told, said.decode())


@contextlib.contextmanager
def _as_descriptor(file: IO[bytes], number: int) -> Iterator[TextIO]:
    """Let a standard stream of this process and of those that it starts be that file."""
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        with open(
            number, "w", encoding="utf-8", errors="backslashreplace", closefd=False
        ) as stream:
            stream.reconfigure(write_through=True)
            yield stream
    finally:
        os.dup2(before, number)
        os.close(before)


def run_apart(db: Path | URL, *arguments: object) -> Ran:
    """A command in a process of its own: one that takes signals, or that must not be this one."""
    command = [*PROGRAM, *map(str, arguments)]
    ran = subprocess.run(
        command,
        env=_environment(db),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=COMMAND_S,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr.decode())


def wait_until(condition: Callable[[], object], within_s: float = STARTED_S) -> None:
    """Wait until `condition` holds. Raises `AssertionError` if it does not."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        time.sleep(POLL_S)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, and that run."""
    try:
        found = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except FileNotFoundError:
        found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    return [int(child) for child in found.split()]


def child_running(pid: int, module: str) -> int:
    """Wait until a process has started one that runs a module of the program, and return that.

    Before it does, it may still share the memory of its parent, which then waits for it.
    """
    found: list[int] = []

    def is_there() -> bool:
        found.extend(child for child in children(pid) if runs(child, module))
        return bool(found)

    wait_until(is_there)
    return found[0]


def runs(pid: int, module: str) -> bool:
    """Return whether a process runs a module of the program."""
    try:
        return module in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has taken; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def halt(pid: int) -> None:
    """Stop a process until SIGCONT.

    On a busy machine its threads run on until one of them takes the signal.
    """
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    if tasks.exists():
        wait_until(lambda: all(") T " in each.read_text() for each in tasks.glob("*/stat")), 60)


class Serving:
    """A running recorder."""

    def __init__(self, process: subprocess.Popen[bytes], db: Path, output: int) -> None:
        self.process, self.db = process, db
        self._output = output
        self._last_words: str | None = None
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """All that the recorder and its ingester wrote to stdout and stderr so far."""
        if self._last_words is not None:
            return self._last_words
        return os.pread(self._output, 2**26, 0).decode("utf-8", "replace")

    def listen(self, listening: re.Pattern[str] = _LISTENING) -> re.Match[str]:
        """Wait until it says its port."""
        wait_until(lambda: self.process.poll() is not None or listening.search(self.said))
        found = listening.search(self.said)
        assert found, f"it ended with code {self.process.poll()}: {self.said}"
        self.port = int(found["port"])
        return found

    def ingesters(self) -> list[int]:
        """The ids of the processes that the recorder has started and that run."""
        return children(self.process.pid)

    def interrupt(self) -> None:
        """Ctrl-C: a terminal sends it to all that was started in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)

    def stop(self) -> int:
        """As a supervisor stops it; returns the exit code."""
        self.process.terminate()
        return self.process.wait(STOPPED_S)

    def kill(self) -> None:
        """SIGKILL to the whole tree at once: it is stopped first, so that nothing is started
        meanwhile.

        An ingester is nice, and on a busy machine it may take seconds to die and to let go of a
        journal.
        """
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.process.poll() is not None or _state(self.process.pid) in "TtZX")
        tree = (*self.ingesters(), self.process.pid)
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(STOPPED_S)
        wait_until(lambda: all(map(_is_gone, tree)))

    def close(self) -> None:
        """Keep what was said; nothing runs after this."""
        if self.process.poll() is None:
            self.kill()
        self._last_words = self.said


def _state(pid: int) -> str:
    """The state of a process, in the letters of `ps`; X if there is none."""
    if not Path("/proc/self/stat").exists():
        return (
            subprocess.run(
                ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
            ).stdout[:1]
            or "X"
        )
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _is_gone(pid: int) -> bool:
    """Whether a process has let go of its files: a zombie may have threads that end later, with all
    its locks.
    """
    try:
        return _state(pid) in "ZX" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except (FileNotFoundError, ProcessLookupError):
        return _state(pid) in "ZX"


def bring_in(db: Path, serve: Serving) -> None:
    """What a busy machine has not left the time for in a stop, as the next start would."""
    if NOT_ALL in serve.said:
        assert run(db, "db", "recover").code == 0


@contextlib.contextmanager
def running(
    db: Path,
    verb: str,
    *words: str,
    umask: int = -1,
    program: Sequence[str] = PROGRAM,
    listening: re.Pattern[str] = _LISTENING,
    variables: Mapping[str, str] = {},
) -> Iterator[Serving]:
    """A command that listens on a free port, with that database unless `words` name others; killed
    at the end if it has not ended.

    `program` is what starts it, and `listening` what it says when it listens.
    """
    home = db.parent if db.parent.exists() else Path("/")
    words = ("--port", "0", "--db", str(db), *words)
    with started(
        db,
        home,
        verb,
        *words,
        umask=umask,
        program=program,
        listening=listening,
        variables=variables,
    ) as it:
        yield it


@contextlib.contextmanager
def started(
    db: Path,
    home: Path,
    *arguments: str,
    umask: int = -1,
    program: Sequence[str] = PROGRAM,
    listening: re.Pattern[str] = _LISTENING,
    variables: Mapping[str, str] = {},
) -> Iterator[Serving]:
    """The same of a command with these arguments and no others, of a user who is at home there."""
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(
            [*program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env={**environment(home), **variables},
            start_new_session=True,
            umask=umask,
        )
        started = Serving(process, db, output.fileno())
        try:
            started.listen(listening)
            yield started
        finally:
            started.close()


@contextlib.contextmanager
def serving(
    db: Path,
    *options: str,
    umask: int = -1,
    ulimit: str = "",
    program: Sequence[str] = PROGRAM,
    variables: Mapping[str, str] = {},
) -> Iterator[Serving]:
    """A recorder with that database, stopped at the end as a supervisor would, and killed if that
    does not help.

    `ulimit` has the words that the shell's command takes, before the recorder is started.
    """
    if ulimit:
        program = ("sh", "-c", f'ulimit {ulimit} && exec "$@"', "sh", *PROGRAM)
    with running(db, "serve", *options, umask=umask, program=program, variables=variables) as serve:
        yield serve
        if serve.process.poll() is None:
            serve.stop()
            bring_in(db, serve)


def everywhere(base: str) -> list[str]:
    """The options that put every API at `base`."""
    return [
        word
        for api in ("openai", "anthropic", "gemini")
        for word in ("--upstream", f"{api}={base}")
    ]


# -- A command in a process of its own, and the most memory that it took


# What `getrusage` says of a process contains the one that it was forked from; `VmHWM` is of the
# program alone.
_PROGRAM = """
import sys
from recorder.commands import main
try:
    main()
finally:
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1], file=sys.stderr)
"""


def peak(
    *arguments: object, env: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run `recorder`; return how it ended, and KiB. Raises `TimeoutExpired`."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=600)
    return ran, int(ran.stderr.split()[-1])
