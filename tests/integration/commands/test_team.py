"""Several recorders on one PostgreSQL and in one session: nobody waits for another, and nothing is
there twice.
"""

from __future__ import annotations

import logging
import random
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support.logbook import asking, assert_chained, entries

WAIT_S = 0.05  # for a lock, at most: who waits longer is refused
EXCHANGES, RESULTS = 12, 8
NAMED: dict[str, Any] = {"session": "team", "session_source": "path"}


def conversation(dice: random.Random, count: int = 6) -> bytes:
    """A request that carries results of tools which the others carry, too, in an order of its own."""
    results = [
        {"type": "function_call_output", "call_id": f"call_{n}", "output": "done"}
        for n in range(RESULTS)
    ]
    return msgspec.json.encode({"model": "m", "input": dice.sample(results, count)})


class Recorder(threading.Thread):
    """Records streams that overlap, and commits after each of their steps."""

    def __init__(self, url: URL, folder: Path, number: int, together: threading.Barrier) -> None:
        super().__init__()
        self._url, self._together, self._dice = url, together, random.Random(number)
        self._journal = Journal(folder, f"{folder.name}-{number}")
        self.told: dict[str, bytes] = {}
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with Store(self._url, busy_timeout_s=WAIT_S) as store:
                ingester = Ingester(store, self._journal.directory, never)
                self._together.wait()
                self._record(ingester)
        except Exception as failure:
            self.failure = failure
        finally:
            self._journal.close()

    def _record(self, ingester: Ingester) -> None:
        open_ = list[Exchange]()
        for _ in range(EXCHANGES):
            open_.append(
                Exchange(self._journal, conversation(self._dice), **NAMED).chunk(b"data: {}\n\n")
            )
            ingester.drain()
            if len(open_) > 3:
                self._end(open_.pop(0))
        while open_:
            self._end(open_.pop())
            ingester.drain()

    def _end(self, exchange: Exchange) -> None:
        exchange.chunk(COMPLETED).end()
        self.told[exchange.id] = exchange.received


def record(url: URL, folder: Path, recorders: int) -> dict[str, bytes]:
    """Record at once; returns what each exchange received."""
    together = threading.Barrier(recorders)
    made = [Recorder(url, folder, number, together) for number in range(recorders)]
    for recorder in made:
        recorder.start()
    for recorder in made:
        recorder.join()
    assert [recorder.failure for recorder in made] == [None] * recorders
    return {id: body for recorder in made for id, body in recorder.told.items()}


def test_recorders_of_one_session_wait_for_no_lock(
    postgres_database: URL, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(postgres_database) as store:
        first = Journal(tmp_path, "first")
        Exchange(first, conversation(random.Random(0), RESULTS), **NAMED).chunk(COMPLETED).end()
        Ingester(store, first.directory, never).drain()
        first.close()
    with caplog.at_level(logging.WARNING):
        told = record(postgres_database, tmp_path, 2)
    assert [record.message for record in caplog.records] == [], "a commit that is refused is said"
    found = [entry for entry in entries(postgres_database) if entry.exchange.recorder_id != "first"]
    assert_chained(found)
    assert {entry.exchange.exchange_id: entry.body for entry in found} == told
    with asking(postgres_database) as ask:
        assert ask("SELECT name, count(*) FROM sessions GROUP BY name") == [("team", 1)]
        assert ask("SELECT count(*) FROM dead_letters") == [(0,)]


def test_a_name_that_two_begin_at_the_same_moment_may_be_two_sessions_and_no_more(
    postgres_database: URL, tmp_path: Path
) -> None:
    """Nobody waits to see whether another begins it just now.

    Whoever comes later joins the newest.
    """
    record(postgres_database, tmp_path, 3)
    with asking(postgres_database) as ask:
        [(before,)] = ask("SELECT count(*) FROM sessions WHERE name = 'team'")
    assert 1 <= before <= 3
    record(postgres_database, tmp_path / "later", 2)
    with asking(postgres_database) as ask:
        assert ask("SELECT count(*) FROM sessions WHERE name = 'team'") == [(before,)]
        newest = (
            "(SELECT session_id FROM sessions ORDER BY created_ns DESC, session_id DESC LIMIT 1)"
        )
        of_it = f"SELECT count(*) FROM exchanges WHERE left(recorder_id, 5) = 'later' AND session_id = {newest}"
        assert ask(of_it) == [(2 * EXCHANGES,)]
