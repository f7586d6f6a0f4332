"""`recorder.journal.writer`, `recorder.journal.reader`: what was written is read back, whatever
happened in between.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.errors import RecorderError
from recorder.journal.format import HEADER, MAGIC, Gap, Mark, Position, Record, encode, parse
from recorder.journal.locks import try_lock
from recorder.journal.reader import (
    INGESTED,
    INGESTER_LOCK,
    WRITER_LOCK,
    JournalReader,
    segment_name,
    segment_numbers,
    write_ingested,
)
from recorder.journal.writer import TOGETHER, TURN_NS, ExchangeWriter, Journal
from tests.support.tables import table

Told = tuple[int, int, int, bytes]


def read_all(directory: Path, *, limit_bytes: int = 1 << 20, dead: bool = True) -> list[Told]:
    reader = JournalReader(directory)
    found: list[Told] = []
    while records := reader.read(limit_bytes, writer_is_dead=dead):
        found += [(record.exchange, record.mark, record.t_ns, record.payload) for record in records]
    return found


class Disk:
    """A disk that refuses some writes: a real `writev` behind a switch."""

    def __init__(self) -> None:
        self.room: int | None = None  # bytes that still fit; None is not a bound

    def writev(self, fd: int, buffers: list[bytes]) -> int:
        if self.room is None:
            return os.writev(fd, buffers)
        data = b"".join(buffers)[: self.room]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return os.write(fd, data)


def gaps(told: list[Told]) -> list[Gap]:
    return [
        msgspec.json.decode(payload, type=Gap) for _, mark, _, payload in told if mark == Mark.GAP
    ]


def test_records_come_back_in_order_across_segments(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", segment_bytes=1000)
    exchanges = [journal.exchange() for _ in range(3)]
    expected: list[Told] = []
    for t_ns in range(200):
        exchange = exchanges[t_ns % 3]
        payload = bytes([t_ns]) * t_ns
        exchange.write(Mark.CHUNK, t_ns, payload)
        expected.append((exchange.number, Mark.CHUNK, t_ns, payload))
    journal.close()
    assert len(segment_numbers(tmp_path / "r")) > 10
    assert read_all(tmp_path / "r") == expected
    assert read_all(tmp_path / "r", limit_bytes=50) == expected, (
        "a record longer than the limit is read whole"
    )


def test_a_reader_follows_a_writer_and_resumes_where_it_stood(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", segment_bytes=300)
    exchange = journal.exchange()
    reader = JournalReader(tmp_path / "r")
    seen: list[bytes] = []
    for number in range(50):
        exchange.write(Mark.CHUNK, number, b"%d" % number * 10)
        seen += [record.payload for record in reader.read(1 << 20)]
        reader = JournalReader(tmp_path / "r", reader.position)
    assert seen == [b"%d" % number * 10 for number in range(50)]
    journal.close()


def test_a_torn_tail_is_dropped_and_said(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    exchange = journal.exchange()
    exchange.write(Mark.CHUNK, 1, b"whole")
    exchange.write(Mark.CHUNK, 2, b"torn")
    journal.close()
    path = tmp_path / "r" / segment_name(1)
    whole = path.read_bytes()
    for cut in range(1, HEADER.size + len(b"torn")):
        path.write_bytes(whole[:-cut])
        reader = JournalReader(tmp_path / "r")
        assert [record.payload for record in reader.read(1 << 20, writer_is_dead=True)] == [
            b"whole"
        ]
        assert reader.read(1 << 20, writer_is_dead=True) == []
        assert "torn off" in reader.torn[0]


def test_the_tail_of_a_live_segment_is_waited_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    journal.exchange().write(Mark.CHUNK, 1, b"payload")
    path = tmp_path / "r" / segment_name(1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    reader = JournalReader(tmp_path / "r")
    assert reader.read(1 << 20) == []
    assert reader.torn == []
    path.write_bytes(whole)
    assert [record.payload for record in reader.read(1 << 20)] == [b"payload"]
    journal.close()


@given(st.binary(min_size=1, max_size=40), st.data())
def test_any_damage_ends_the_reading_before_it(payload: bytes, data: st.DataObject) -> None:
    told = [Record(1, Mark.CHUNK, t_ns, payload, Position(1, 0)) for t_ns in range(4)]
    segment = b"".join(encode(told))
    at = data.draw(st.integers(len(MAGIC), len(segment) - 1))
    damaged = bytearray(segment)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    sound = (at - len(MAGIC)) // (HEADER.size + len(payload))
    found = list(parse(bytes(damaged[len(MAGIC) :]), Position(1, len(MAGIC))))
    assert [record.t_ns for record in found] == list(range(sound))


def test_a_chunk_over_the_bound_becomes_one_counted_gap(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", limit_bytes=2000)
    exchange = journal.exchange()
    chunks = [bytes([number]) * 100 for number in range(40)]
    for number, chunk in enumerate(chunks):
        exchange.write(Mark.CHUNK, number, chunk)
    exchange.end(99, b"{}")
    journal.close()
    told = read_all(tmp_path / "r")
    kept = [payload for _, mark, _, payload in told if mark == Mark.CHUNK]
    assert kept == chunks[: len(kept)]
    assert 0 < len(kept) < 40
    [gap] = gaps(told)
    lost = chunks[len(kept) :]
    assert (gap.chunks, gap.size_bytes) == (len(lost), 100 * len(lost))
    assert gap.sha256 == sha256(b"".join(lost)).hexdigest()
    assert (gap.from_ns, gap.to_ns) == (len(kept), 39)
    assert told[-1][1] == Mark.END


class Sparse:
    """A disk of any size that stores nothing: files get longer, and have holes for bytes."""

    def __init__(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes

    def writev(self, fd: int, buffers: list[bytes]) -> int:
        size = sum(map(len, buffers))
        os.ftruncate(fd, os.fstat(fd).st_size + size)
        self._free_bytes -= size
        return size

    def statvfs(self, path: object) -> os.statvfs_result:
        pages = self._free_bytes // 4096
        return os.statvfs_result((4096, 4096, 10 * pages, pages, pages, 100, 100, 100, 0, 255))


@pytest.mark.parametrize(
    ("free_bytes", "bound_bytes"),
    [(2**40, 2**30), (100 * 2**20, 10 * 2**20)],
    ids=["a gigabyte of a large disk", "a tenth of a small one"],
)
def test_a_journal_takes_a_gigabyte_or_a_tenth_of_the_free_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, bound_bytes: int
) -> None:
    """The rest is counted.

    Not more than a segment stands over the bound: only whole ones can be deleted.
    """
    disk = Sparse(free_bytes)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    journal = Journal(tmp_path, "r", writev=disk.writev)
    exchange, chunk = journal.exchange(), bytes(2**20)
    for number in range(bound_bytes * 5 // 4 // len(chunk)):
        exchange.write(Mark.CHUNK, number, chunk)
    is_full, directory = journal.full, journal.directory
    journal.close()
    taken = sum(path.stat().st_size for path in directory.iterdir())
    assert is_full
    assert 0.9 * bound_bytes < taken < 1.1 * bound_bytes, f"{taken:,} bytes"


def test_chunks_of_two_directions_that_take_turns_are_one_gap_each(tmp_path: Path) -> None:
    disk = Disk()
    journal = Journal(tmp_path, "r", writev=disk.writev)
    exchange = journal.exchange()
    disk.room = 0
    for t_ns in range(1_000):
        exchange.write(Mark.CLIENT_CHUNK if t_ns % 2 else Mark.CHUNK, t_ns, b"lost")
    assert len(exchange.owed) == 2
    disk.room = None
    exchange.write(Mark.CLIENT_CHUNK, 1_000, b"kept")
    journal.close()
    told = read_all(tmp_path / "r")
    expected = [(Mark.CHUNK, 500, 0, 998), (Mark.CLIENT_CHUNK, 500, 1, 999)]
    assert [(gap.mark, gap.chunks, gap.from_ns, gap.to_ns) for gap in gaps(told)] == expected
    assert told[-1][1:] == (Mark.CLIENT_CHUNK, 1_000, b"kept")


def test_a_journal_of_version_1_is_still_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    journal.exchange().write(Mark.CHUNK, 1, b"old")
    journal.close()
    segment = tmp_path / "r" / segment_name(1)
    data = segment.read_bytes()
    assert data[:8] == b"rec-jnl\x02"
    segment.write_bytes(b"rec-jnl\x01" + data[8:])
    assert [told[3] for told in read_all(tmp_path / "r")] == [b"old"]
    segment.write_bytes(b"rec-jnl\x03" + data[8:])
    with pytest.raises(RecorderError, match="is not a journal segment of this version of recorder"):
        read_all(tmp_path / "r")


def test_recording_goes_on_after_the_gap_when_segments_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.journal.writer.REMEASURE_NS", 0)
    journal = Journal(tmp_path, "r", limit_bytes=2000, segment_bytes=500)
    exchange = journal.exchange()
    for number in range(30):
        exchange.write(Mark.CHUNK, number, b"x" * 100)
    before = read_all(tmp_path / "r")
    for segment in segment_numbers(tmp_path / "r")[:-1]:
        (tmp_path / "r" / segment_name(segment)).unlink()
    exchange.write(Mark.CHUNK, 30, b"again")
    journal.close()
    after = read_all(tmp_path / "r")
    assert len([told for told in before if told[1] == Mark.CHUNK]) + gaps(after)[0].chunks == 30
    assert after[-1] == (exchange.number, Mark.CHUNK, 30, b"again")


@table("room", [0, 1, 10, 30, 100])
def test_a_failing_write_never_raises_and_leaves_no_torn_record(tmp_path: Path, room: int) -> None:
    disk = Disk()
    journal = Journal(tmp_path, f"{room}", writev=disk.writev)
    exchange = journal.exchange()
    exchange.write(Mark.REQUEST, 0, b"{}")
    disk.room = room
    for t_ns in range(5):
        exchange.write(Mark.CHUNK, t_ns, b"lost" * 30)
    disk.room = None
    exchange.write(Mark.CHUNK, 5, b"kept")
    exchange.end(6, b"{}")
    journal.close()
    told = read_all(tmp_path / f"{room}")
    assert [mark for _, mark, _, _ in told] == [Mark.REQUEST, Mark.GAP, Mark.CHUNK, Mark.END]
    assert (gaps(told)[0].chunks, gaps(told)[0].reason) == (5, os.strerror(errno.ENOSPC))


class Taken:
    """Where chunks are handed on to, and what was in the journal then."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.chunks: list[bytes] = []
        self.journaled: list[list[bytes]] = []

    def __call__(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.journaled.append(
            [payload for _, mark, _, payload in read_all(self._directory) if mark == Mark.CHUNK]
        )


def test_chunks_of_one_turn_are_one_write_and_are_handed_on_after_it(tmp_path: Path) -> None:
    writes: list[int] = []

    def writev(fd: int, buffers: list[bytes]) -> int:
        writes.append(len(buffers))
        return os.writev(fd, buffers)

    journal = Journal(tmp_path, "r", writev=writev)
    exchanges = [journal.exchange() for _ in range(3)]
    taken = Taken(tmp_path / "r")
    assert not exchanges[0].later(TURN_NS + 1, b"alone", taken), (
        "one that comes alone does not wait"
    )
    assert taken.journaled.pop() == [taken.chunks.pop()]
    writes.clear()
    due = [
        each.later(TURN_NS + 1 + number, b"%d" % number, taken)
        for number, each in enumerate(exchanges)
    ]
    assert (due, taken.chunks, writes) == ([True, False, False], [], [])
    journal.flush()
    assert (taken.chunks, len(writes)) == ([b"0", b"1", b"2"], 1)
    assert taken.journaled == [[b"alone", b"0", b"1", b"2"]] * 3
    assert exchanges[0].later(TURN_NS + 9, b"next", taken), "a flush is due again"
    journal.close()
    assert taken.chunks[-1] == b"next"


@pytest.mark.parametrize("large", [1, 64 * 2**10, 20 * 2**20])
def test_what_waits_is_bounded_and_a_long_chunk_does_not_wait(tmp_path: Path, large: int) -> None:
    journal = Journal(tmp_path, "r")
    exchange, taken = journal.exchange(), Taken(tmp_path / "r")
    waited = 0
    while not taken.chunks:
        exchange.later(waited, b"x" * large, taken)
        waited += 1
    assert waited == (TOGETHER if large == 1 else 1)
    journal.close()
    assert (
        b"".join(payload for *_, payload in read_all(tmp_path / "r", limit_bytes=2**26))
        == b"x" * large * waited
    )


@pytest.mark.parametrize("ending", ["write", "end"])
def test_what_waits_comes_before_what_is_written_at_once(tmp_path: Path, ending: str) -> None:
    journal = Journal(tmp_path, "r")
    first, second = journal.exchange(), journal.exchange()
    taken = Taken(tmp_path / "r")
    first.later(1, b"a", taken)
    second.later(2, b"b", taken)
    if ending == "end":
        first.end(3, b"{}")
    else:
        first.write(Mark.CHUNK, 3, b"{}")
    assert taken.chunks == [b"a", b"b"]
    journal.close()
    assert [payload for *_, payload in read_all(tmp_path / "r")] == [b"a", b"b", b"{}"]


@table("room", range(0, 200, 7))
def test_chunks_that_do_not_fit_together_are_written_one_by_one_and_counted(
    tmp_path: Path, room: int
) -> None:
    disk, folder = Disk(), tmp_path / f"{room}"
    journal = Journal(folder.parent, folder.name, writev=disk.writev)
    exchanges = [journal.exchange() for _ in range(4)]
    for exchange in exchanges:
        exchange.write(Mark.REQUEST, 0, b"{}")
    taken = Taken(folder)
    disk.room = room
    for t_ns, exchange in enumerate(exchanges):
        exchange.later(t_ns, b"chunk of %d bytes or so" % t_ns, taken)
    journal.flush()
    assert len(taken.chunks) == 4, "the client gets its bytes, whatever the disk does"
    disk.room = None
    for exchange in exchanges:
        exchange.end(9, b"{}")
    journal.close()
    told = read_all(folder)
    for number, exchange in enumerate(exchanges):
        marks = [mark for of, mark, _, _ in told if of == exchange.number]
        assert marks in ([Mark.REQUEST, Mark.CHUNK, Mark.END], [Mark.REQUEST, Mark.GAP, Mark.END])
        kept = [
            payload for of, mark, _, payload in told if of == exchange.number and mark == Mark.CHUNK
        ]
        assert kept in ([], [taken.chunks[number]])


def test_chunks_that_wait_find_the_next_segment(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", segment_bytes=300)
    exchanges = [journal.exchange() for _ in range(3)]
    taken = Taken(tmp_path / "r")
    for t_ns in range(40):
        for exchange in exchanges:
            exchange.later(t_ns, b"%d/%d" % (exchange.number, t_ns), taken)
        journal.flush()
    journal.close()
    assert len(segment_numbers(tmp_path / "r")) > 5
    assert [payload for *_, payload in read_all(tmp_path / "r")] == taken.chunks


def test_the_end_of_an_exchange_is_written_when_there_is_room_again(tmp_path: Path) -> None:
    disk = Disk()
    journal = Journal(tmp_path, "r", writev=disk.writev)
    first, second = journal.exchange(), journal.exchange()
    first.write(Mark.REQUEST, 0, b"{}")
    disk.room = 0
    first.write(Mark.CHUNK, 1, b"lost")
    first.end(2, b"{}")
    disk.room = None
    second.write(Mark.REQUEST, 3, b"{}")
    second.end(4, b"{}")
    journal.close()
    told = read_all(tmp_path / "r")
    assert [mark for number, mark, _, _ in told if number == first.number] == [
        Mark.REQUEST,
        Mark.GAP,
        Mark.END,
    ]


def test_a_segment_has_its_name_only_when_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that sees a segment takes the one before for finished: it must not see one that
    comes to nothing.
    """
    journal = Journal(tmp_path, "r", segment_bytes=100)
    exchange = journal.exchange()
    exchange.write(Mark.CHUNK, 1, b"x" * 200)
    seen: list[list[int]] = []

    def refuse(fd: int, data: bytes) -> int:
        seen.append(segment_numbers(tmp_path / "r"))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("recorder.journal.writer.os.write", refuse)
        exchange.write(Mark.CHUNK, 2, b"y")
    exchange.write(Mark.CHUNK, 3, b"z")
    journal.close()
    assert seen == [[1]]
    assert segment_numbers(tmp_path / "r") == [1, 2]
    assert [payload[:1] for *_, payload in read_all(tmp_path / "r")] == [b"x", b"y", b"z"]
    assert not list((tmp_path / "r").glob("*.partial"))


def test_nothing_is_appended_behind_a_torn_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    journal = Journal(tmp_path, "r", writev=disk.writev)
    exchange = journal.exchange()
    exchange.write(Mark.CHUNK, 1, b"before")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("recorder.journal.writer.os.ftruncate", refuse)
        disk.room = 10
        exchange.write(Mark.CHUNK, 2, b"torn")
        disk.room = None
        patch.setattr("recorder.journal.writer.os.rename", refuse)
        exchange.write(Mark.CHUNK, 3, b"refused")
    exchange.write(Mark.CHUNK, 4, b"after")
    exchange.end(5, b"{}")
    journal.close()
    told = read_all(tmp_path / "r")
    assert [mark for _, mark, _, _ in told] == [Mark.CHUNK, Mark.GAP, Mark.CHUNK, Mark.END]
    assert (gaps(told)[0].chunks, gaps(told)[0].size_bytes) == (2, len(b"tornrefused"))


def test_data_longer_than_a_record_becomes_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.journal.writer.RECORD_LIMIT", 10)
    journal = Journal(tmp_path, "r")
    journal.exchange().write(Mark.CHUNK, 1, b"0123456789abcdef")
    journal.close()
    assert [payload for *_, payload in read_all(tmp_path / "r")] == [b"0123456789", b"abcdef"]


def test_a_journal_at_its_bound_ends_its_segment_so_that_it_can_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is in the log must be deletable, however small the bound: else it would stay closed
    for ever.
    """
    monkeypatch.setattr("recorder.journal.writer.REMEASURE_NS", 0)
    journal = Journal(tmp_path, "r", limit_bytes=1000)
    exchange = journal.exchange()
    for number in range(200):
        exchange.write(Mark.CHUNK, number, b"x" * 100)
        for segment in segment_numbers(tmp_path / "r")[:-1]:
            (tmp_path / "r" / segment_name(segment)).unlink()
    exchange.end(200, b"{}")
    journal.close()
    assert gaps(read_all(tmp_path / "r")) == []


def test_what_is_carried_over_does_not_count_against_the_bound(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r", limit_bytes=10_000, segment_bytes=500)
    (tmp_path / "r" / "carried-000001-0000000000").write_bytes(bytes(20_000))
    exchange = journal.exchange()
    for number in range(10):
        exchange.write(Mark.CHUNK, number, b"x" * 100)
    journal.close()
    assert gaps(read_all(tmp_path / "r")) == []


def test_a_late_record_goes_nowhere(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    exchange = journal.exchange()
    journal.close()
    with open(tmp_path / "other", "wb") as other:
        exchange.write(Mark.CHUNK, 1, b"late")
        exchange.write_all(2, [(Mark.REQUEST_BODY, b"later"), (Mark.REQUEST_END, b"{}")])
        other.flush()
    assert (tmp_path / "other").read_bytes() == b""
    assert segment_numbers(tmp_path / "r") == [1]


def test_a_dead_segment_of_zeros_is_a_torn_one(tmp_path: Path) -> None:
    (tmp_path / segment_name(1)).write_bytes(bytes(100))
    reader = JournalReader(tmp_path)
    assert reader.read(1000, writer_is_dead=True) == []
    assert "torn off" in reader.torn[0]


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Journal(tmp_path / "j", "r").close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "j").rglob("*")}
    assert modes == {"r": 0o700, "lock": 0o600, segment_name(1): 0o600}
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o700


def test_the_lock_tells_a_live_recorder_from_a_dead_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    assert try_lock(tmp_path / "r") is None
    journal.close()
    lock = try_lock(tmp_path / "r")
    assert lock is not None
    os.close(lock)


def a_file(path: Path) -> None:
    path.write_text("in the way")


def a_taken_directory(path: Path) -> None:
    (path / "r").mkdir(parents=True)


@pytest.mark.parametrize("obstacle", [a_file, a_taken_directory])
def test_a_directory_that_cannot_be_written_is_one_clear_sentence(
    tmp_path: Path, obstacle: Callable[[Path], None]
) -> None:
    obstacle(tmp_path / "journal")
    with pytest.raises(RecorderError, match=r"cannot be written: .*\.$"):
        Journal(tmp_path / "journal", "r")


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / segment_name(1)).write_bytes(b"something else")
    with pytest.raises(RecorderError, match="not a journal segment"):
        JournalReader(tmp_path).read(100, writer_is_dead=True)


@pytest.mark.parametrize("name", [WRITER_LOCK, INGESTER_LOCK, INGESTED])
def test_no_link_in_a_journal_is_followed(name: str, tmp_path: Path) -> None:
    """A repository may have a log, and a journal beside it, in which a link leads to a file of its
    user.
    """
    theirs, journal = tmp_path / "theirs", tmp_path / "journal"
    theirs.write_text("keep")
    journal.mkdir()
    (journal / name).symlink_to(theirs)
    (journal / "other").symlink_to(tmp_path / "none")
    if name == INGESTED:
        write_ingested(journal, Position(1, 2), Position(1, 2))
    else:
        assert try_lock(journal, name) is None
    assert try_lock(journal, "other") is None
    assert theirs.read_text() == "keep"
    assert not (tmp_path / "none").exists()


def test_chunks_that_a_fault_of_ours_keeps_out_are_a_gap_before_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They waited for each other, could not be written together, and not one by one either."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    journal = Journal(tmp_path, "r")
    exchange, handed_on = journal.exchange(), list[bytes]()
    for t_ns, payload in enumerate((b"alone", b"lost", b"too"), TURN_NS + 1):
        exchange.later(t_ns, payload, handed_on.append)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "write_together", fails)
        patched.setattr(ExchangeWriter, "write", fails)
        journal.flush()
    exchange.write(Mark.CHUNK, 2 * TURN_NS, b"behind")
    journal.close()
    told = read_all(tmp_path / "r")
    assert handed_on == [b"alone", b"lost", b"too"]
    assert [mark for _, mark, _, _ in told] == [Mark.CHUNK, Mark.GAP, Mark.CHUNK]
    assert [(gap.chunks, gap.size_bytes, gap.sha256) for gap in gaps(told)] == [
        (2, 7, sha256(b"losttoo").hexdigest())
    ]
