"""`recorder.journal.held_files`: who deletes the files of a journal does not get what is in them."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.errors import RecorderError
from recorder.journal import held_files, reader
from recorder.journal.format import Mark, Position, Record
from recorder.journal.held_files import Damage, damage_of
from recorder.journal.locks import try_lock
from recorder.journal.reader import (
    INGESTED,
    WRITER_LOCK,
    JournalReader,
    read_carried,
    segment_name,
    write_carried,
    write_ingested,
)
from recorder.journal.writer import Journal

Deed = Callable[[Path], object]


def of_segment(number: int, deed: Deed) -> Deed:
    return lambda directory: deed(directory / segment_name(number))


def replace(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"of another program")


def replace_folder(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.mkdir()
    (directory / segment_name(1)).write_bytes(b"of another program")


DEEDS: dict[str, Deed] = {
    "folder deleted": shutil.rmtree,
    "all folders deleted": lambda directory: shutil.rmtree(directory.parent),
    "folder moved": lambda directory: directory.rename(directory.with_name("elsewhere")),
    "folder replaced": replace_folder,
    "first segment deleted": of_segment(1, Path.unlink),
    "middle segment deleted": of_segment(2, Path.unlink),
    "last segment deleted": of_segment(4, Path.unlink),
    "segment replaced": of_segment(3, replace),
    "lock deleted": lambda directory: (directory / WRITER_LOCK).unlink(),
    "place deleted": lambda directory: (directory / INGESTED).unlink(),
}


def payloads(follower: JournalReader) -> list[bytes]:
    found: list[bytes] = []
    while records := follower.read(50):
        found += [record.payload for record in records]
    return found


def problem(journal: Journal) -> str | None:
    return journal.files.problem


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
@pytest.mark.parametrize("durable", [False, True])
def test_a_reader_gets_each_record_once_whatever_is_deleted(
    tmp_path: Path, deed: Deed, durable: bool
) -> None:
    journal = Journal(tmp_path / "journal", "r", segment_bytes=300, durable=durable)
    follower, exchange = JournalReader(journal.directory), journal.exchange()
    written = [b"%03d" % number * 20 for number in range(30)]
    for number, payload in enumerate(written[:15]):
        exchange.write(Mark.CHUNK, number, payload)
    seen = [record.payload for record in follower.read(50)]
    write_ingested(journal.directory, follower.position, follower.position)
    journal.look()
    deed(journal.directory)
    for number, payload in enumerate(written[15:20], 15):
        exchange.write(Mark.CHUNK, number, payload)
    seen += payloads(follower)
    journal.look()
    for number, payload in enumerate(written[20:], 20):
        exchange.write(Mark.CHUNK, number, payload)
    if durable:
        journal.sync()
    assert seen + payloads(follower) == written
    assert follower.damaged == []
    assert try_lock(journal.directory) is None, "it is that of a recorder that lives"
    assert (journal.files.problem, journal.files.damage) == (None, Damage(1, 0))
    assert damage_of(journal.directory) == Damage(1, 0), "for recorder doctor"
    journal.close()


def test_what_is_deleted_in_the_last_second_is_put_back_at_the_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    journal.exchange().write(Mark.CHUNK, 1, b"payload")
    shutil.rmtree(journal.directory)
    journal.close()
    assert payloads(JournalReader(journal.directory)) == [b"payload"]


def test_what_is_carried_over_is_put_back(tmp_path: Path) -> None:
    journal, place = Journal(tmp_path, "r"), Position(1, 8)
    write_carried(journal.directory, place, [Record(1, Mark.CHUNK, 1, b"early", place)])
    write_ingested(journal.directory, place, place)
    journal.look()
    shutil.rmtree(journal.directory)
    journal.look()
    assert [record.payload for record in read_carried(journal.directory, place)] == [b"early"]
    journal.close()


def test_what_the_ingester_deletes_stays_deleted(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", segment_bytes=100)
    exchange = journal.exchange()
    for number in range(10):
        exchange.write(Mark.CHUNK, number, b"x" * 90)
    open_before = len(os.listdir("/dev/fd"))
    write_ingested(journal.directory, Position(8, 50), Position(6, 0))
    for number in range(1, 6):
        (journal.directory / segment_name(number)).unlink()
    journal.look()
    assert reader.segment_numbers(journal.directory)[0] == 6
    assert journal.files.damage == Damage()
    assert len(os.listdir("/dev/fd")) == open_before - 5 + 1, (
        "their descriptors are closed, the place is held"
    )
    journal.close()


def test_no_more_descriptors_are_held_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_files, "HELD_LIMIT", 5)
    open_before = len(os.listdir("/dev/fd"))
    journal = Journal(tmp_path, "r", segment_bytes=10)
    for number in range(30):
        journal.exchange().write(Mark.CHUNK, number, b"payload")
    assert len(os.listdir("/dev/fd")) == open_before + 5 + 2, (
        "and the segment that is written, and the lock"
    )
    journal.close()
    assert len(os.listdir("/dev/fd")) == open_before


@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize(("number", "left"), [(1, 40), (2, 0)], ids=["finished", "being written"])
def test_what_is_cut_off_before_it_is_ingested_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, left: int, is_read: bool
) -> None:
    monkeypatch.setattr(reader, "PUT_BACK_S", 0.0)
    journal = Journal(tmp_path, "r", segment_bytes=100)
    exchange, follower = journal.exchange(), JournalReader(journal.directory)
    for payload in (b"x" * 90, b"y" * 10):
        exchange.write(Mark.CHUNK, 1, payload)
    if is_read:
        assert len(payloads(follower)) == 2
        write_ingested(journal.directory, follower.position, follower.position)
    path = journal.directory / segment_name(number)
    cut_bytes = path.stat().st_size - left
    os.truncate(path, left)
    journal.look()
    exchange.write(Mark.CHUNK, 3, b"z")
    assert payloads(follower)[-1] == b"z"
    assert journal.files.damage.lost_bytes == (0 if is_read else cut_bytes)
    assert len(follower.damaged) == (0 if is_read else 1)
    journal.close()


def test_a_folder_that_cannot_be_made_again_is_said_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path, "r")
    exchange = journal.exchange()
    exchange.write(Mark.CHUNK, 1, b"before")
    shutil.rmtree(journal.directory)
    journal.directory.write_bytes(b"a file is in the way")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            journal.look()
    assert len(caplog.records) == 1, "once"
    assert str(problem(journal)) in caplog.text
    exchange.write(Mark.CHUNK, 2, b"while it is away")
    journal.directory.unlink()
    journal.look()
    assert problem(journal) is None
    assert payloads(JournalReader(journal.directory)) == [b"before", b"while it is away"]
    journal.close()


def test_a_segment_that_does_not_come_back_is_a_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, "r", segment_bytes=100)
    exchange = journal.exchange()
    for number in range(6):
        exchange.write(Mark.CHUNK, number, b"%d" % number * 90)
    follower = JournalReader(journal.directory)
    assert len(follower.read(50)) == 1
    for number in (1, 2):
        (journal.directory / segment_name(number)).unlink()
    assert follower.read(50) == [], "its writer lives"
    assert follower.damaged == []
    monkeypatch.setattr(reader, "PUT_BACK_S", 0.0)
    assert payloads(follower)[0] == b"2" * 90
    assert follower.damaged == [f"The segments from 1 to 2 of {journal.directory} are lost."]
    journal.close()


def test_a_folder_that_another_process_took_is_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    shutil.rmtree(journal.directory)
    journal.directory.mkdir()
    taken = try_lock(journal.directory)
    assert taken is not None
    journal.look()
    assert "another process has locked it" in str(problem(journal))
    os.close(taken)
    journal.look()
    assert problem(journal) is None
    with pytest.raises(RecorderError):
        Journal(tmp_path, "r")
    journal.close()
