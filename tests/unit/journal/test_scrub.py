"""A request body that is in the log stands in no journal, and nothing beside it is harmed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.files import to_disk
from recorder.ingest import ingester as ingest
from recorder.ingest.ingester import Ingester
from recorder.journal import scrub
from recorder.journal.format import MAGIC, START, Mark, Position, parse
from recorder.journal.reader import JournalReader, segment_name
from recorder.journal.scrub import RequestBodyScrubber
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import ExchangeEnd, RequestEnd, RequestHead, RequestRecord
from recorder.store.write.writer import Store
from recorder.wire.request_body import overwritten
from tests.integration.ingest.test_ingester import (
    COMPLETED,
    Exchange,
    body,
    ending,
    keep_segments,
    never,
    query,
    rows,
    stream,
)
from tests.support.empty_log import empty
from tests.support.websocket import Connection

SECRET = b'{"input":"sk-proj-0123456789abcdefghijABCDEFGHIJ is the key"}'


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "SCRUB_S", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(empty(path)) as store:
        yield store


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal(Path(f"{path}.journal"), "recorder-1")
    yield journal
    journal.close()


class Upload(Exchange):
    """An exchange whose request body is on its way."""

    def __init__(self, journal: Journal) -> None:
        head = {
            "exchange_id": "01890000-0000-7000-8000-000000000001",
            "session_id": "01890000-0000-7000-8000-000000000002",
        }
        self.id, self._tape, self.received = head["exchange_id"], journal.exchange(), b""
        said = RequestHead(self.id, head["session_id"], 1, "POST", "/v1/x", "openai", [])
        self._write(Mark.REQUEST, msgspec.json.encode(said))

    def sends(self, data: bytes) -> Upload:
        self._write(Mark.REQUEST_BODY, data)
        return self

    def sent(self) -> Upload:
        self._write(Mark.REQUEST_END, msgspec.json.encode(RequestEnd(True)))
        return self


def standing(journal: Journal, what: bytes = SECRET) -> int:
    """How many times it stands in the files of a journal."""
    return sum(path.read_bytes().count(what) for path in journal.directory.iterdir())


def request(path: Path, exchange_id: str) -> tuple[RequestRecord, bytes]:
    sql = "SELECT raw FROM events WHERE exchange_id = ? AND kind = 'request' ORDER BY pos"
    (head,), *parts = query(path, sql, exchange_id)
    return msgspec.json.decode(head, type=RequestRecord), b"".join(part for (part,) in parts)


def test_what_is_in_the_log_is_overwritten_and_what_is_not_stays(
    store: Store, journal: Journal, path: Path
) -> None:
    long, upload = Exchange(journal, SECRET).chunk(b"data: 1\n\n"), Upload(journal).sends(SECRET)
    short = Exchange(journal, SECRET).chunk(COMPLETED).end()
    ingester = Ingester(store, journal.directory, never)
    assert standing(journal) == 3
    ingester.drain()
    assert standing(journal) == 1, "that of the upload, which is in no log yet"
    upload.sends(b"!").sent()
    ingester.drain()
    assert standing(journal) == 0
    for each in (long, upload):
        each.chunk(COMPLETED).end()
    ingester.drain()
    for each in (long, short, upload):
        assert body(path, each.id) == each.received
        assert ending(path, each.id).lossless
        assert b"is the key" in request(path, each.id)[1]


@pytest.mark.parametrize("seed", range(3))
def test_an_ingester_that_dies_anywhere_behind_it_makes_the_same_of_the_rest(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measure is a journal that is told once, before anything of it is overwritten."""
    noise = random.Random(seed)
    journals = [Journal(tmp_path / name, "r", segment_bytes=1500) for name in ("once", "often")]
    stores = [Store(empty(tmp_path / f"{name}.db")) for name in ("once", "often")]
    monkeypatch.setattr("tests.integration.ingest.test_ingester.time.monotonic_ns", lambda: 7)
    left = []
    for number in range(3):
        ids = [f"01890000-0000-7000-8000-0000000000{kind}{number}" for kind in "es"]
        head: dict[str, Any] = {
            "exchange_id": ids[0].replace("e", "1"),
            "session_id": ids[1].replace("s", "2"),
            "started_ns": 1,
        }
        left.append(
            ([Exchange(each, SECRET, **head) for each in journals], stream(seed * 10 + number, 12))
        )
    while left:
        exchanges, chunks = noise.choice(left)
        for exchange in exchanges:
            exchange.chunk(chunks[0]) if chunks else exchange.end()
        left = left if chunks else [each for each in left if each[1] is not chunks]
        del chunks[:1]
        if noise.random() < 0.3:
            Ingester(stores[1], journals[1].directory, never).drain()
            assert not standing(journals[1])
    Ingester(stores[0], journals[0].directory, never).drain()
    Ingester(stores[1], journals[1].directory, never).drain()
    for journal, store in zip(journals, stores, strict=True):
        journal.close()
        store.close()
    once, often = (rows(tmp_path / f"{name}.db") for name in ("once", "often"))
    assert once == often


