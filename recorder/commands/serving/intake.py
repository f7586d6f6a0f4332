"""A journal and its ingester in one thread: commands add to the log in the same way as a recorder.

The journal never grows to its bound: its records are ingested as they are written. Should the
process be killed, the journal is ingested like that of any recorder, by `recorder db recover` or
the next `recorder serve`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from recorder.cassettes import Entry
from recorder.commands.terminal.output import echo
from recorder.commands.terminal.rules import redactor
from recorder.errors import RecorderError
from recorder.ingest.ingester import Ingester, recover_one
from recorder.journal.format import Mark
from recorder.journal.locks import claimed
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import ExchangeEnd
from recorder.proxy.recording import new_id
from recorder.store.write.retry import Stopped
from recorder.store.write.writer import Store

STEP_BYTES = 4 * 2**20  # of journal between two commits: larger ones are no faster
# how often, and how many times, to look whether a full journal has room again
ROOM_S, WAITS = 0.1, 100


class Intake:
    """A writer into the log of `store` through a journal in `root`.

    Its exchanges are committed at the end of the block.
    """

    def __init__(self, store: Store, root: Path) -> None:
        """Raise `StoreError` if the user may only read the log: writes would be tried for ever."""
        store.require_rights()
        self._store, self._redactor = store, redactor()
        self._journal = Journal(root, new_id())
        self._leaving = False
        self._waiting_bytes = 0
        self._claim = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._claim.enter_context(claimed(self._journal.directory))
        self._ingester = Ingester(self._store, self._journal.directory, self._pause, self._redactor)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ingest the rest, with a new ingester: the other one may have been interrupted during a
        commit.
        """
        self._leaving = error is not None
        self._journal.close()
        self._claim.close()
        try:
            recover_one(self._store, self._journal.directory, self._pause, self._redactor)
        except Stopped:
            echo("The database refuses: `recorder db recover` brings in what was read so far.")

    def take(self, entries: Iterable[Entry]) -> None:
        """Enter exchanges.

        An exchange that cannot be written to its end is ended where writing failed.

        Raises `RecorderError` if the disk has no room, and whatever `entries` raises.
        """
        tape: ExchangeWriter | None = None
        t_ns = 0
        try:
            for mark, t_ns, payload in entries:
                if mark is Mark.REQUEST or tape is None:
                    tape = self._journal.exchange()
                self._write(tape, mark, t_ns, payload)
                if mark is Mark.END:
                    tape = None
        except BaseException:
            if tape is not None:
                tape.end(
                    t_ns,
                    msgspec.json.encode(
                        ExchangeEnd("recorder_shutdown", "the import was broken off here")
                    ),
                )
            raise

    def _write(self, tape: ExchangeWriter, mark: Mark, t_ns: int, payload: bytes) -> None:
        self._make_room(len(payload))
        if mark is Mark.END:
            tape.end(t_ns, payload)
        else:
            tape.write(mark, t_ns, payload)
        if not tape.pay():
            raise self._no_room()

    def _make_room(self, size_bytes: int) -> None:
        """Ingest the journal, so that it never gets so full that it only counts."""
        self._waiting_bytes += size_bytes
        if self._waiting_bytes > STEP_BYTES:
            self._waiting_bytes = 0
            self._journal.look()
            self._ingester.drain()
        for _ in range(WAITS):
            if not self._journal.full:
                return
            self._ingester.drain()
            time.sleep(ROOM_S)
        raise self._no_room()

    def _no_room(self) -> RecorderError:
        return RecorderError(
            f"There is no room for the journal in {self._journal.directory.parent}: free some."
        )

    def _pause(self, seconds: float) -> bool:
        """Wait for the database, unless the command is ending."""
        if not self._leaving:
            time.sleep(seconds)
        return self._leaving
