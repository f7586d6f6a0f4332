"""The figures of a recorder: how they are told, what is made of them, and the page that explains them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from sqlalchemy import URL

from recorder.commands.ops import health
from recorder.commands.serving.disk_watch import MARK_BYTES, watch_disk
from recorder.commands.serving.health_snapshot import LAG_S, RECENT_S, HealthSnapshot, Process, reasons
from recorder.commands.serving.meter import FRESH_S, Meter, MeteredWriter
from recorder.commands.serving.metrics import METRICS, Metric, exposition
from recorder.ingest.ingester import Ingester
from recorder.journal.format import HEADER, START, Mark, Position
from recorder.journal.reader import WRITER_LOCK, waiting, write_ingested
from recorder.journal.writer import Journal
from recorder.model.payloads import ExchangeEnd, RequestEnd, RequestHead, ResponseHead
from recorder.store.engine import engine_of
from recorder.store.write.writer import Store
from tests.integration.store.test_postgres import end_connections
from tests.support.corpus import ROOT
from tests.support.empty_log import empty

WELL = HealthSnapshot(ingester_pid=7, free_bytes=10 * MARK_BYTES)
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
_LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?\d+(?:\.\d+)?(?:e[+-]\d+)?)')


def parsed(text: str) -> dict[str, float]:
    """Each sample of an exposition; fails on a line that is neither one nor a comment."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(("# HELP ", "# TYPE ")):
            match = _LINE.fullmatch(line)
            assert match, line
            found[f"{match[1]}{{{match[2]}}}" if match[2] else match[1]] = float(match[3])
    return found


# -- the text


def test_the_text_is_what_prometheus_reads() -> None:
    full = msgspec.structs.replace(WELL, streams={"openai": 3}, exchanges={("openai", "eof"): 9}, size_bytes=2**53)
    samples = parsed(exposition(full).decode())
    assert samples['recorder_streams_open{upstream="openai"}'] == 3
    assert samples['recorder_exchanges_total{upstream="openai",outcome="eof"}'] == 9
    assert samples["recorder_response_bytes_total"] == 2**53
    assert samples["recorder_ingester_up"] == 1


def test_a_label_cannot_break_out_of_its_line() -> None:
    text = exposition(msgspec.structs.replace(WELL, streams={'a"} 1\n\\': 1})).decode()
    assert 'recorder_streams_open{upstream="a\\"} 1\\n\\\\"} 1\n' in text
    parsed(text)


def test_what_is_not_known_is_left_out() -> None:
    assert "recorder_disk_free_bytes" not in parsed(exposition(HealthSnapshot()).decode())


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_says_its_kind(metric: Metric) -> None:
    assert metric.name.startswith("recorder_")
    assert metric.name.endswith("_total") == (metric.type == "counter")


def test_operations_md_lists_what_is_served() -> None:
    listed = re.findall(r"^\| `(recorder_\w+)` \| (\w+) \| (.+) \|$", OPERATIONS, re.MULTILINE)
    assert listed == [(metric.name, metric.type, metric.help) for metric in METRICS]


def test_an_alert_watches_what_is_served() -> None:
    names = set(re.findall(r"recorder_\w+", "".join(re.findall(r"expr: (.+)", OPERATIONS))))
    assert names
    assert names <= {metric.name for metric in METRICS}


# -- health


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"ingester_pid": None}, "being started"),
        ({"ingester_pid": None, "ingester_end": "ended with code -9"}, "code -9"),
        ({"journal_is_full": True}, "at its bound"),
        ({"journal_problem": "Files are gone."}, "are gone"),
        ({"journal_since_s": 3.0, "journal_lost_bytes": 7_000}, "7,000 bytes are lost"),
        ({"lag_s": LAG_S + 1, "lag_bytes": 2**20}, "1.0 MiB have waited"),
        ({"database_error": "The database is damaged."}, "The database is damaged."),
        ({"free_bytes": MARK_BYTES - 1}, "127 MiB are free"),
    ],
)
def test_each_reason_is_one_sentence(change: dict[str, object], word: str) -> None:
    (sentence,) = reasons(msgspec.structs.replace(WELL, **change))
    assert word in sentence
    assert sentence.endswith(".")


def test_deleted_files_that_are_back_for_long_are_no_reason() -> None:
    assert reasons(msgspec.structs.replace(WELL, journal_times=1, journal_since_s=RECENT_S + 1)) == []


def test_a_recorder_that_is_well_has_no_reason() -> None:
    assert reasons(WELL) == []