def test_what_a_dead_ingester_left_standing_goes_with_the_next(
    store: Store, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "SCRUB_S", 3600)
    Exchange(journal, SECRET).end()
    Exchange(journal, SECRET).chunk(b"data: 1\n\n")
    Ingester(store, journal.directory, never).drain()
    assert standing(journal) == 2
    monkeypatch.setattr(scrub, "SCRUB_S", 0)
    Ingester(store, journal.directory, never).step()
    assert standing(journal) == 0


def test_what_begins_behind_the_place_stays_until_it_is_in_the_log(
    store: Store, journal: Journal, path: Path
) -> None:
    """In the segment of which a dead ingester had told a part: the next one overwrites that part."""
    Exchange(journal, SECRET).end()
    Ingester(store, journal.directory, never).drain()
    upload = Upload(journal).sends(SECRET)
    Exchange(journal, SECRET).end()
    Ingester(store, journal.directory, never).step()
    assert standing(journal) == 1
    upload.sends(b"!").sent().end()
    Ingester(store, journal.directory, never).drain()
    assert request(path, upload.id)[0].complete
    assert request(path, upload.id)[1].endswith(b' is the key"}!')
    assert standing(journal) == 0


def test_only_the_stretch_is_read(journal: Journal) -> None:
    for _ in range(3):
        Exchange(journal, SECRET)
    file = journal.directory / segment_name(1)
    records = list(parse(file.read_bytes()[len(MAGIC) :], Position(1, len(MAGIC))))
    scrub._overwrite(
        file, [(0, records[1].position.offset)], lambda record: record.mark == Mark.REQUEST_BODY
    )
    assert standing(journal) == 2


