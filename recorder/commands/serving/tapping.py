"""The standard streams between a client and a program: passed on, and journaled before that.

Rules of this file:

* Each direction has a thread, which reads, writes to the journal, and writes on: whoever does not
  read stops the one who writes, as without a recorder. The journal is written by one thread at a
  time.
* No trouble of the recorder reaches either side: what cannot be recorded is passed on, and said
  once on stderr.
* A read is journaled before it is passed on. A recorder that is killed loses nothing that the other
  side has seen.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

import msgspec
from sqlalchemy import URL

from recorder.commands.clients.child import wait_for
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.commands.terminal.session_names import new_name
from recorder.errors import RecorderError
from recorder.ingest.supervisor import IngesterSupervisor
from recorder.journal.writer import Journal
from recorder.model.events import STDIO, SWITCHED, RequestHead, ResponseHead, Side
from recorder.model.text import safe_text
from recorder.program import load
from recorder.proxy.recording import ExchangeJournal, ExchangeRecorder, new_id
from recorder.store.location import chosen_url, journal_root
from recorder.wire.content import Level
from recorder.wire.dialects import by_lines

READ_BYTES = 64 * 2**10  # what a pipe of Linux holds
# between two looks at the journal: for so long nobody but the recorder has what somebody deletes of
# it
LOOK_S = 1.0
# without a byte of a program that has ended, after which what it started may keep the pipe
QUIET_S = 0.5

_LINES = "application/x-ndjson"


def tap(
    process: subprocess.Popen[bytes],
    streams: tuple[int, int],
    name: str,
    words: Sequence[str],
    session: str | None,
    db: str | None,
    content: Level = "full",
) -> int:
    """Pass on what a client and a program write, and record it.

    Return the exit code of the program.
    """
    log_to_stderr()
    assert process.stdin is not None, "it was started between pipes"
    assert process.stdout is not None, "it was started between pipes"
    tape = _Tape(name, words, session, db, content)
    asked = _Pump(streams[0], process.stdin.fileno(), lambda data: tape.add("client", data))
    answered = _Pump(process.stdout.fileno(), streams[1], lambda data: tape.add("server", data))
    asked.start()
    answered.start()
    code = wait_for(process)
    answered.finish()
    tape.end(code, is_left=asked.has_ended)
    return code


class _Pump(Thread):
    """One direction."""

    def __init__(self, source: int, sink: int, record: Callable[[bytes], None]) -> None:
        # a client that does not close its end must not keep this process
        super().__init__(daemon=True)
        self._source, self._sink, self._record = source, sink, record
        self.has_ended = self._is_writing = False  # by its source

    def run(self) -> None:
        # the other side has closed its end: this side shall see that
        with contextlib.suppress(OSError):
            while data := os.read(self._source, READ_BYTES):
                self._is_writing = True
                self._record(data)
                _write_all(self._sink, data)
                self._is_writing = False
            self.has_ended = True
        self._record(b"")
        for descriptor in (self._source, self._sink):
            os.close(descriptor)

    def finish(self) -> None:
        """Wait until all is passed on that a program wrote which has ended.

        What it started may hold the pipe on.
        """
        while self.is_alive():
            self.join(QUIET_S)
            with contextlib.suppress(OSError, ValueError):
                if (
                    self.is_alive()
                    and not self._is_writing
                    and not select.select([self._source], [], [], 0)[0]
                ):
                    return


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _say(said: int) -> None:
    while data := os.read(said, READ_BYTES):
        _write_all(2, data)


def _record(recorder: ExchangeRecorder, side: Side, data: bytes) -> None:
    if side == "client":
        recorder.client_chunk(data)
    else:
        recorder.chunk(data)


class _Tape:
    """The recording of one run. Its methods do not raise."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        session: str | None,
        db: str | None,
        content: Level,
    ) -> None:
        self._name, self._words = name, words
        self._lock, self._is_over = Lock(), Event()
        self._recorder: ExchangeRecorder | None = None
        self._has_begun = False
        self._ended_early: list[Side] = []
        try:
            self._session = new_name(session) if session else None
            self._begin_journal(chosen_url(db), content)
        except RecorderError as error:
            echo(f"Nothing of {safe_text(name)} is recorded. {error}")

    def _begin_journal(self, url: URL, content: Level) -> None:
        root = journal_root(url)
        self._journal = Journal(root, new_id())
        kept: ExchangeJournal = self._journal
        if content != "full":
            kept = load("recorder.commands.serving.recording:kept_at")(content, kept, root)
        self._recorder = ExchangeRecorder(kept, time.monotonic_ns)
        # Not our streams: the ingester may go on after us, and a client may wait for the end of
        # those.
        said, output = os.pipe()
        Thread(target=_say, args=(said,), daemon=True).start()
        self._ingester = IngesterSupervisor(url, self._journal.directory, output)
        self._ingester.start()
        Thread(target=self._look, daemon=True).start()

    def add(self, side: Side, data: bytes) -> None:
        """Add what a side wrote; nothing, where it has ended."""
        with self._lock:
            if self._recorder is None or self._is_over.is_set():
                return
            if not self._has_begun and not data:
                # it had nothing to say: what the other one says shows the format
                self._ended_early.append(side)
                return
            if not self._has_begun:
                self._begin(self._recorder, data)
            _record(self._recorder, side, data)

    def end(self, code: int, *, is_left: bool) -> None:
        """End the recording.

        `is_left`: the client had ended its side, so that the program had no more to do.
        """
        with self._lock:
            self._is_over.set()
            if self._recorder is None:
                return
            if not self._has_begun:
                self._begin(self._recorder, b"")
            is_well = code == 0 or is_left
            error = None if is_well else f"the program ended with exit code {code}"
            self._recorder.end("eof" if is_well else "upstream_reset", error)
            self._journal.close()
        # it goes on alone: a client waits two seconds for this process to end
        self._ingester.finish(retry=False)

    def _begin(self, recorder: ExchangeRecorder, data: bytes) -> None:
        """Record the command, and what its lines are, which the first of them shows."""
        self._has_begun = True
        program = by_lines(data).program
        type = _LINES if program is None else program.media_type
        command = msgspec.json.encode({"command": self._words})
        recorder.whole_request(lambda: self._head(type), command)
        recorder.response(lambda: ResponseHead(SWITCHED, "", []), b"")
        for side in self._ended_early:
            _record(recorder, side, b"")

    def _head(self, type: str) -> RequestHead:
        started_ns = time.time_ns()
        made = f"{self._name}-{time.strftime('%Y%m%d-%H%M%S')}-{new_id()[-4:]}"
        return RequestHead(
            exchange_id=new_id(),
            session_id=new_id(),
            started_ns=started_ns,
            method=STDIO,
            target=f"/{self._name}",
            upstream=self._name,
            headers=[("content-type", type)],
            session=self._session or made,
            session_source="path",
        )

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            with self._lock:
                self._journal.look()
