"""The journal of a transport that records into a database, and the process that ingests it."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock

from recorder.errors import StoreBusyError
from recorder.ingest.supervisor import IngesterSupervisor
from recorder.journal.format import Mark
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.proxy.http.messages import Sink
from recorder.proxy.recording import new_id
from recorder.store.engine import START_TIMEOUT_S
from recorder.store.location import database_url, journal_root
from recorder.store.write.writer import Store

log = logging.getLogger(__name__)

# for the ingester to commit what is left: nothing waits but what comes after the tests
DRAIN_S = 60.0


class Ingestion:
    """A journal that threads share, and the process that brings it into the database."""

    def __init__(self, database: str | Path) -> None:
        url = database_url(database)
        try:
            # What is wrong with it is said now, not when something is recorded.
            with Store(url, answer_timeout_s=START_TIMEOUT_S) as store:
                store.require_rights()
        except StoreBusyError as error:
            log.warning("the database cannot be used yet, the journal keeps what passes: %s", error)
        self._journal = Journal(journal_root(url), new_id())
        self._lock = Lock()
        self._closed = False
        self._ingester = IngesterSupervisor(url, self._journal.directory)
        self._ingester.start()

    def exchange(self) -> _LockedWriter:
        with self._lock:
            self._journal.look()  # at its end it does so too: in between nobody has a thread for it
            return _LockedWriter(self._journal.exchange(), self._lock)

    def flush(self) -> None:
        """Do nothing: no chunk waits."""

    def close(self) -> None:
        """Wait until all is in the database. Does nothing if called again."""
        if self._closed:
            return
        self._closed = True
        self._journal.close()
        self._ingester.finish(retry=False)
        if not self._ingester.wait(DRAIN_S):
            self._ingester.stop()
        if self._journal.directory.exists():
            log.warning(
                "not all of the journal is in the log yet: `recorder db recover` brings in the rest"
            )


class _LockedWriter:
    """The writer of one exchange to a journal that several threads share. No chunk waits."""

    def __init__(self, inner: ExchangeWriter, lock: Lock) -> None:
        self._inner, self._lock = inner, lock

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        with self._lock:
            self._inner.write(mark, t_ns, payload)

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        with self._lock:
            self._inner.write_all(t_ns, records)

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        self.write(Mark.CHUNK, t_ns, data)
        then(data)
        return False

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        with self._lock:
            self._inner.end(t_ns, payload, last)
