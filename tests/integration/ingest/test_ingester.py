"""What the journal holds comes into the log, once, whatever happens between."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.errors import StoreBusyError, StoreError
from recorder.ingest import ingester as ingest
from recorder.ingest.capture import Capture
from recorder.ingest.ingester import Ingester, recover
from recorder.journal import reader
from recorder.journal.format import START, Mark, Position, Record
from recorder.journal.locks import claimed
from recorder.journal.reader import segment_numbers
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import (
    BODY_KINDS,
    EndRecord,
    Event,
    ExchangeEnd,
    Outcome,
    RequestEnd,
    RequestHead,
    ResponseHead,
)
from recorder.model.ids import uuid7
from recorder.store.write.retry import Stopped
from recorder.store.write.writer import Store
from tests.support.empty_log import empty

SSE = [("Content-Type", "text/event-stream")]
COMPLETED = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'


def never(seconds: float) -> bool:
    return False


def at_once(seconds: float) -> bool:
    return True


class Exchange:
    """One exchange as the proxy journals it, step by step."""

    def __init__(
        self,
        journal: Journal,
        body: bytes = b"{}",
        response: Sequence[tuple[str, str]] = SSE,
        **head: Any,
    ) -> None:
        self.id = uuid7(head.get("started_ns") or time.time_ns(), os.urandom(10))
        self._tape: ExchangeWriter = journal.exchange()
        self.received = b""
        fields: dict[str, Any] = {
            "exchange_id": self.id,
            "session_id": uuid7(time.time_ns(), os.urandom(10)),
            "started_ns": time.time_ns(),
            "method": "POST",
            "target": "/v1/responses",
            "upstream": "openai",
            "headers": [("user-agent", "OpenAI/Python 3.52.0")],
        }
        self._write(Mark.REQUEST, msgspec.json.encode(RequestHead(**{**fields, **head})))
        if body:
            self._write(Mark.REQUEST_BODY, body)
        self._write(Mark.REQUEST_END, msgspec.json.encode(RequestEnd(True)))
        self._write(Mark.RESPONSE, msgspec.json.encode(ResponseHead(200, "OK", list(response))))

    def chunk(self, data: bytes) -> Exchange:
        self.received += data
        self._write(Mark.CHUNK, data)
        return self

    def chunks(self, chunks: Sequence[bytes]) -> Exchange:
        for data in chunks:
            self.chunk(data)
        return self

    def end(self, outcome: Outcome = "eof") -> Exchange:
        self._tape.end(time.monotonic_ns(), msgspec.json.encode(ExchangeEnd(outcome)))
        return self

    def _write(self, mark: Mark, payload: bytes) -> None:
        self._tape.write(mark, time.monotonic_ns(), payload)


def stream(seed: int, count: int = 30) -> list[bytes]:
    """Chunks that cut frames anywhere."""
    noise = random.Random(seed)
    frames = [
        b'data: {"type":"x","n":%d,"pad":"%s"}\n\n' % (n, b"p" * noise.randrange(300))
        for n in range(count)
    ]
    data = b"".join(frames) + COMPLETED
    cuts = sorted(noise.randrange(len(data)) for _ in range(count))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db.journal"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(empty(path), busy_timeout_s=0.05) as store:
        yield store


@pytest.fixture
def journal(root: Path) -> Iterator[Journal]:
    journal = Journal(root, "recorder-1", segment_bytes=2000)
    yield journal
    journal.close()


def query(path: Path, sql: str, *parameters: object) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, parameters).fetchall()


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """A database in which another program writes."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield holder


def session_size(path: Path, exchange: Exchange) -> int:
    """How many exchanges are in the session of one."""
    of_one = "(SELECT session_id FROM exchanges WHERE exchange_id = ?)"
    [(count,)] = query(
        path, f"SELECT count(*) FROM exchanges WHERE session_id = {of_one}", exchange.id
    )
    return int(count)


