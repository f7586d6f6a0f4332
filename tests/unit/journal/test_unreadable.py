"""What a journal holds and nobody can read is counted in full, and kept."""

from __future__ import annotations

import gzip
import logging
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.ingest import assembler
from recorder.ingest.capture import Capture
from recorder.ingest.ingester import Ingester, recover
from recorder.journal import unreadable
from recorder.journal.format import MAGIC, START, Mark, Record, parse
from recorder.journal.reader import segment_name, segment_numbers
from recorder.journal.writer import Journal
from recorder.model.events import GapRecord
from recorder.store.write.writer import Store
from recorder.wire.dialects import Keys
from recorder.wire.framing.sse import Piece
from tests.integration.ingest.test_ingester import (
    COMPLETED,
    SSE,
    Exchange,
    body,
    ending,
    never,
    query,
    stream,
)
from tests.support.empty_log import empty
from tests.support.server import run

POISON = b"data: poison"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db.journal"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(empty(path)) as store:
        yield store


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours: on some blocks the reading of keys raises, in the middle of a chunk or at
    the end.
    """
    keys = Capture._keys

    def faulty(self: Capture, piece: Piece) -> Keys:
        if POISON in piece.raw:
            raise TypeError("a fault of ours")
        return keys(self, piece)

    monkeypatch.setattr(Capture, "_keys", faulty)


def gap_of(path: Path, exchange_id: str) -> GapRecord:
    sql = "SELECT raw FROM events WHERE exchange_id = ? AND kind = 'gap'"
    [(raw,)] = query(path, sql, exchange_id)
    return msgspec.json.decode(raw, type=GapRecord)


def kept(root: Path) -> dict[str, list[Record]]:
    """The records of each file that is kept."""
    files = {each.path.name: each.path.read_bytes() for each in unreadable.unreadable_files(root)}
    return {name: list(parse(data[len(MAGIC) :], START)) for name, data in files.items()}


def assert_all_is_counted(path: Path, exchange: Exchange, chunks: int) -> None:
    """Received is stored and counted, byte for byte; and `verify` agrees."""
    gap, end, stored = gap_of(path, exchange.id), ending(path, exchange.id), body(path, exchange.id)
    assert exchange.received.startswith(stored)
    rest = exchange.received[len(stored) :]
    assert (gap.size_bytes, gap.sha256) == (len(rest), sha256(rest).hexdigest() if rest else "")
    assert end.wire_bytes == len(exchange.received)
    assert (end.gap_chunks, end.gap_bytes, end.lossless) == (gap.chunks, gap.size_bytes, False)
    raws = query(
        path, "SELECT raw FROM events WHERE exchange_id = ? AND kind = 'reads'", exchange.id
    )
    assert sum(len(msgspec.json.decode(raw)) for (raw,) in raws) + gap.chunks == chunks
    verified = run(path, "verify")
    assert verified.code == 0, verified.out


def test_what_follows_a_record_that_makes_no_sense_is_counted_and_kept(
    store: Store, root: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(root, "r")
    exchange = (
        Exchange(journal, b'{"input": "a question"}')
        .chunk(b"data: 1\n\ndata: ha")
        .chunk(b"lf\n\ndata: again ha")
    )
    exchange._write(Mark.RESPONSE, b"not JSON")
    exchange.chunk(b"lf\n\n" + b"data: lost\n\n").chunk(COMPLETED).end()
    other = Exchange(journal).chunk(COMPLETED).end()
    journal.close()
    recover(store, root, never)
    assert body(path, exchange.id) == b"data: 1\n\ndata: half\n\ndata: again ha"
    assert_all_is_counted(path, exchange, 4)
    assert gap_of(path, exchange.id).chunks == 2
    assert ending(path, other.id).lossless
    assert any(record.exc_info for record in caplog.records), "with its traceback"
    [(name, records)] = kept(root).items()
    assert name.endswith(f".{exchange.id}.seg")
    assert [record.mark for record in records] == [1, 3, 4, 5, 5, 4, 5, 5, 7], (
        "all but the request, which the log has"
    )
    assert (
        b"".join(each.payload for each in records if each.mark == Mark.CHUNK) == exchange.received
    )


@pytest.mark.long
@pytest.mark.usefixtures("fault")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ingesters", [1, 7])
def test_a_fault_of_ours_loses_nothing_uncounted(tmp_path: Path, seed: int, ingesters: int) -> None:
    """Wherever chunks are cut, and though the ingester is begun anew, its records carried over or
    not.
    """
    path, root, noise = (
        tmp_path / "recorder.db",
        tmp_path / "recorder.db.journal",
        random.Random(seed),
    )
    journal = Journal(root, "r", segment_bytes=noise.choice([400, 2_000, 100_000]))
    good, bad = Exchange(journal), Exchange(journal)
    told, at = stream(seed), noise.randrange(30)
    data = (
        b"".join(told[:at]).rpartition(b"\n\n")[0]
        + b"\n\n"
        + POISON
        + b"\n\n"
        + b"".join(told[at:])
    )
    cuts = sorted(noise.randrange(len(data)) for _ in told)
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    with Store(empty(path)) as store:
        ingester = Ingester(store, journal.directory, never)
        for number, (one, other) in enumerate(zip(told, chunks, strict=False)):
            good.chunk(one)
            bad.chunk(other)
            if number % 3 == 0:
                ingester.drain()
            if number % (30 // ingesters + 1) == 1:
                ingester = Ingester(store, journal.directory, never)
        for rest in chunks[len(told) :]:
            bad.chunk(rest)
        good.end()
        bad.end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    assert_all_is_counted(path, bad, len(chunks))
    assert ending(path, good.id).lossless
    assert body(path, good.id) == good.received
    [(_, records)] = kept(root).items()
    assert b"".join(each.payload for each in records if each.mark == Mark.CHUNK) == bad.received


@pytest.mark.usefixtures("fault")
@pytest.mark.parametrize(
    "chunks", [[POISON], [b"data: 1\n\n", POISON], [b"data: 1\n\n" + POISON + b"\n\n", COMPLETED]]
)
def test_a_fault_at_the_end_of_a_stream_is_counted_too(
    store: Store, root: Path, path: Path, chunks: list[bytes]
) -> None:
    """What stands unterminated at the end is kept as it came: to read it is what raises."""
    journal = Journal(root, "r")
    exchange = Exchange(journal)
    for chunk in chunks:
        exchange.chunk(chunk)
    exchange.end()
    journal.close()
    recover(store, root, never)
    assert_all_is_counted(path, exchange, len(chunks))


@pytest.mark.usefixtures("fault")
def test_the_rest_of_a_coded_stream_is_counted_as_it_was_sent(
    store: Store, root: Path, path: Path
) -> None:
    journal = Journal(root, "r")
    coder = gzip.compress(b"data: 1\n\n"), gzip.compress(POISON + b"\n\n"), gzip.compress(COMPLETED)
    exchange = Exchange(journal, response=[*SSE, ("Content-Encoding", "gzip")])
    for chunk in coder:
        exchange.chunk(chunk)
    exchange.end()
    journal.close()
    recover(store, root, never)
    assert body(path, exchange.id) == b"data: 1\n\n"
    gap, end = gap_of(path, exchange.id), ending(path, exchange.id)
    assert (gap.chunks, gap.size_bytes) == (2, len(coder[1] + coder[2]))
    assert end.wire_bytes == len(exchange.received)
    assert run(path, "verify").code == 0


def test_a_request_that_cannot_be_read_is_an_exchange_with_gaps(
    store: Store, root: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*given: Any) -> None:
        raise IndexError("a fault of ours")

    monkeypatch.setattr(assembler, "grouped", faulty)
    journal = Journal(root, "r")
    exchange = (
        Exchange(journal, b'{"input": "a question"}').chunk(b"data: 1\n\n").chunk(COMPLETED).end()
    )
    journal.close()
    recover(store, root, never)
    gaps = query(path, "SELECT raw FROM events WHERE kind = 'gap' ORDER BY pos")
    request, response = (msgspec.json.decode(raw, type=GapRecord) for (raw,) in gaps)
    assert (request.of, request.size_bytes) == ("request", len(b'{"input": "a question"}'))
    assert (response.of, response.chunks, response.size_bytes) == (
        "response",
        2,
        len(exchange.received),
    )
    assert response.sha256 == sha256(exchange.received).hexdigest()
    assert run(path, "verify").code == 0
    [(name, records)] = kept(root).items()
    assert exchange.id in name
    assert b'{"input": "a question"}' in [record.payload for record in records], (
        "it is nowhere else"
    )


def test_an_exchange_whose_first_record_makes_no_sense_is_counted_and_kept(
    store: Store, root: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(root, "r")
    tape = journal.exchange()
    for mark, payload in (
        (Mark.REQUEST, b"{}"),
        (Mark.REQUEST_BODY, b"asked"),
        (Mark.CHUNK, b"12345"),
    ):
        tape.write(mark, 1, payload)
    other = Exchange(journal).chunk(COMPLETED).end()
    with caplog.at_level(logging.ERROR):
        journal.close()
        recover(store, root, never)
    assert "1 chunks, 5 bytes of it could not be read" in caplog.text
    assert [row[0] for row in query(path, "SELECT exchange_id FROM exchanges")] == [other.id]
    assert {name: [each.mark for each in records] for name, records in kept(root).items()} == {
        "unknown.r-1.seg": [Mark.REQUEST, Mark.REQUEST_BODY, Mark.CHUNK]
    }


def test_what_is_kept_has_a_bound(
    store: Store,
    root: Path,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(unreadable, "LIMIT_BYTES", 3_000)
    journal = Journal(root, "r")
    exchanges = [Exchange(journal) for _ in range(4)]
    for exchange in exchanges:
        exchange._write(Mark.RESPONSE, b"not JSON")
        exchange.chunk(b"x" * 500).end()
    journal.close()
    recover(store, root, never)
    assert 1 <= len(kept(root)) < 4
    assert sum(each.size_bytes for each in unreadable.unreadable_files(root)) <= 3_000
    assert "is not kept" in caplog.text
    for exchange in exchanges:
        assert_all_is_counted(path, exchange, 1)


def test_a_damaged_stretch_is_kept_as_it_stood(store: Store, root: Path) -> None:
    journal = Journal(root, "r", segment_bytes=600)
    exchange = Exchange(journal)
    while len(segment_numbers(journal.directory)) < 4:
        exchange.chunk(b"data: 1\n\n")
    damaged = journal.directory / segment_name(2)
    data = bytearray(damaged.read_bytes())
    data[300] ^= 1
    damaged.write_bytes(data)
    exchange.chunk(COMPLETED).end()
    journal.close()
    recover(store, root, never)
    [each] = unreadable.unreadable_files(root)
    assert each.path.name.startswith("unknown.r-000002-")
    assert data.endswith(each.path.read_bytes())
    assert 100 < each.size_bytes < len(data)


def test_it_is_private_and_said_and_goes_with_a_purge(store: Store, root: Path, path: Path) -> None:
    journal = Journal(root, "r")
    exchange, other = Exchange(journal), Exchange(journal)
    for each in (exchange, other):
        each._write(Mark.RESPONSE, b"not JSON")
        each.chunk(b"data: 1\n\n").end()
    tape = journal.exchange()
    tape.write(Mark.REQUEST, 1, b"{}")
    journal.close()
    recover(store, root, never)
    store.close()
    folder = unreadable.folder(root)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.path.stat().st_mode & 0o777 for each in unreadable.unreadable_files(root)} == {
        0o600
    }
    said = run(path, "doctor").out.decode()
    [line] = [line for line in said.splitlines() if str(folder) in line]
    assert line.startswith("warn")
    assert "3 " in line
    [(session_id,)] = query(
        path, "SELECT session_id FROM exchanges WHERE exchange_id = ?", exchange.id
    )
    purged = run(path, "db", "purge", session_id, "--yes")
    assert purged.code == 0, purged.err
    assert [name.split(".")[1] for name in kept(root)] == [other.id], (
        "what may be of it is gone too"
    )
    assert "1 piece" in purged.err
