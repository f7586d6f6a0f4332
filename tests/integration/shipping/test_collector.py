"""Segments in a bucket come into the log as their journal would, in order, once."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorder.ingest.ingester import recover_one
from recorder.ingest.recovery import end_forsaken
from recorder.journal.format import MAGIC
from recorder.journal.writer import Journal
from recorder.shipping import collector
from recorder.shipping.bucket import Bucket, parse_prefix
from recorder.shipping.collection import FETCH_SEGMENTS
from recorder.shipping.collector import AGAIN_S, GONE_S, QUIET_S, TAKEN_BEHIND, Collector
from recorder.shipping.lease import LEASE_S
from recorder.shipping.segments import by_recorder
from recorder.shipping.shipper import Shipper, ship_rest
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import Exchange, never, stream
from tests.support.corpus import ROOT
from tests.support.empty_log import empty
from tests.support.logbook import assert_chained, entries
from tests.support.rows import projections

ID = "01990000-0000-7000-8000-000000000001"
OTHER = "01990000-0000-7000-8000-000000000002"
SEGMENTS = ROOT / "tests/data/segments"
ASKED = ["Say hello", "Say it again"]

# each commit sets the place of its recorder
COUNTED_PLACES = """
CREATE TABLE places (segment INTEGER);
CREATE TRIGGER first_place AFTER INSERT ON ingest_offsets
BEGIN INSERT INTO places VALUES (new.segment); END;
CREATE TRIGGER next_place AFTER UPDATE ON ingest_offsets
BEGIN INSERT INTO places VALUES (new.segment); END;
"""


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(parse_prefix(f"file:{tmp_path / 'bucket'}"), "collect")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "edge", ID, segment_bytes=800)
    yield journal
    journal.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(empty(tmp_path / "collected.db"), host="file://bucket") as store:
        yield store


class Collecting:
    """A collector whose clock is the test's."""

    def __init__(self, bucket: Bucket, store: Store, root: Path, **options: Any) -> None:
        self.now_s = 0.0
        self.collector = Collector(bucket, store, root, never, clock=lambda: self.now_s, **options)

    def drain(self) -> None:
        while self.collector.step():
            pass


@pytest.fixture
def collecting(bucket: Bucket, store: Store, tmp_path: Path) -> Collecting:
    return Collecting(bucket, store, tmp_path / "one")


def told(journal: Journal, *, ends: bool = True) -> list[Exchange]:
    """Four streams that take turns, over many segments."""
    exchanges = [Exchange(journal, b'{"model":"m"}') for _ in range(4)]
    for chunks in zip(*(stream(seed) for seed in range(4)), strict=True):
        for exchange, chunk in zip(exchanges, chunks, strict=True):
            exchange.chunk(chunk)
    for exchange in exchanges if ends else ():
        exchange.end()
    return exchanges


def ship(bucket: Bucket, journal: Journal) -> None:
    """All but the segment that is being written."""
    shipper = Shipper(bucket, journal.directory)
    while shipper.step():
        pass


def grow_old(folder: Path, age_s: float) -> None:
    """Let all that is in a bucket have been put there so long ago."""
    for path in folder.rglob("*.seg"):
        os.utime(path, (time.time() - age_s,) * 2)


def names(bucket: Bucket) -> set[str]:
    return {each.name for each in bucket.list()}