def body(path: Path, exchange_id: str) -> bytes:
    rows = query(
        path, "SELECT kind, raw FROM events WHERE exchange_id = ? ORDER BY pos", exchange_id
    )
    return b"".join(raw for kind, raw in rows if kind in BODY_KINDS)


def ending(path: Path, exchange_id: str) -> EndRecord:
    [(raw,)] = query(
        path, "SELECT raw FROM events WHERE exchange_id = ? AND kind = 'end'", exchange_id
    )
    return msgspec.json.decode(raw, type=EndRecord)


def rows(path: Path) -> list[Any]:
    return query(path, "SELECT * FROM events ORDER BY session_id, exchange_id, pos")


def test_interleaved_exchanges_are_put_together_again(
    store: Store, journal: Journal, path: Path
) -> None:
    exchanges = [Exchange(journal) for _ in range(4)]
    for chunks in zip(*(stream(seed) for seed in range(4)), strict=True):
        for exchange, chunk in zip(exchanges, chunks, strict=True):
            exchange.chunk(chunk)
    for exchange in exchanges:
        exchange.end()
    Ingester(store, journal.directory, never).drain()
    for seed, exchange in enumerate(exchanges):
        assert body(path, exchange.id) == exchange.received == b"".join(stream(seed))
        assert ending(path, exchange.id).status == "completed"


def test_an_exchange_can_be_read_while_it_streams(
    store: Store, journal: Journal, path: Path
) -> None:
    exchange = Exchange(journal).chunk(b"data: 1\n\ndata: 2")
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    assert body(path, exchange.id) == b"data: 1\n\n"
    exchange.chunk(b"\n\n")
    ingester.drain()
    assert body(path, exchange.id) == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_an_ingester_that_died_anywhere_is_resumed_with_the_same_result(
    tmp_path: Path, seed: int
) -> None:
    """Every step is taken by a new ingester, as after a crash; a journal told once is the measure."""
    noise = random.Random(seed)
    stores = [Store(empty(tmp_path / name)) for name in ("once.db", "often.db")]
    journal = Journal(tmp_path / "journal", "r", segment_bytes=1500)
    left = [(Exchange(journal), stream(seed * 10 + n)) for n in range(3)]
    watched = []
    while left:
        at = noise.randrange(len(left))
        exchange, chunks = left[at]
        if chunks:
            exchange.chunk(chunks.pop(0))
        else:
            exchange.end()
            del left[at]
        watched.append(exchange)
        if noise.random() < 0.2:
            keep_segments(Ingester(stores[1], journal.directory, never)).drain()
    for store in stores:
        keep_segments(Ingester(store, journal.directory, never)).drain()
        store.close()
    journal.close()
    assert rows(tmp_path / "once.db") == rows(tmp_path / "often.db")
    for exchange in watched:
        assert body(tmp_path / "often.db", exchange.id) == exchange.received


def keep_segments(ingester: Ingester) -> Ingester:
    """For two stores that read the same journal."""
    ingester._drop_before = lambda place: None  # type: ignore[method-assign]
    return ingester


def test_what_was_committed_but_not_acknowledged_is_told_again_without_a_trace(
    store: Store, journal: Journal, path: Path
) -> None:
    for seed in range(3):
        Exchange(journal).chunks(stream(seed)).end()
    keep_segments(Ingester(store, journal.directory, never)).drain()
    before = rows(path)
    with store.transaction():
        store.forget_offset("recorder-1")
    keep_segments(Ingester(store, journal.directory, never)).drain()
    assert rows(path) == before


