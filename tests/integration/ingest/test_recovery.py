"""Whatever a power cut took of a journal, nothing stays open, and what is missing is marked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from recorder.ingest.ingester import Ingester, recover
from recorder.journal.reader import segment_name, segment_numbers
from recorder.journal.writer import Journal
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import Exchange, never, stream
from tests.support.empty_log import empty
from tests.support.logbook import Entry, assert_chained, entries


def recorded(folder: Path, *, ingested: int) -> list[Exchange]:
    """Two exchanges, still open, and so many steps of an ingester; then the recorder is gone."""
    journal = Journal(folder / "journal", "recorder-1", segment_bytes=1_000)
    told = [Exchange(journal), Exchange(journal)]
    with Store(empty(folder / "recorder.db")) as store:
        ingester = Ingester(store, journal.directory, never)
        for number, chunks in enumerate(zip(stream(1), stream(2), strict=True)):
            for exchange, chunk in zip(told, chunks, strict=True):
                exchange.chunk(chunk)
            if number < ingested:
                ingester.step()
    journal.close()
    return told


def recovered(folder: Path) -> list[Entry]:
    with Store(folder / "recorder.db") as store:
        recover(store, folder / "journal", never)
    found = entries(folder / "recorder.db")
    assert_chained(found)
    assert list((folder / "journal").iterdir()) == []
    return found


def assert_marked(found: list[Entry], told: list[Exchange]) -> None:
    for entry, exchange in zip(found, told, strict=True):
        assert (entry.end["status"], entry.end["lossless"]) == ("recorder_crash", False)
        assert any(event.kind == "gap" for event in entry.events)
        assert exchange.received.startswith(entry.body)


def test_what_a_lost_journal_had_open_ends_where_the_log_has_it(tmp_path: Path) -> None:
    told = recorded(tmp_path, ingested=20)
    shutil.rmtree(tmp_path / "journal" / "recorder-1")
    found = recovered(tmp_path)
    assert_marked(found, told)
    assert all(entry.body for entry in found)
    assert recovered(tmp_path) == found


def test_what_a_journal_has_open_that_its_recorder_puts_back_is_not_ended(tmp_path: Path) -> None:
    recorded(tmp_path, ingested=20)
    directory = tmp_path / "journal" / "recorder-1"
    shutil.rmtree(directory)
    with Store(tmp_path / "recorder.db") as store:
        recover(store, directory.parent, never, but=directory)
        with store.transaction():
            assert list(
                store.ask(Statement("SELECT count(*) FROM events WHERE kind = 'end'"), {})
            ) == [(0,)]


def test_what_an_emptied_journal_had_open_ends_where_the_log_has_it(tmp_path: Path) -> None:
    told = recorded(tmp_path, ingested=20)
    for path in (tmp_path / "journal" / "recorder-1").glob("*.seg"):
        path.write_bytes(b"")
    assert_marked(recovered(tmp_path), told)


@pytest.mark.parametrize("left", [0, 8, 700])
def test_a_segment_that_lost_its_end_is_a_gap_even_if_the_next_is_whole(
    tmp_path: Path, left: int
) -> None:
    told = recorded(tmp_path, ingested=0)
    middle = tmp_path / "journal" / "recorder-1" / segment_name(4)
    middle.write_bytes(middle.read_bytes()[:left])
    for entry, exchange in zip(recovered(tmp_path), told, strict=True):
        assert not entry.end["lossless"]
        assert any(event.kind == "gap" for event in entry.events)
        assert entry.body != exchange.received


def test_a_segment_that_is_gone_is_a_gap(tmp_path: Path) -> None:
    recorded(tmp_path, ingested=0)
    (tmp_path / "journal" / "recorder-1" / segment_name(4)).unlink()
    for entry in recovered(tmp_path):
        assert any(event.kind == "gap" for event in entry.events)


def test_a_recorder_that_died_while_it_began_a_segment_is_recovered(tmp_path: Path) -> None:
    told = recorded(tmp_path, ingested=0)
    directory = tmp_path / "journal" / "recorder-1"
    last = segment_numbers(directory)[-1]
    (directory / segment_name(last + 1)).with_suffix(".partial").write_bytes(b"rec-")
    assert [entry.body for entry in recovered(tmp_path)] == [exchange.received for exchange in told]


def test_a_recorder_that_lives_keeps_what_it_has_open(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "recorder-1")
    exchange = Exchange(journal).chunk(b"data: 1\n\n")
    with Store(tmp_path / "recorder.db") as store:
        Ingester(store, journal.directory, never).step()
        assert recover(store, tmp_path / "journal", never) == 0
        exchange.end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    [entry] = entries(tmp_path / "recorder.db")
    assert entry.end["status"] == "incomplete"
