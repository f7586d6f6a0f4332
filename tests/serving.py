"""`recorder serve` as a user starts it: a process of its own on a free port, gone at the end whatever happens.

with serving(tmp_path / "recorder.db", "--upstream", f"openai={url}") as serve:
    … serve.base …                     # http://127.0.0.1:PORT
serve.said                             # what it wrote to stdout and stderr
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

STARTED_S = 15.0  # to listen, on a machine that has other things to do
STOPPED_S = 15.0  # the grace of open streams, and twice as much again
POLL_S = 0.01

PROGRAM = (sys.executable, "-m", "recorder")

_LISTENING = re.compile(r"^Listening on http://127\.0\.0\.1:(\d+)$", re.MULTILINE)


class Ran(NamedTuple):
    """A finished command."""

    code: int
    out: bytes
    err: str


def environment(home: Path) -> dict[str, str]:
    """The environment of a user who has set nothing."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}


def run(db: Path, *arguments: object) -> Ran:
    """A command on a database, to its end."""
    command = [*PROGRAM, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, cwd="/", env={**environment(db.parent), "RECORDER_DB": str(db)}, timeout=60
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def wait_until(condition: Callable[[], object], within_s: float = STARTED_S) -> None:
    """Wait until `condition` holds. Raises `TimeoutError` if it does not."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s")
        time.sleep(POLL_S)


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

    def listen(self) -> None:
        """Wait for its port."""
        wait_until(lambda: self.process.poll() is not None or _LISTENING.search(self.said))
        found = _LISTENING.search(self.said)
        assert found, f"recorder serve ended with code {self.process.poll()}: {self.said}"
        self.port = int(found[1])

    def ingesters(self) -> list[int]:
        """The ids of the processes that the recorder has started and that run."""
        pid = self.process.pid
        try:
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except FileNotFoundError:
            found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
        return [int(child) for child in found.split()]

    def interrupt(self) -> None:
        """Ctrl-C: a terminal sends it to all that was started in it."""
        os.killpg(self.process.pid, signal.SIGINT)

    def stop(self) -> int:
        """As a supervisor stops it; returns the exit code."""
        self.process.terminate()
        return self.process.wait(STOPPED_S)

    def kill(self) -> None:
        """SIGKILL to the whole tree at once."""
        for pid in (*self.ingesters(), self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(STOPPED_S)

    def close(self) -> None:
        """Keep what was said; nothing runs after this."""
        if self.process.poll() is None:
            self.kill()
        self._last_words = self.said


@contextlib.contextmanager
def serving(db: Path, *options: str, umask: int = -1) -> Iterator[Serving]:
    """A recorder with that database, stopped at the end as a supervisor would, and killed if that does not help."""
    command = [*PROGRAM, "serve", "--port", "0", "--db", str(db), *options]
    home = db.parent if db.parent.exists() else Path("/")
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=home, env=environment(home), start_new_session=True, umask=umask
        )
        serve = Serving(process, db, output.fileno())
        try:
            serve.listen()
            yield serve
            if process.poll() is None:
                serve.stop()
        finally:
            serve.close()


def everywhere(base: str) -> list[str]:
    """The options that put every API at `base`."""
    return [word for api in ("openai", "anthropic", "gemini") for word in ("--upstream", f"{api}={base}")]
