"""The figures of a recorder: what is read of its journal and its log, in a file and on a server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.commands.serving.health_snapshot import HealthSnapshot, exposition, reasons
from recorder.commands.serving.meter import FRESH_S, Meter, MeteredWriter, Probing
from recorder.ingest.ingester import Ingester
from recorder.journal.format import HEADER, START, Mark, Position
from recorder.journal.reader import WRITER_LOCK, waiting, write_ingested
from recorder.journal.writer import Journal
from recorder.model.events import ExchangeEnd, RequestEnd, RequestHead, ResponseHead
from recorder.store.engine import address_of
from recorder.store.maintain.upkeep import upkeep_of
from recorder.store.write.writer import Store
from tests.integration.store.test_postgres import end_connections
from tests.support.empty_log import empty

# -- how far the log is behind


def test_a_journal_of_which_all_is_ingested_has_no_lag(exchanges: Exchanges) -> None:
    empty = waiting(exchanges.journal.directory)
    exchanges.pass_one(1, b"data: 1\n\n", ends=False)
    held = waiting(exchanges.journal.directory)
    exchanges.ingest()
    told = waiting(exchanges.journal.directory)
    assert (empty.size_bytes, empty.since_s) == (0, None)
    assert held.size_bytes > 9
    assert held.since_s is not None
    assert (told.size_bytes, told.since_s, told.end) == (0, None, held.end)


def test_the_lag_is_the_age_of_the_oldest_record_that_waits(exchanges: Exchanges) -> None:
    tape, now_ns = exchanges.journal.exchange(), time.monotonic_ns()
    lock = exchanges.journal.directory / WRITER_LOCK
    # a recorder that has run for a while
    os.utime(lock, (time.time() - 1_000, time.time() - 1_000))
    for age_s in (500, 400, 1):
        tape.write(Mark.CHUNK, now_ns - age_s * 10**9, b"x")
    assert 500 <= (waiting(exchanges.journal.directory).since_s or 0) < 600
    write_ingested(exchanges.journal.directory, Position(1, 8 + HEADER.size + 1), START)
    assert 400 <= (waiting(exchanges.journal.directory).since_s or 0) < 500


def test_a_record_that_says_it_is_older_than_its_journal_is_of_an_import(
    exchanges: Exchanges,
) -> None:
    exchanges.journal.exchange().write(Mark.CHUNK, 1, b"x")
    assert (waiting(exchanges.journal.directory).since_s or 0) < 60


def test_what_waits_in_later_segments_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", segment_bytes=1_000)
    for _ in range(5):
        journal.exchange().write(Mark.CHUNK, 1, b"x" * 1_000)
    journal.close()
    assert waiting(journal.directory).size_bytes == 5 * (1_000 + HEADER.size)
    write_ingested(journal.directory, Position(3, 37), START)
    assert waiting(journal.directory).size_bytes == 3 * (1_000 + HEADER.size)


# -- the meter of a journal


class Exchanges:
    """A journal with a meter, an ingester that works when told to, and a database."""

    def __init__(self, folder: Path, limit_bytes: int = 2**20, database: URL | None = None) -> None:
        self.path = folder / "log.db"
        self.store = Store(database or empty(self.path))
        self.journal = Journal(folder / "journal", "recorder", limit_bytes=limit_bytes)
        self.meter = Meter(self.store.url)
        beside: Any = SimpleNamespace(
            name="ingester", goal="the log", pid=1, restarts=0, refusals=0, last_end=None
        )
        self._tapes = self.meter.attach(self.journal, beside)
        self._ingester: Ingester | None = None

    def pass_one(self, number: int, *chunks: bytes, ends: bool = True) -> None:
        tape = self._tapes.exchange()
        exchange_id, session_id = (
            f"0190b2c1-0000-7000-8000-{number * 2 + each:012d}" for each in (0, 1)
        )
        head = RequestHead(exchange_id, session_id, 10**18, "POST", "/v1/responses", "openai", [])
        for mark, payload in (
            (Mark.REQUEST, msgspec.json.encode(head)),
            (Mark.REQUEST_END, msgspec.json.encode(RequestEnd(True))),
            (Mark.RESPONSE, msgspec.json.encode(ResponseHead(200, "OK", []))),
            *((Mark.CHUNK, chunk) for chunk in chunks),
        ):
            tape.write(mark, number, payload)
        if ends:
            tape.end(number, msgspec.json.encode(ExchangeEnd("eof")))

    def ingest(self) -> None:
        self._ingester = self._ingester or Ingester(
            self.store, self.journal.directory, lambda _: False
        )
        self._ingester.drain()

    async def health(self) -> HealthSnapshot:
        """As of now."""
        await asyncio.sleep(0)
        self.meter._looked_s -= FRESH_S
        return await self.meter.health()

    @property
    def probing(self) -> Probing:
        assert self.meter._probing is not None
        return self.meter._probing

    def close(self) -> None:
        self.meter.close()
        for worker in (self.meter._thread, self.probing._thread):
            worker.thread.join()
        self.store.close()
        self.journal.close()


@pytest.fixture
def exchanges(tmp_path: Path) -> Iterator[Exchanges]:
    exchanges = Exchanges(tmp_path)
    yield exchanges
    exchanges.close()


def test_a_chunk_goes_to_the_journal_itself(exchanges: Exchanges) -> None:
    """Nothing of ours is called for it, only for the first record and the last."""
    inner = exchanges.journal.exchange()
    tape = MeteredWriter(inner, exchanges.meter.traffic)
    tape.write(Mark.REQUEST_END, 0, b"{}")
    assert tape.write == inner.write


async def test_chunks_and_bytes_are_those_of_the_log_counted_once(
    tmp_path: Path, database: URL
) -> None:
    exchanges = Exchanges(tmp_path, database=database)
    exchanges.pass_one(1, b"data: 1\n\n", b"data: 2\n\n")
    before = await exchanges.health()
    exchanges.ingest()
    after = [await exchanges.health() for _ in range(2)]
    exchanges.close()
    assert (before.exchanges, before.chunks, before.lag_bytes > 0) == (
        {("openai", "eof"): 1},
        0,
        True,
    )
    assert [(each.chunks, each.size_bytes, each.gap_chunks) for each in after] == [(2, 18, 0)] * 2
    assert (after[-1].lag_s, after[-1].lag_bytes, after[-1].database_error) == (0, 0, None)
    assert (after[-1].database_bytes or 0) > 0
    is_local = address_of(database).is_local
    assert (after[-1].wal_bytes is not None) == is_local
    assert (b"\nrecorder_wal_bytes " in exposition(after[-1])) == is_local


async def test_a_journal_at_its_bound_is_seen_and_its_gap_counted(tmp_path: Path) -> None:
    exchanges = Exchanges(tmp_path, limit_bytes=8 * 2**10)
    for number in range(3):
        exchanges.pass_one(number, *[b"x" * 1000] * 6)
    full = await exchanges.health()
    exchanges.ingest()
    await asyncio.sleep(0.11)  # how often a journal at its bound looks
    freed = await exchanges.health()
    assert (full.journal_is_full, freed.journal_is_full) == (True, False)
    assert freed.gap_bytes == freed.gap_chunks * 1000 > 0
    assert freed.size_bytes == 3 * 6 * 1000, "a gap is part of what passed"
    exchanges.close()


async def test_what_never_comes_into_the_log_is_forgotten(exchanges: Exchanges) -> None:
    exchanges.pass_one(1, b"data: 1\n\n")
    exchanges.ingest()
    exchanges.meter.traffic.over["0190b2c1-0000-7000-8000-999999999999"] = 1.0  # as if purged
    await exchanges.health()
    assert not exchanges.meter.traffic.over


async def test_a_database_that_cannot_be_read_is_an_error_once_and_a_reason_as_long_as_it_lasts(
    exchanges: Exchanges,
) -> None:
    moved = exchanges.path.rename(exchanges.path.with_suffix(".moved"))
    gone = [await exchanges.health() for _ in range(2)]
    moved.rename(exchanges.path)
    back = await exchanges.health()
    assert [each.database_errors for each in (*gone, back)] == [1, 1, 1]
    assert "cannot be opened" in str(gone[-1].database_error)
    assert back.database_error is None


async def test_a_look_is_not_repeated_however_often_it_is_asked_for(exchanges: Exchanges) -> None:
    first = await exchanges.health()
    exchanges.pass_one(1, b"data: 1\n\n")
    exchanges.ingest()
    again = await exchanges.meter.health()
    assert (again.chunks, again.journal_bytes) == (0, first.journal_bytes)
    assert again.exchanges == {("openai", "eof"): 1}, "what is at hand is as it is now"


@pytest.mark.long
async def test_a_stream_that_is_silent_is_no_lag(tmp_path: Path, database: URL) -> None:
    """Its place stays where it began."""
    exchanges = Exchanges(tmp_path, database=database)
    exchanges.pass_one(1, b"data: 1\n\n", ends=False)
    before = await exchanges.health()
    exchanges.ingest()
    after = await exchanges.health()
    exchanges.close()
    assert (before.lag_s > 0, before.lag_bytes > 0) == (True, True)
    assert (after.lag_s, after.lag_bytes) == (0, 0)


# -- a log on a server


@pytest.fixture
def on_server(tmp_path: Path, postgres_database: URL) -> Iterator[Exchanges]:
    exchanges = Exchanges(tmp_path, database=postgres_database)
    yield exchanges
    exchanges.close()


async def test_a_connection_that_was_ended_is_made_anew(on_server: Exchanges) -> None:
    await on_server.health()
    end_connections(on_server.store.url)
    again = await on_server.health()
    assert (again.database_error, again.database_errors) == (None, 0)


async def test_a_server_that_is_away_is_an_error_once_and_a_reason_as_long_as_it_lasts(
    on_server: Exchanges, tmp_path: Path
) -> None:
    url = on_server.store.url.set(query={"host": str(tmp_path)})
    on_server.probing.probe = upkeep_of(url).log_probe(url)
    away = [await on_server.health() for _ in range(2)]
    assert [each.database_errors for each in away] == [1, 1]
    assert "cannot be reached" in " ".join(reasons(away[-1]))