def test_what_an_edge_ships_is_in_the_log_as_what_a_recorder_ingests(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    told(journal)
    journal.close()
    shutil.copytree(journal.directory, tmp_path / "local" / ID)
    with Store(empty(tmp_path / "local.db")) as local:
        recover_one(local, tmp_path / "local" / ID, never)
    assert ship_rest(bucket, journal.directory)
    collecting.drain()
    found = entries(tmp_path / "collected.db")
    assert_chained(found)
    assert len(found) == 4
    assert found == entries(tmp_path / "local.db")
    assert projections(tmp_path / "collected.db") == projections(tmp_path / "local.db")
    assert names(bucket) == set()
    assert not journal.directory.exists()


def test_what_is_shipped_twice_is_once_in_the_bucket(
    bucket: Bucket, journal: Journal, tmp_path: Path
) -> None:
    told(journal)
    shutil.copytree(journal.directory, tmp_path / "again" / ID)
    ship(bucket, journal)
    before = [*bucket.list()]
    ship_rest(bucket, tmp_path / "again" / ID)
    again = by_recorder(bucket.list())[ID].segments
    assert {each.name for each in before} < names(bucket)
    assert len({each.number for each in again}) == len(again) == len(before) + 1


def test_a_second_collector_goes_on_where_one_died(
    bucket: Bucket, journal: Journal, collecting: Collecting, store: Store, tmp_path: Path
) -> None:
    """Its folder is lost, with the records of open exchanges that it had carried over."""
    exchanges = told(journal, ends=False)
    ship(bucket, journal)
    assert len(by_recorder(bucket.list())[ID].segments) > 16
    collecting.drain()
    assert by_recorder(bucket.list())[ID].carried
    shutil.rmtree(tmp_path / "one")
    for exchange in exchanges:
        exchange.end()
    journal.close()
    ship_rest(bucket, journal.directory)
    other = Collecting(bucket, store, tmp_path / "other")
    other.drain()
    other.now_s = LEASE_S + 1
    other.drain()
    found = entries(tmp_path / "collected.db")
    assert_chained(found)
    assert [entry.body for entry in found] == [exchange.received for exchange in exchanges]
    assert {entry.end["lossless"] for entry in found} == {True}
    assert names(bucket) == set()


def test_collected_segments_are_kept_where_that_is_asked_for_and_can_be_collected_again(
    bucket: Bucket, journal: Journal, store: Store, tmp_path: Path
) -> None:
    told(journal)
    journal.close()
    ship_rest(bucket, journal.directory)
    before = {each.name: bucket.get(each.name) for each in bucket.list()}
    kept = Bucket(parse_prefix(f"file:{tmp_path / 'kept'}"), "collect")
    Collecting(bucket, store, tmp_path / "one", keep=kept).drain()
    assert {each.name: kept.get(each.name) for each in kept.list()} == before
    with Store(empty(tmp_path / "again.db")) as again:
        Collecting(kept, again, tmp_path / "other").drain()
    assert entries(tmp_path / "again.db") == entries(tmp_path / "collected.db")


@pytest.mark.parametrize("version", ["1", "2"])
def test_segments_of_an_edge_of_an_earlier_version_are_taken(
    bucket: Bucket, collecting: Collecting, tmp_path: Path, version: str
) -> None:
    shutil.copytree(SEGMENTS / version, tmp_path / "edge")
    [directory] = (tmp_path / "edge").iterdir()
    assert ship_rest(bucket, directory)
    collecting.drain()
    found = entries(tmp_path / "collected.db")
    assert_chained(found)
    assert [json.loads(entry.request_body)["input"] for entry in found] == ASKED
    assert [entry.body.count(b"event: response.completed") for entry in found] == [1, 1]
    assert [entry.end["lossless"] for entry in found] == [True, True]


@pytest.mark.parametrize("damage", ["version", "checksum"])
def test_a_segment_that_cannot_be_taken_stays_and_keeps_no_other_recorder_waiting(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path, damage: str
) -> None:
    told(journal)
    first = journal.directory / "000001.seg"
    if damage == "version":
        first.write_bytes(MAGIC[:-1] + bytes([MAGIC[-1] + 1]) + first.read_bytes()[len(MAGIC) :])
    ship(bucket, journal)
    [name, *_] = sorted(names(bucket))
    if damage == "checksum":
        (tmp_path / "bucket" / name).write_bytes(b"rec")
    other = Journal(tmp_path / "edge", OTHER)
    told(other)
    other.close()
    ship_rest(bucket, other.directory)
    waiting = {each for each in names(bucket) if each.startswith(ID)}
    collecting.drain()
    assert len(entries(tmp_path / "collected.db")) == 4
    assert names(bucket) == waiting
    problem = collecting.collector.status.problems[ID]
    assert name in problem
    assert ("upgrade this collector" in problem) == (damage == "version")
    assert collecting.collector.status.lag_s > 0
    collecting.now_s += AGAIN_S + 1
    collecting.drain()
    assert names(bucket) == waiting


def test_a_recorder_that_still_runs_is_not_ended_by_one_on_the_same_file(
    bucket: Bucket, journal: Journal, collecting: Collecting, store: Store, tmp_path: Path
) -> None:
    told(journal, ends=False)
    ship(bucket, journal)
    collecting.drain()
    end_forsaken(store, tmp_path / "journals")
    assert [entry.end for entry in entries(tmp_path / "collected.db")] == [{}] * 4


def test_an_edge_is_sealed_when_its_shipper_has_caught_up(bucket: Bucket, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "edge", ID)
    Exchange(journal).chunk(b"data: 1\n\n")
    for _ in range(3):
        journal.seal()
    ship(bucket, journal)
    journal.seal()
    journal.close()
    assert [each.number for each in by_recorder(bucket.list())[ID].segments] == [1]


def test_a_lease_that_could_not_be_deleted_is_deleted_when_it_has_run_out(
    bucket: Bucket, collecting: Collecting
) -> None:
    bucket.put(f"{ID}/lease-000003", b"somebody")
    collecting.drain()
    assert names(bucket) == {f"{ID}/lease-000003"}
    collecting.now_s = LEASE_S + 1
    collecting.drain()
    assert names(bucket) == set()


def test_segments_of_open_streams_stay_until_these_are_carried_over(
    bucket: Bucket, collecting: Collecting, tmp_path: Path
) -> None:
    """Another collector has nothing but the bucket to feed them again."""
    with contextlib.closing(Journal(tmp_path / "edge", ID, segment_bytes=2000)) as journal:
        told(journal, ends=False)
        ship(bucket, journal)
    before = by_recorder(bucket.list())[ID].segments
    assert len(before) < 16
    collecting.drain()
    found = by_recorder(bucket.list())[ID]
    assert (found.segments, found.carried) == (before, [])


def test_segments_before_one_that_cannot_be_taken_are_taken(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    told(journal)
    ship(bucket, journal)
    fifth = by_recorder(bucket.list())[ID].segments[4].object.name
    (tmp_path / "bucket" / fifth).write_bytes(b"rec")
    collecting.drain()
    assert collecting.collector.status.segments == 4
    assert fifth in collecting.collector.status.problems[ID]


def test_a_recorder_of_which_nothing_comes_leaves_nothing_in_the_bucket_and_goes_on_later(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    told(journal)
    ship(bucket, journal)
    journal.seal()
    ship(bucket, journal)
    collecting.drain()
    assert names(bucket)
    collecting.now_s += QUIET_S + 1
    collecting.drain()
    assert names(bucket) == set()
    told(journal)
    journal.close()
    ship_rest(bucket, journal.directory)
    collecting.drain()
    found = entries(tmp_path / "collected.db")
    assert_chained(found)
    assert [entry.end["lossless"] for entry in found] == [True] * 8
    assert names(bucket) == set()


def test_nobody_asks_again_for_open_streams_of_which_nothing_comes(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    """A model that thinks costs no lease, and its stream goes on from its segments."""
    exchanges = told(journal, ends=False)
    ship(bucket, journal)
    collecting.drain()
    collecting.now_s += QUIET_S + 1
    collecting.drain()
    left = by_recorder(bucket.list())[ID]
    assert left.leases == []
    collecting.now_s += QUIET_S + 1
    collecting.drain()
    assert by_recorder(bucket.list())[ID] == left
    assert collecting.collector.status.waiting == 0
    for exchange in exchanges:
        exchange.end()
    journal.close()
    ship_rest(bucket, journal.directory)
    collecting.drain()
    assert [entry.end["lossless"] for entry in entries(tmp_path / "collected.db")] == [True] * 4


def test_streams_of_a_recorder_that_never_comes_back_end_as_after_a_crash(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    """If it comes back after all, what it brings of them is counted and not lost in silence."""
    exchanges = told(journal, ends=False)
    ship(bucket, journal)
    collecting.drain()
    collecting.now_s += QUIET_S + 1
    collecting.drain()
    assert [entry.end for entry in entries(tmp_path / "collected.db")] == [{}] * 4
    grow_old(tmp_path / "bucket", GONE_S + 1)
    collecting.drain()
    collecting.now_s += QUIET_S + 1
    collecting.drain()
    ended = entries(tmp_path / "collected.db")
    assert_chained(ended)
    assert [entry.end["outcome"] for entry in ended] == ["recorder_crash"] * 4
    assert by_recorder(bucket.list())[ID].leases == []
    for exchange in exchanges:
        exchange.chunk(b"data: late\n\n")
        exchange.end()
    journal.close()
    ship_rest(bucket, journal.directory)
    collecting.drain()
    found = entries(tmp_path / "collected.db")
    assert [entry.events[-1].kind for entry in found] == ["note"] * 4
    assert names(bucket) == set()


def test_an_edge_with_a_folder_of_its_own_is_collected_with_the_others(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    told(journal)
    journal.close()
    ship_rest(Bucket(parse_prefix(f"{bucket.url}/laptop-7"), "collect"), journal.directory)
    collecting.drain()
    assert [entry.end["lossless"] for entry in entries(tmp_path / "collected.db")] == [True] * 4
    assert names(bucket) == set()


def test_who_ships_as_another_edge_is_named_and_not_taken(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    exchanges = told(journal)
    shutil.copytree(journal.directory, tmp_path / "thief" / ID)
    ship(bucket, journal)
    collecting.drain()
    ship_rest(Bucket(parse_prefix(f"{bucket.url}/thief"), "collect"), tmp_path / "thief" / ID)
    before = {each for each in names(bucket) if each.startswith("thief")}
    collecting.drain()
    assert list(collecting.collector.status.problems) == [f"thief/{ID}"]
    journal.close()
    ship_rest(bucket, journal.directory)
    collecting.collector.step()
    found = entries(tmp_path / "collected.db")
    assert [entry.body for entry in found] == [exchange.received for exchange in exchanges]
    assert names(bucket) == before


def test_objects_of_other_programs_stay(bucket: Bucket, collecting: Collecting) -> None:
    others = {"end", "backup/end", "backup/lease-000001", "logs/2026/app.log"}
    for name in others:
        bucket.put(name, b"of another program")
    collecting.drain()
    collecting.now_s += LEASE_S + 1
    collecting.drain()
    assert names(bucket) == others


def test_a_problem_ends_when_its_segment_is_taken_away(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    told(journal)
    ship(bucket, journal)
    [first, *rest] = sorted(names(bucket))
    (tmp_path / "bucket" / first).write_bytes(b"rec")
    collecting.drain()
    assert list(collecting.collector.status.problems) == [ID]
    bucket.delete([first, *rest])
    collecting.drain()
    assert collecting.collector.status.problems == {}


def test_a_folder_that_cannot_be_written_is_named_and_its_segments_wait(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    """A full disk is another error of the same call."""
    told(journal)
    ship(bucket, journal)
    before = names(bucket)
    (tmp_path / "one").write_bytes(b"")
    collecting.drain()
    assert "Make room on this machine." in collecting.collector.status.problems[ID]
    assert names(bucket) == before
    (tmp_path / "one").unlink()
    collecting.now_s += AGAIN_S + 1
    collecting.drain()
    assert collecting.collector.status.problems == {}


def test_a_clock_that_jumps_ends_no_stream(
    bucket: Bucket,
    journal: Journal,
    collecting: Collecting,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told(journal, ends=False)
    ship(bucket, journal)
    collecting.drain()
    ahead_s = time.time() + 2 * GONE_S
    monkeypatch.setattr(time, "time", lambda: ahead_s)
    for _ in range(3):
        collecting.now_s += QUIET_S + 1
        collecting.drain()
    assert [entry.end for entry in entries(tmp_path / "collected.db")] == [{}] * 4


def test_short_segments_share_a_commit(
    bucket: Bucket, journal: Journal, collecting: Collecting, tmp_path: Path
) -> None:
    """Of a journal that waited: a commit costs as much as hundreds of events."""
    told(journal)
    ship(bucket, journal)
    waited = len(by_recorder(bucket.list())[ID].segments)
    with contextlib.closing(sqlite3.connect(tmp_path / "collected.db")) as counting:
        counting.executescript(COUNTED_PLACES)
        collecting.collector.step()
        [places] = counting.execute("SELECT count(*) FROM places").fetchone()
    assert collecting.collector.status.segments == waited > FETCH_SEGMENTS
    assert places == math.ceil(waited / FETCH_SEGMENTS)


def test_a_collector_into_another_log_says_that_the_beginning_is_elsewhere(
    bucket: Bucket,
    journal: Journal,
    collecting: Collecting,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told(journal)
    ship(bucket, journal)
    collecting.drain()
    collecting.now_s += QUIET_S + 1
    collecting.drain()
    told(journal)
    ship(bucket, journal)
    assert caplog.messages == []
    with Store(empty(tmp_path / "other.db")) as other:
        Collecting(bucket, other, tmp_path / "other").drain()
    assert "a prefix is for one log" in caplog.text


def test_a_store_that_takes_long_for_a_list_is_named(
    bucket: Bucket, collecting: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    collecting.drain()
    assert collecting.collector.status.problems == {}
    monkeypatch.setattr(collector, "SLOW_LIST_S", 0.0)
    collecting.drain()
    assert "takes seconds for a list" in collecting.collector.status.problems[bucket.url]


def test_a_collector_that_is_behind_leaves_most_recorders_to_others(
    bucket: Bucket, collecting: Collecting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "LIST_AGAIN_S", -1.0)  # no look is long enough
    for count in (1, 5):
        for number in range(count):
            id = f"0199{count:04d}-0000-7000-8000-{number:012d}"
            with contextlib.closing(Journal(tmp_path / "edge", id)) as journal:
                told(journal, ends=False)
                journal.seal()
                ship(bucket, journal)
        collecting.collector.step()
    assert collecting.collector.status.recorders == 1 + TAKEN_BEHIND