def test_a_stopped_ingester_is_named_as_the_reason_of_the_lag() -> None:
    stopped = msgspec.structs.replace(WELL, lag_s=60.0, processes={"ingester": Process(0, 0, True)})
    assert "SIGCONT" in reasons(stopped)[0]


def test_doctor_and_health_draw_the_line_at_the_same_place() -> None:
    assert MARK_BYTES == health.EMPTY_BYTES


async def test_a_full_disk_is_said_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    free: Iterator[int] = iter([MARK_BYTES, *[MARK_BYTES - 1] * 5, *[MARK_BYTES] * 5])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError):  # when there is nothing more to look at
        await asyncio.wait_for(watch_disk(tmp_path, look_s=0), 5)
    assert [record.message[:12] for record in caplog.records] == ["Only 127 MiB", "There is roo"]


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
    os.utime(lock, (time.time() - 1_000, time.time() - 1_000))  # a recorder that has run for a while
    for age_s in (500, 400, 1):
        tape.write(Mark.CHUNK, now_ns - age_s * 10**9, b"x")
    assert 500 <= (waiting(exchanges.journal.directory).since_s or 0) < 600
    write_ingested(exchanges.journal.directory, Position(1, 8 + HEADER.size + 1), START)
    assert 400 <= (waiting(exchanges.journal.directory).since_s or 0) < 500


def test_a_record_that_says_it_is_older_than_its_journal_is_of_an_import(exchanges: Exchanges) -> None:
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
        beside = SimpleNamespace(pid=1, restarts=0, refusals=0, last_end=None)
        self._tapes = self.meter.attach(self.journal, beside)
        self._ingester: Ingester | None = None

    def pass_one(self, number: int, *chunks: bytes, ends: bool = True) -> None:
        tape = self._tapes.exchange()
        exchange_id, session_id = (f"0190b2c1-0000-7000-8000-{number * 2 + each:012d}" for each in (0, 1))
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
        self._ingester = self._ingester or Ingester(self.store, self.journal.directory, lambda _: False)
        self._ingester.drain()

    async def health(self) -> HealthSnapshot:
        """As of now."""
        await asyncio.sleep(0)
        self.meter._looked_s -= FRESH_S
        return await self.meter.health()

    def close(self) -> None:
        self.meter.close()
        for worker in (self.meter._thread, self.meter._probing._thread):
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


async def test_chunks_and_bytes_are_those_of_the_log_counted_once(exchanges: Exchanges) -> None:
    exchanges.pass_one(1, b"data: 1\n\n", b"data: 2\n\n")
    before = await exchanges.health()
    exchanges.ingest()
    after = [await exchanges.health() for _ in range(2)]
    assert (before.exchanges, before.chunks) == ({("openai", "eof"): 1}, 0)
    assert [(each.chunks, each.size_bytes, each.gap_chunks) for each in after] == [(2, 18, 0)] * 2
    assert after[-1].lag_s == 0


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


async def test_the_figures_of_a_server_are_those_of_a_file(on_server: Exchanges) -> None:
    on_server.pass_one(1, b"data: 1\n\n", b"data: 2\n\n")
    before = await on_server.health()
    on_server.ingest()
    after = [await on_server.health() for _ in range(2)]
    assert (before.exchanges, before.chunks) == ({("openai", "eof"): 1}, 0)
    assert before.lag_bytes > 0
    assert [(each.chunks, each.size_bytes, each.gap_chunks) for each in after] == [(2, 18, 0)] * 2
    assert (after[-1].lag_s, after[-1].lag_bytes, after[-1].database_error) == (0, 0, None)
    assert (after[-1].wal_bytes, (after[-1].database_bytes or 0) > 2**20) == (None, True)
    assert "recorder_wal_bytes" not in parsed(exposition(after[-1]).decode())


async def test_a_connection_that_was_ended_is_made_anew(on_server: Exchanges) -> None:
    await on_server.health()
    end_connections(on_server.store.url)
    again = await on_server.health()
    assert (again.database_error, again.database_errors) == (None, 0)


async def test_a_server_that_is_away_is_an_error_once_and_a_reason_as_long_as_it_lasts(
    on_server: Exchanges, tmp_path: Path
) -> None:
    url = on_server.store.url.set(query={"host": str(tmp_path)})
    on_server.meter._probing.probe = engine_of(url).log_probe(url)
    away = [await on_server.health() for _ in range(2)]
    assert [each.database_errors for each in away] == [1, 1]
    assert "cannot be reached" in " ".join(reasons(away[-1]))