def test_the_rest_of_what_the_log_has_whole_is_passed_over_in_silence(
    store: Store, journal: Journal, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The place is where the first open exchange began: behind it stands the end of one that began
    before.
    """
    first, second = Exchange(journal).chunk(b"data: 1\n\n"), Exchange(journal).chunk(b"data: 2\n\n")
    first.chunk(COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    second.chunk(COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    assert [body(path, each.id) for each in (first, second)] == [first.received, second.received]
    assert caplog.records == []


def test_segments_are_deleted_once_they_are_in_the_log(store: Store, journal: Journal) -> None:
    Exchange(journal).chunks(stream(1)).end()
    assert len(segment_numbers(journal.directory)) > 2
    Ingester(store, journal.directory, never).drain()
    assert len(segment_numbers(journal.directory)) == 1


def test_a_long_stream_does_not_keep_the_whole_journal(
    store: Store, journal: Journal, path: Path
) -> None:
    long = Exchange(journal).chunk(b"data: beginning\n\nda")
    for round in range(30):
        Exchange(journal).chunks(stream(round)).end()
        Ingester(store, journal.directory, never).drain()
        long.chunk(b"ta: %d\n\nda" % round)
        assert len(segment_numbers(journal.directory)) <= ingest.CARRY_SEGMENTS + 8
        assert len(list(journal.directory.glob("carried-*"))) <= 1
    assert list(journal.directory.glob("carried-*"))
    long.chunk(b"ta: end\n\n" + COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    assert body(path, long.id) == long.received
    assert ending(path, long.id).lossless
    assert not list(journal.directory.glob("carried-*"))


def test_a_dead_recorder_is_recovered_and_its_exchanges_are_ended(
    store: Store, root: Path, path: Path
) -> None:
    journal = Journal(root, "dead")
    ended = Exchange(journal).chunk(COMPLETED).end()
    open_ = Exchange(journal).chunk(b"data: 1\n\ndata: torn")
    without_response = Exchange(journal)
    journal.close()
    assert recover(store, root, never) == 1
    assert ending(path, ended.id).status == "completed"
    assert ending(path, open_.id).status == "recorder_crash"
    assert ending(path, without_response.id).status == "recorder_crash"
    assert body(path, open_.id) == b"data: 1\n\ndata: torn"
    assert list(root.iterdir()) == []
    assert query(path, "SELECT count(*) FROM ingest_offsets") == [(0,)]


def test_a_live_recorder_is_not_recovered(store: Store, journal: Journal, root: Path) -> None:
    Exchange(journal)
    assert recover(store, root, never) == 0
    assert journal.directory.exists()


def test_a_locked_database_is_waited_for(store: Store, journal: Journal, path: Path) -> None:
    exchange = Exchange(journal).chunk(COMPLETED).end()
    ingester = Ingester(store, journal.directory, never)
    with locked(path) as holder:
        release = threading.Timer(0.5, lambda: holder.execute("COMMIT"))
        release.start()
        ingester.drain()
        release.join()
    assert body(path, exchange.id) == exchange.received


def test_an_ingester_that_must_stop_at_a_locked_database_loses_nothing(
    store: Store, journal: Journal, path: Path
) -> None:
    exchange = Exchange(journal).chunk(COMPLETED).end()
    ingester = Ingester(store, journal.directory, at_once)
    with locked(path):
        with pytest.raises(Stopped):
            ingester.run()
        with pytest.raises(StoreBusyError), store.transaction():
            pass
    Ingester(store, journal.directory, never).drain()
    assert body(path, exchange.id) == exchange.received


def test_what_the_database_will_never_take_ends_it_with_the_reason(
    store: Store, journal: Journal, path: Path
) -> None:
    exchange = Exchange(journal).chunk(COMPLETED).end()
    ingester = Ingester(store, journal.directory, never)
    query(path, "ALTER TABLE ingest_offsets RENAME TO elsewhere")
    with pytest.raises(StoreError, match=r"no such table: .*ingest_offsets"):
        ingester.drain()
    query(path, "ALTER TABLE elsewhere RENAME TO ingest_offsets")
    Ingester(store, journal.directory, never).drain()
    assert body(path, exchange.id) == exchange.received


def test_a_database_that_refuses_at_the_very_end_loses_nothing(
    store: Store, root: Path, path: Path
) -> None:
    """An ingester that had to stop has told its assembler more than it has committed: it must not
    finish the job.
    """
    journal = Journal(root, "r")
    exchange = Exchange(journal).chunk(b"data: 1\n\n")
    ingester = Ingester(store, journal.directory, at_once)
    ingester.drain()
    exchange.chunk(COMPLETED).end()
    journal.close()
    with locked(path):
        with pytest.raises(Stopped):
            ingester.run()
        with pytest.raises(Stopped):
            recover(store, root, at_once)
    assert journal.directory.exists()
    assert recover(store, root, never) == 1
    assert body(path, exchange.id) == exchange.received
    assert ending(path, exchange.id).lossless


def test_one_journal_is_ingested_by_one(store: Store, root: Path, path: Path) -> None:
    journal = Journal(root, "r")
    exchange = Exchange(journal).chunk(COMPLETED)
    journal.close()
    with claimed(journal.directory) as mine:
        assert mine
        assert recover(store, root, never) == 0
        with claimed(journal.directory) as another:
            assert not another
    assert recover(store, root, never) == 1
    assert body(path, exchange.id) == exchange.received


def test_a_directory_that_is_no_journal_is_left_alone(store: Store, root: Path) -> None:
    """Whoever names a wrong folder as that of the journals loses nothing by it."""
    precious = root / "photos"
    (precious / "2026").mkdir(parents=True)
    (precious / "000001.seg").write_bytes(b"not ours")
    (root / "link").symlink_to(precious)
    before = sorted(root.rglob("*"))
    assert recover(store, root, never) == 0
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("content", [b"rec-jnl\x03", b"something else"])
def test_a_journal_that_cannot_be_read_keeps_no_other_from_being_recovered(
    store: Store, root: Path, path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "aaaa").mkdir(parents=True)
    (root / "aaaa" / "000001.seg").write_bytes(content)
    journal = Journal(root, "bbbb")
    exchange = Exchange(journal).chunk(COMPLETED).end()
    journal.close()
    assert recover(store, root, never) == 1
    assert body(path, exchange.id) == exchange.received
    assert (root / "aaaa" / "000001.seg").read_bytes() == content
    assert "is left as it is" in caplog.text


def test_bodies_that_inflate_are_committed_piece_by_piece(
    store: Store, journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "COMMIT_BYTES", 1000)
    commits: list[int] = []
    append = store.append

    def counting(events: Sequence[Event]) -> None:
        commits.append(len(events))
        append(events)

    monkeypatch.setattr(store, "append", counting)
    exchanges = [
        Exchange(journal).chunk(b"data: " + b"x" * 600 + b"\n\n" + COMPLETED).end()
        for _ in range(10)
    ]
    Ingester(store, journal.directory, never).drain()
    assert len(commits) >= 5
    for exchange in exchanges:
        assert body(path, exchange.id) == exchange.received


def test_what_was_carried_over_is_read_back_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BLOCK_BYTES", 7)
    place = Position(3, 40)
    records = [Record(n, Mark.CHUNK, n, b"payload" * n, START) for n in range(20)]
    reader.write_carried(tmp_path, place, records)
    assert [record[:4] for record in reader.read_carried(tmp_path, place)] == [
        record[:4] for record in records
    ]
    reader.drop_carried(tmp_path, but=place)
    assert reader.carried_path(tmp_path, place).exists()
    reader.drop_carried(tmp_path, but=Position(4, 0))
    assert list(tmp_path.iterdir()) == []


def test_the_end_is_never_before_the_events_it_ends(store: Store, root: Path, path: Path) -> None:
    journal = Journal(root, "dead")
    exchange = Exchange(journal)
    journal.close()
    recover(store, root, never)
    times = [
        t_ns
        for (t_ns,) in query(
            path, "SELECT t_ns FROM events WHERE exchange_id = ? ORDER BY pos", exchange.id
        )
    ]
    assert times == sorted(times)


def test_a_record_that_makes_no_sense_ends_its_exchange_with_a_gap(
    store: Store, journal: Journal, path: Path
) -> None:
    exchange = Exchange(journal).chunk(b"data: 1\n\n")
    exchange._write(Mark.RESPONSE, b"not JSON")
    exchange.chunk(COMPLETED).end()
    other = Exchange(journal).chunk(COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    assert body(path, exchange.id) == b"data: 1\n\n"
    assert not ending(path, exchange.id).lossless
    assert "makes no sense" in str(ending(path, exchange.id).error)
    assert ending(path, other.id).lossless


def test_damage_in_the_journal_is_a_gap_in_every_open_exchange(
    store: Store, journal: Journal, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = Exchange(journal).chunk(COMPLETED).end()
    open_ = Exchange(journal).chunk(b"data: 1\n\n")
    at = (journal.directory / "000001.seg").stat().st_size
    open_.chunk(b"data: lost\n\n")
    while len(segment_numbers(journal.directory)) < 2:
        open_.chunk(b"data: lost too\n\n")
    open_.chunk(b"data: last\n\n" + COMPLETED).end()
    with open(journal.directory / "000001.seg", "r+b") as segment:
        segment.seek(at + 30)
        segment.write(b"\xff")
    Ingester(store, journal.directory, never).drain()
    assert "damaged" in caplog.text
    assert ending(path, before.id).lossless
    assert not ending(path, open_.id).lossless
    kept = body(path, open_.id)
    assert kept.startswith(b"data: 1\n\n")
    assert kept.endswith(b"data: last\n\n" + COMPLETED)


def test_a_request_body_over_the_limit_keeps_its_beginning(
    store: Store, journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.ingest.assembler.REQUEST_LIMIT", 10)
    tape = journal.exchange()
    head = RequestHead(
        uuid7(1, bytes(10)), uuid7(2, bytes(10)), 3, "POST", "/v1/responses", "openai", []
    )
    tape.write(Mark.REQUEST, 1, msgspec.json.encode(head))
    for piece in (b"12345", b"678901234", b"9"):
        tape.write(Mark.REQUEST_BODY, 2, piece)
    tape.write(Mark.REQUEST_END, 3, msgspec.json.encode(RequestEnd(True)))
    tape.end(4, msgspec.json.encode(ExchangeEnd("eof")))
    Ingester(store, journal.directory, never).drain()
    [(raw,)] = query(path, "SELECT raw FROM events WHERE type = 'body'")
    assert raw == b"12345"
    assert not ending(path, head.exchange_id).lossless


def test_an_exchange_that_contradicts_the_log_costs_no_other(
    store: Store, journal: Journal, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Exchange(journal).chunk(COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    before = rows(path)
    liar = Exchange(journal, b'{"other": 1}', exchange_id=first.id).chunk(b"data: other\n\n").end()
    other = Exchange(journal).chunk(COMPLETED).end()
    Ingester(store, journal.directory, never).drain()
    assert [row for row in rows(path) if row[1] == first.id] == before
    assert body(path, other.id) == other.received
    assert liar.id != first.id
    assert first.id in caplog.text


def test_an_exchange_that_goes_on_otherwise_than_the_log_ends_there_with_a_gap(
    store: Store, journal: Journal, path: Path
) -> None:
    exchange = Exchange(journal).chunk(b"data: 1\n\n")
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    [(session_id,)] = query(path, "SELECT session_id FROM sessions")
    with store.transaction():
        last = store.last_event(session_id, exchange.id)
        assert last is not None
        other = Capture.after(last)
        store.append(other.chunk(last.t_ns, b"somebody else's"))
    exchange.chunk(b"data: 2\n\n")
    ingester.drain()
    exchange.chunk(COMPLETED).end()
    ingester.drain()
    kinds = [
        kind
        for (kind,) in query(
            path, "SELECT kind FROM events WHERE exchange_id = ? ORDER BY pos", exchange.id
        )
    ]
    assert kinds[-4:] == ["frame", "body", "gap", "end"]
    end = ending(path, exchange.id)
    assert (end.status, end.lossless) == ("recorder_crash", False)
    assert "contradicts the log" in str(end.error)


def test_a_gap_in_the_journal_is_a_gap_in_the_log(store: Store, root: Path, path: Path) -> None:
    journal = Journal(root, "r", limit_bytes=3000)
    exchange = Exchange(journal).chunks([b"data: %060d\n\n" % number for number in range(60)]).end()
    journal.close()
    recover(store, root, never)
    end = ending(path, exchange.id)
    kept = body(path, exchange.id)
    assert exchange.received.startswith(kept)
    assert end.gap_bytes == len(exchange.received) - len(kept)
    assert end.wire_bytes == len(exchange.received)
    assert not end.lossless
    [(gap,)] = query(path, "SELECT raw FROM events WHERE kind = 'gap'")
    assert json.loads(gap)["reason"] == "the journal is at its bound"


def names(path: Path) -> list[tuple[str, str, int]]:
    return query(
        path,
        "SELECT name, source, count(*) FROM sessions JOIN exchanges USING (session_id) GROUP BY session_id ORDER BY 1",
    )


def test_exchanges_of_one_name_share_a_session_over_commits_and_recorders(
    store: Store, root: Path, path: Path
) -> None:
    for number in range(2):
        journal = Journal(root, f"r{number}")
        for _ in range(2):
            Exchange(journal, session="refactoring", session_source="path").end()
        journal.close()
        recover(store, root, never)
    assert names(path) == [("refactoring", "path", 4)]


def test_a_name_that_the_user_gave_is_one_session_wherever_it_stands(
    store: Store, journal: Journal, path: Path
) -> None:
    ingester = Ingester(store, journal.directory, never)
    for source in ("path", "header", "path"):
        Exchange(journal, session="mine", session_source=source).end()
        Exchange(journal, session="mine", session_source=source).end()
        ingester.drain()
    Exchange(journal, b'{"prompt_cache_key":"mine"}').end()
    ingester.drain()
    assert names(path) == [("mine", "path", 6), ("mine", "prompt_cache_key", 1)]


def test_a_response_that_continues_another_joins_its_session(
    store: Store, journal: Journal, path: Path
) -> None:
    created = b'data: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    first = Exchange(journal).chunk(created + COMPLETED).end()
    Exchange(journal, b'{"previous_response_id":"resp_1"}').chunk(
        created.replace(b"_1", b"_2") + COMPLETED
    ).end()
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    Exchange(journal, b'{"previous_response_id":"resp_2"}').chunk(COMPLETED).end()
    Exchange(journal).chunk(COMPLETED).end()
    ingester.drain()
    assert session_size(path, first) == 3
    assert len(names(path)) == 2


def test_a_client_goes_on_with_the_last_of_the_ids_that_rotate(
    store: Store, journal: Journal, path: Path
) -> None:
    """As GitHub Copilot sends them; behind more events than are searched for the first id."""
    frames = [
        *(("response.created", "resp_1"), ("response.in_progress", "resp_2")),
        *[("response.output_text.delta", "")] * 40,
        ("response.completed", "resp_3"),
    ]
    told = [
        json.dumps({"type": type, "delta": "x", "response": {"id": id, "output": []}})
        for type, id in frames
    ]
    first = Exchange(journal).chunk("".join(f"data: {each}\n\n" for each in told).encode()).end()
    ingester = Ingester(store, journal.directory, never)
    ingester.drain()
    for response_id in ("resp_1", "resp_2", "resp_3"):
        Exchange(journal, json.dumps({"previous_response_id": response_id}).encode()).chunk(
            COMPLETED
        ).end()
        ingester.drain()
    assert session_size(path, first) == 4


def test_a_session_without_a_name_is_called_after_its_client(
    store: Store, journal: Journal, path: Path
) -> None:
    Exchange(journal).end()
    Ingester(store, journal.directory, never).drain()
    [(name, source, count)] = names(path)
    assert (name.startswith("openai-python-"), source, count) == (True, "new", 1)
