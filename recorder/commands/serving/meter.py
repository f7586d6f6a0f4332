"""The metrics of a recorder: exchanges as they pass, and files, processes and database every few
seconds.

Rules of this file:

* A chunk costs nothing. An exchange is counted at its first record and at its last; for what lies
  between, its writer has the journal's own `write`. Chunks, bytes and gaps are those that the log
  has of it when it has ended.
* The files and the processes are looked at in a thread, the database in another, one look at a
  time, each a few milliseconds. A thread that works holds up the event loop: no probe begins within
  `FRESH_S` of the last one, however often values are requested.
* Whatever the database does, there is an answer within `ANSWER_S`, and nobody waits for a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec
from sqlalchemy import URL

from recorder.commands.ops.journals import journal_bytes
from recorder.commands.serving.health_snapshot import HealthSnapshot, free_bytes, process
from recorder.ingest.supervisor import IngesterSupervisor
from recorder.journal.format import Mark
from recorder.journal.reader import waiting
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import ExchangeEnd, RequestHead
from recorder.store.location import database_name, database_url
from recorder.store.maintain.upkeep import NOTHING, Ended, LogProbe, ProbeResult, upkeep_of

log = logging.getLogger(__name__)

LOOK_S = 2.0  # between two looks when nobody asks
# for the database: to connect takes two seconds at most, and a look one, unless it hangs
ANSWER_S = 3.0
FRESH_S = 1.0  # how old a look may be that an answer is made of
# exchanges that the log does not have yet; of more only starts and ends are counted
WAITING = 100_000
IDS = 2_000  # of them looked for at once
FORGET_S = 30.0  # after all was ingested, an exchange that no look has found in the log is in none

T = TypeVar("T")
Write = Callable[[Mark, int, bytes], None]


class Meter:
    """The meter of one recorder. `recording` attaches it; `run` refreshes it."""

    def __init__(self, database: Path | URL | None) -> None:
        """Without a database the recorder ships its journal: what only a log has is not known then."""
        url = None if database is None else database_url(database)
        self._probing = (
            None if url is None else Probing(upkeep_of(url).log_probe(url), database_name(url))
        )
        self._look = HealthSnapshot()
        self._looked_s = float("-inf")
        self._looking = asyncio.Lock()
        self._thread = Worker()
        self._errors = 0

    def attach(self, journal: Journal, ingester: IngesterSupervisor) -> Traffic:
        """Return the journal to record with."""
        self._journal, self._ingester = journal, ingester
        self.traffic = Traffic(journal)
        return self.traffic

    async def run(self) -> None:
        """Refresh every few seconds, for ever: exchanges in the log are counted even without
        scrapes.
        """
        try:
            while True:
                try:
                    await self.health()
                except Exception as error:  # who only looks must not end what is looked at
                    log.error("a look at this recorder failed: %s: %s", type(error).__name__, error)
                await asyncio.sleep(LOOK_S)
        finally:
            self.close()

    def close(self) -> None:
        """Close the database after a running refresh."""
        if self._probing is not None:
            self._probing.close()
        self._thread.stop()

    async def health(self) -> HealthSnapshot:
        """The figures: those that are at hand as they are now, the others as of the last look."""
        async with self._looking:
            if time.monotonic() - self._looked_s > FRESH_S:
                await self._look_around()
        traffic, ingester, files = self.traffic, self._ingester, self._journal.files
        return msgspec.structs.replace(
            self._look,
            streams=dict(traffic.open),
            exchanges=dict(traffic.ended),
            chunks=traffic.sums.chunks,
            size_bytes=traffic.sums.size_bytes,
            gap_chunks=traffic.sums.gap_chunks,
            gap_bytes=traffic.sums.gap_bytes,
            journal_is_full=self._journal.full,
            journal_problem=files.problem,
            journal_times=files.damage.times,
            journal_lost_bytes=files.damage.lost_bytes,
            journal_since_s=files.damaged_since_s,
            goal=ingester.goal,
            follower=ingester.name,
            ingester_pid=ingester.pid,
            ingester_end=ingester.last_end,
            ingester_restarts=ingester.restarts,
            database_errors=self._errors + ingester.refusals,
        )

    async def _look_around(self) -> None:
        traffic = self.traffic
        begun, over = (list(islice(ids, IDS)) for ids in (traffic.begun, traffic.over))
        health = await self._thread.submit(partial(self._see, self._ingester.pid))
        probe = NOTHING if self._probing is None else await self._probing.result(begun, over)
        traffic.found(probe)
        if probe.error is None:
            traffic.forget(time.time() - health.lag_s - FORGET_S)
        self._errors += probe.error is not None and self._look.database_error is None
        self._look = msgspec.structs.replace(
            health,
            database_bytes=probe.database_bytes,
            wal_bytes=probe.wal_bytes,
            database_error=probe.error,
        )
        self._looked_s = time.monotonic()

    def _see(self, ingester: int | None) -> HealthSnapshot:
        """Read files and processes, in the thread."""
        directory = self._journal.directory
        waits = waiting(directory)
        processes = {
            "recorder": process(os.getpid()),
            self._ingester.name: ingester and process(ingester),
        }
        return HealthSnapshot(
            journal=directory,
            journal_bytes=journal_bytes(directory),
            lag_s=waits.since_s or 0.0,
            lag_bytes=waits.size_bytes,
            free_bytes=free_bytes(directory),
            processes={name: found for name, found in processes.items() if found},
        )


class Worker:
    """A thread that does one thing after another, for an event loop.

    It is no reason for a process to go on.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="meter", daemon=True)
        self.thread.start()

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do something; return its result to the loop that runs, if that still runs then."""
        future: Future[T] = Future()
        self._tasks.put((future, work))
        return asyncio.wrap_future(future)

    def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """End the thread after what it has to do, and after `last`. Nobody waits for that."""
        self._tasks.put((Future(), last))
        self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, work = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)


class Probing:
    """Looks at a database, one at a time, in a thread that nobody waits for: a server may hang."""

    def __init__(self, probe: LogProbe, name: str) -> None:
        self.probe = probe
        self._name = name
        self._thread = Worker()
        self._running: asyncio.Future[ProbeResult] | None = None
        self._began_s = 0.0

    async def result(self, begun: Sequence[str], over: Sequence[str]) -> ProbeResult:
        """Return what the log has; an error if there is no answer in time, at once if there was
        none before.
        """
        if self._running is None:
            self._began_s = time.monotonic()
            self._running = self._thread.submit(partial(self.probe.look, begun, over))
        left_s = self._began_s + ANSWER_S - time.monotonic()
        done, _ = await asyncio.wait((self._running,), timeout=max(0.0, left_s))
        if done:
            finished, self._running = self._running, None
            return finished.result()
        self.probe.interrupt()
        silent_s = time.monotonic() - self._began_s
        error = f"The database {self._name} has not answered for {silent_s:.0f} s: the journal keeps what passes."
        return NOTHING._replace(error=error)

    def close(self) -> None:
        self.probe.interrupt()
        self._thread.stop(self.probe.close)


class Traffic:
    """A journal that counts the exchanges that pass through it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.open: Counter[str] = Counter()  # by upstream
        self.ended: Counter[tuple[str, str]] = Counter()  # by upstream and outcome
        self.sums = Ended("", 0, 0, 0, 0)
        # when exchanges began that the log has not shown yet, in order
        self.begun: dict[str, float] = {}
        self.over: dict[str, float] = {}  # when those ended whose end it has not shown yet

        self.flush = journal.flush

    def exchange(self) -> MeteredWriter:
        return MeteredWriter(self._journal.exchange(), self)

    def begin(self, head: RequestHead) -> None:
        self.open[head.upstream] += 1
        if len(self.begun) + len(self.over) < WAITING:
            self.begun[head.exchange_id] = time.time()

    def end(self, head: RequestHead, outcome: str) -> None:
        self.open[head.upstream] -= 1
        self.ended[head.upstream, outcome] += 1
        if len(self.begun) + len(self.over) < WAITING:
            self.over[head.exchange_id] = time.time()

    def found(self, probe: ProbeResult) -> None:
        """Add the sums of the exchanges that the log has now."""
        for exchange_id in probe.begun:
            self.begun.pop(exchange_id, None)
        for ended in probe.ended:
            if self.over.pop(ended.exchange_id, None) is not None:
                self.sums = Ended(
                    "", *(one + other for one, other in zip(self.sums[1:], ended[1:], strict=True))
                )

    def forget(self, settled_s: float) -> None:
        """Forget exchanges that will never be in the log: that time is ingested, so they were
        purged or refused.
        """
        for missing in (self.begun, self.over):
            while missing and next(iter(missing.values())) < settled_s:
                del missing[next(iter(missing))]


class MeteredWriter:
    """The writer of one exchange's records, of which it sees only the first and the last."""

    def __init__(self, inner: ExchangeWriter, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic
        self._head: RequestHead | None = None
        self.write: Write = self._write_first
        self.later = inner.later

    def _write_first(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        self.write = self._inner.write
        self._inner.write(mark, t_ns, payload)
        self._look(mark, payload)

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        self._inner.write_all(t_ns, records)
        self._look(*records[0])

    def _look(self, mark: Mark, payload: bytes) -> None:
        if mark is Mark.REQUEST:
            self._head = msgspec.json.decode(payload, type=RequestHead)
            self._traffic.begin(self._head)

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        self._inner.end(t_ns, payload, last)
        if self._head is not None:
            self._traffic.end(self._head, msgspec.json.decode(payload, type=ExchangeEnd).outcome)