def test_a_request_that_is_carried_over_is_so_without_its_body(
    store: Store, journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "CARRY_SEGMENTS", 0)
    monkeypatch.setattr(scrub, "SCRUB_S", 3600)
    long = Exchange(journal, SECRET).chunk(b"data: 1\n\n")
    upload = Upload(journal).sends(SECRET)
    journal._rotate()
    Exchange(journal, SECRET).end()
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    [carried] = journal.directory.glob("carried-*")
    assert carried.read_bytes().count(SECRET) == 1, "that of the upload"
    monkeypatch.setattr(scrub, "SCRUB_S", 0)
    for again in (True, False):
        ingester = Ingester(store, journal.directory, never) if again else ingester
        ingester.drain()
    upload.sends(SECRET).sent()
    ingester.drain()
    assert standing(journal) == 0
    for each in (long, upload):
        each.chunk(COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    assert [ending(path, each.id).lossless for each in (long, upload)] == [True, True]
    assert request(path, upload.id)[0].body_bytes == len(request(path, upload.id)[1])


def test_a_journal_is_readable_however_far_the_overwriting_came(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between any two bytes of it: marks come first."""
    for number in range(3):
        Exchange(journal, SECRET * (number + 1)).chunk(b"data: %d\n\n" % number)
    file = journal.directory / segment_name(1)
    whole = [record for record in parse(file.read_bytes()[len(MAGIC) :], Position(1, len(MAGIC)))]
    steps: list[bytes] = []

    def noted(fd: int, data: bytes, offset: int) -> int:
        for size in range(1, len(data) + 1):
            steps.append(file.read_bytes())
            written(fd, data[size - 1 : size], offset + size - 1)
        return len(data)

    written = os.pwrite
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", noted)
        scrub._overwrite(file, [(0, 2**40)], partial(scrub._is_of, Mark.REQUEST_BODY, {1, 3}))
    assert len(steps) > len(SECRET)
    for each in (*steps, file.read_bytes()):
        file.write_bytes(each)
        found = JournalReader(journal.directory).read(2**20, writer_is_dead=True)
        assert [record.position for record in found] == [record.position for record in whole]
        for record, before in zip(found, whole, strict=True):
            assert record == before or (
                record.mark == Mark.BLANK and before.mark == Mark.REQUEST_BODY
            )
    blanks = [
        (record.exchange, any(record.payload)) for record in found if record.mark == Mark.BLANK
    ]
    assert blanks == [(1, False), (3, False)]


def test_what_cannot_be_overwritten_is_said_and_goes_with_its_segment(
    store: Store,
    journal: Journal,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(scrub, "to_disk", fails)
    exchange = Exchange(journal, SECRET).chunk(b"data: 1\n\n")
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    assert "request bodies in the journal are not overwritten" in caplog.text
    exchange.end()
    ingester.drain()
    assert ending(store.path, exchange.id).lossless


def test_all_bodies_of_a_segment_take_one_sync_which_comes_before_the_first_zero(
    store: Store, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        Exchange(journal, SECRET).chunk(b"data: 1\n\n")
    standing_at_syncs: list[int] = []

    def noted(fd: int) -> None:
        standing_at_syncs.append(standing(journal))
        to_disk(fd)

    monkeypatch.setattr(scrub, "to_disk", noted)
    Ingester(store, journal.directory, never).drain()
    assert (standing_at_syncs, standing(journal)) == ([3], 0)


def test_a_log_that_never_had_the_body_says_that_it_is_missing(
    store: Store, journal: Journal, tmp_path: Path
) -> None:
    exchange = Exchange(journal, SECRET).chunk(b"data: 1\n\n")
    keep_segments(Ingester(store, journal.directory, never)).drain()
    exchange.chunk(COMPLETED).end()
    with Store(tmp_path / "new.db") as new:
        Ingester(new, journal.directory, never).drain()
    record, kept = request(tmp_path / "new.db", exchange.id)
    assert (record.complete, kept) == (False, b"")
    [(gap,)] = query(tmp_path / "new.db", "SELECT raw FROM events WHERE kind = 'gap'")
    assert overwritten(len(SECRET), 0).reason.encode() in gap
    assert b'"size_bytes":%d' % len(SECRET) in gap
    assert body(tmp_path / "new.db", exchange.id) == exchange.received


def test_stretches_that_overlap_are_read_once() -> None:
    spans = [
        (Position(1, 10), Position(1, 50)),
        (Position(1, 40), Position(2, 5)),
        (Position(1, 0), Position(1, 5)),
    ]
    joined = scrub._joined(spans)
    assert joined == [(1, 0, 5), (1, 10, scrub._TO_ITS_END), (2, 0, 5)]


class Tunnelled(Exchange):
    """An exchange whose client goes on sending after a 101."""

    def sends(self, data: bytes) -> Tunnelled:
        self._write(Mark.CLIENT_CHUNK, data)
        return self


def test_what_a_client_sent_after_a_101_is_overwritten_when_nobody_reads_it_again(
    tmp_path: Path,
) -> None:
    """Not before its exchange has ended: what follows it is decoded with it, after a crash too."""
    journal = Journal(tmp_path, "r")
    first, second = (Tunnelled(journal).sends(SECRET) for _ in range(2))
    scrubber, reader = (
        RequestBodyScrubber(journal.directory, START),
        JournalReader(journal.directory),
    )

    def ingested(*, open_: set[int], place: Position | None = None) -> int:
        start = reader.position
        for record in reader.read(2**20):
            scrubber.note(record, start)
        scrubber.scrub(reader.position if place is None else place, open_)
        return standing(journal)

    assert ingested(open_={1, 2}) == 2
    first.end()
    assert ingested(open_={2}, place=START) == 2, (
        "the other one began before it, and the journal is read from there"
    )
    second.end()
    assert ingested(open_=set()) == 0
    marks = [record.mark for record in JournalReader(journal.directory).read(2**20)]
    assert marks.count(Mark.BLANK) == 2
    journal.close()


def test_what_clients_sent_before_the_place_is_overwritten_after_a_start(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "r")
    Tunnelled(journal).sends(SECRET).end()
    reader = JournalReader(journal.directory)
    reader.read(2**20)
    RequestBodyScrubber(journal.directory, reader.position).scrub(reader.position)
    assert standing(journal) == 0
    journal.close()


def test_what_a_client_sent_is_overwritten_where_it_was_carried_over_too(
    store: Store, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(number: int) -> ExchangeWriter:
        writer = journal.exchange()
        for step in Connection(number=number).client(raw=SECRET).steps:
            writer.write(step.mark, step.t_ns, step.payload)
        return writer

    monkeypatch.setattr(ingest, "CARRY_SEGMENTS", 0)
    writers = [connected(number) for number in range(3)]
    journal._rotate()
    Exchange(journal).end()
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    [carried] = journal.directory.glob("carried-*")
    assert standing(journal) == carried.read_bytes().count(SECRET) == 3
    for left, is_new in ((2, False), (1, True), (0, False)):
        ingester = Ingester(store, journal.directory, never) if is_new else ingester
        writers[left].end(10**9, msgspec.json.encode(ExchangeEnd("eof")))
        ingester.drain()
        assert standing(journal) == left, "those that go on"
