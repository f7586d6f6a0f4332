"""The ingester process beside a recorder: started again when it dies, until all of the journal is
in the log.

A recorder without a database has a shipper in its place.

Rules of this file:

* The process calls `main` of a module of `recorder.commands.serving`, see `recorder.program`. Its
  standard input is a pipe from the recorder: when that closes, the recorder has ended and the
  journal is complete.
* A thread waits for the process, so recorders with an event loop and without one supervise it in
  the same way.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
from pathlib import Path
from threading import Event, Thread

from sqlalchemy import URL

from recorder.program import command_of
from recorder.store.location import VARIABLE

log = logging.getLogger(__name__)

RESTART_S = 1.0  # before an ingester that died is started again: the reason may last for a moment
AGAIN_S = 0.1  # the same at the end, when little time is left
REFUSED = 1  # the exit code of an ingester whose database refuses for good


class IngesterSupervisor:
    """The supervisor of one journal's ingester.

    `last_end` is how the last process ended, None before that.
    """

    def __init__(self, into: URL | str, directory: Path, output: int | None = None) -> None:
        """`into` is a database, or the URL to which segments are shipped.

        `output` is where the processes write, if not to the streams of this one.
        """
        self._output = output
        self._variables, self._directory = dict(os.environ), directory
        if isinstance(into, str):
            self.name, self.goal = "shipper", into
            self._arguments = [str(directory), into]
        else:
            self.name, self.goal = "ingester", "the log"
            self._arguments = [str(directory)]
            self._variables[VARIABLE] = into.render_as_string(
                hide_password=False
            )  # no argument: it may have a password
        self._process: subprocess.Popen[bytes] | None = None
        self._tried, self._finishing, self._ended = Event(), Event(), Event()
        self._retries, self._is_stopped = True, False
        self._thread = Thread(target=self._supervise, name="ingester", daemon=True)
        self.restarts = self.refusals = 0
        self.last_end: str | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of the process while it runs, else None."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def start(self) -> None:
        """Return when the first process runs, or could not be started: from then on a program may
        end at any time.
        """
        self._thread.start()
        self._tried.wait()

    def finish(self, *, retry: bool = True) -> None:
        """Let the ingester read the complete journal to its end; with `retry`, start another one if
        it fails.
        """
        self._retries = retry
        self._finishing.set()
        self._signal()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the last process to end. Return False if the time was over before."""
        return self._ended.wait(timeout_s)

    def stop(self) -> None:
        """Kill the process, so that nothing runs on after the recorder.

        The next start ingests the rest.
        """
        self._is_stopped = True
        self._signal()
        self._thread.join()

    def _supervise(self) -> None:
        try:
            while not self._is_stopped and not (
                self._finishing.is_set() and not self._directory.exists()
            ):
                end = self._run()
                if self._finishing.is_set():
                    if not self._retries:
                        break
                    time.sleep(AGAIN_S)
                    continue
                self.last_end = end
                self.restarts += 1
                log.error(
                    "the %s %s and is started again; the journal keeps what passes", self.name, end
                )
                self._finishing.wait(RESTART_S)
        finally:  # else `wait` would hang, and with it the end of the recorder
            self._ended.set()

    def _run(self) -> str:
        """Run a process to its end; return how it ended."""
        try:
            process = self._process = subprocess.Popen(
                command_of(f"recorder.commands.serving.{self.name}", *self._arguments),
                env=self._variables,
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=self._output,
                start_new_session=True,  # Ctrl-C is for the recorder, which ends in its own order
            )
        except OSError as error:
            # no descriptors or no memory left just now: clients must not notice
            return f"could not be started ({error.strerror})"
        finally:
            self._tried.set()
        self._signal()
        code = process.wait()
        assert process.stdin is not None
        process.stdin.close()
        self.refusals += code == REFUSED
        return f"ended with code {code}"

    def _signal(self) -> None:
        """Pass on to the process that the recorder has ended, by closing the pipe, or kill it.

        Called by both threads: after the flags are set, and after the process is there. One of them
        sees both.
        """
        process = self._process
        if process is None or process.returncode is not None:
            return
        if self._is_stopped:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # it may wait in SQLite, and can be killed at any point
        elif self._finishing.is_set() and process.stdin is not None:
            process.stdin.close()
