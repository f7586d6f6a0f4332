"""What scrubbing, unreadable records and sessions known by history make of one journal together,
told over and over.

The measure is the same journal told once, by one ingester, before anything of it is overwritten.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.ingest import ingester as ingest
from recorder.ingest.capture import Capture
from recorder.ingest.ingester import Ingester
from recorder.ingest.pending import Batch
from recorder.journal import scrub, unreadable
from recorder.journal.format import MAGIC, START, Mark, Position, Record, parse
from recorder.journal.reader import segment_name, segment_numbers
from recorder.journal.writer import Journal
from recorder.model.events import GapRecord
from recorder.store.write.retry import Uncommitted
from recorder.store.write.writer import Store
from recorder.wire import request_body
from recorder.wire.dialects import Keys
from recorder.wire.framing.sse import Piece
from tests.integration.ingest.test_ingester import Exchange, body, ending, never, query
from tests.support.empty_log import empty
from tests.support.server import run
from tests.unit.journal.test_scrub import Upload

POISON = b"data: poison"
UNREADABLE = b"nobody reads this"
SECRET = "sk-proj-0123456789abcdefghijABCDEFGHIJ"

Script = tuple[str, bytes, list[bytes]]
"""The target of a request, its body, and the chunks of its response."""

TARGET = "/v1/responses"


class Died(Exception):
    """An ingester ends by an exception that nobody expected."""


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """On some blocks the reading of keys raises, and on some requests what makes them ready for the
    log.
    """
    keys, recorded = Capture._keys, request_body.recorded_body

    def faulty_keys(self: Capture, piece: Piece) -> Keys:
        if POISON in piece.raw:
            raise TypeError("a fault of ours")
        return keys(self, piece)

    def faulty_body(head: Any, wire: bytes, *given: Any, **named: Any) -> Any:
        if UNREADABLE in wire:
            raise IndexError("a fault of ours")
        return recorded(head, wire, *given, **named)

    monkeypatch.setattr(Capture, "_keys", faulty_keys)
    monkeypatch.setattr(request_body, "recorded_body", faulty_body)
    monkeypatch.setattr(scrub, "SCRUB_S", 0)
    monkeypatch.setattr("tests.integration.ingest.test_ingester.time.monotonic_ns", lambda: 7)


def asked(*said: tuple[str, str]) -> bytes:
    """A request of the Responses API that repeats its conversation."""
    turns = [{"role": role, "content": text} for role, text in said]
    return json.dumps({"model": "m", "input": turns, "user": SECRET}).encode()


def answer(text: str, noise: random.Random) -> list[bytes]:
    """A stream that says it, in chunks that cut it anywhere."""
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    response = {"id": f"resp_{text}", "status": "completed", "output": [item]}
    frames = [
        b'data: {"type":"x","pad":"%s"}\n\n' % (b"p" * noise.randrange(300)) for _ in range(4)
    ]
    frames.append(
        b"data: "
        + json.dumps({"type": "response.completed", "response": response}).encode()
        + b"\n\n"
    )
    return cut(b"".join(frames), noise)


def cut(data: bytes, noise: random.Random) -> list[bytes]:
    cuts = sorted(noise.randrange(len(data)) for _ in range(8))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


def begun(poison: bytes, noise: random.Random) -> Script:
    """A session of a hosted agent, which its answer names, in an event behind what may not be read."""
    named = b'data: {"type":"agent.session.turn.created","session_id":"asess_1"}\n\n'
    return (
        "/v1/agents/sessions",
        asked(("user", "begin")),
        cut(poison + b": \n\n" + named * 5, noise),
    )


def scripts(noise: random.Random) -> list[Script]:
    """A conversation of three turns, and between them what cannot be read, and sessions that their
    answers name.
    """
    poisoned = (
        b"data: 1\n\n" * noise.randrange(5) + POISON + b"\n\ndata: 2\n\n" * noise.randrange(1, 5)
    )
    talk = [
        ("user", "one"),
        ("assistant", "A"),
        ("user", "two"),
        ("assistant", "B"),
        ("user", "three"),
    ]
    return [
        (TARGET, asked(*talk[:1]), answer("A", noise)),
        (TARGET, asked(("user", "poisoned")), cut(poisoned, noise)),
        begun(b"", noise),
        (TARGET, asked(*talk[:3]), answer("B", noise)),
        (TARGET, asked(("user", UNREADABLE.decode())), answer("C", noise)),
        begun(poisoned, noise),
        (TARGET, asked(*talk), answer("D", noise)),
    ]


def mortal(noise: random.Random, store: Store, directory: Path) -> Ingester:
    """An ingester that may die before a commit, behind it, and behind what is overwritten then."""
    write, overwrite = Ingester._write, scrub.RequestBodyScrubber.scrub

    def dies(do: Callable[[], None]) -> None:
        at = noise.random()
        if at < 0.15:
            raise Died
        do()
        if at > 0.85:
            raise Died

    class Mortal(Ingester):
        def _write(self, batch: Batch, place: Position | None) -> None:
            dies(lambda: write(self, batch, place))

    ingester = Mortal(store, directory, never)
    theirs = ingester._scrubber
    theirs.scrub = lambda place, open_=(): dies(lambda: overwrite(theirs, place, open_))  # type: ignore[method-assign]
    return ingester


def all_rows(path: Path) -> dict[str, list[Any]]:
    tables = {
        "sessions": "session_id",
        "exchanges": "exchange_id",
        "events": "session_id, exchange_id, pos",
    }
    return {
        table: query(path, f"SELECT * FROM {table} ORDER BY {order}")
        for table, order in tables.items()
    }


def kept(root: Path) -> dict[str, list[tuple[int, int, bytes]]]:
    """What is put aside, by file."""
    files = {
        each.path.name: each.path.read_bytes()[len(MAGIC) :]
        for each in unreadable.unreadable_files(root)
    }
    return {
        name: [(each[0], each[1], each[3]) for each in parse(data, START)]
        for name, data in files.items()
    }


def standing(directory: Path) -> list[Record]:
    """The request bodies in a journal."""
    files = [
        path.read_bytes()[len(MAGIC) :]
        for path in directory.iterdir()
        if path.name.endswith(".seg")
    ]
    files += [path.read_bytes()[len(MAGIC) :] for path in directory.glob("carried-*")]
    return [
        record
        for data in files
        for record in parse(data, START)
        if record.mark == Mark.REQUEST_BODY
    ]


def assert_all_is_counted(path: Path, exchange: Exchange) -> None:
    """Received is stored and counted, byte for byte."""
    stored = body(path, exchange.id)
    assert exchange.received.startswith(stored)
    rest = exchange.received[len(stored) :]
    raws = query(path, "SELECT raw FROM events WHERE exchange_id = ? AND kind = 'gap'", exchange.id)
    lost = [
        gap for (raw,) in raws if (gap := msgspec.json.decode(raw, type=GapRecord)).of == "response"
    ]
    assert sum(gap.size_bytes for gap in lost) == len(rest)
    assert [gap.sha256 for gap in lost if gap.chunks] == (
        [sha256(rest).hexdigest()] if rest else []
    )
    assert ending(path, exchange.id).wire_bytes == len(exchange.received)


def tell_dying(noise: random.Random, store: Store, directory: Path) -> None:
    with suppress(Died, Uncommitted):
        mortal(noise, store, directory).drain()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_whatever_dies_and_wherever_the_log_is_the_same(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = random.Random(seed)
    monkeypatch.setattr(ingest, "CARRY_SEGMENTS", noise.choice([0, 1, 4]))
    size = noise.choice([600, 2_000, 100_000])
    roots = [tmp_path / name / "recorder.db.journal" for name in ("once", "often")]
    journals = [Journal(root, "r", segment_bytes=size) for root in roots]
    paths = [root.parent / "recorder.db" for root in roots]
    stores = [Store(empty(path)) for path in paths]
    told: list[Exchange] = []
    left: list[tuple[list[Exchange], list[bytes]]] = []
    coming = scripts(noise)

    while coming or left:
        if coming and (not left or noise.random() < 0.15):
            target, request, chunks = coming.pop(0)
            number = len(told)
            head: dict[str, Any] = {
                "exchange_id": f"01890000-0000-7000-8000-00000000010{number}",
                "session_id": f"01890000-0000-7000-8000-00000000020{number}",
                "started_ns": 1,
                "target": target,
            }
            both = [Exchange(each, request, **head) for each in journals]
            both[1].id = head["exchange_id"]
            told.append(both[1])
            left.append((both, chunks))
        else:
            both, chunks = noise.choice(left)
            for exchange in both:
                exchange.chunk(chunks[0]) if chunks else exchange.end()
            if not chunks:
                left = [each for each in left if each[1] is not chunks]
            del chunks[:1]
        if noise.random() < 0.4:
            tell_dying(noise, stores[1], journals[1].directory)
    for store, journal in zip(stores, journals, strict=True):
        Ingester(store, journal.directory, never).drain()
    for exchange in told:
        assert_all_is_counted(paths[1], exchange)
    assert kept(roots[1]) == kept(roots[0])
    assert all_rows(paths[1]) == all_rows(paths[0])
    assert len(query(paths[1], "SELECT DISTINCT session_id FROM exchanges")) in (3, 4, 5)
    in_log = [
        each.payload for each in standing(journals[1].directory) if UNREADABLE not in each.payload
    ]
    assert in_log == []
    for store, journal in zip(stores, journals, strict=True):
        journal.close()
        store.close()
    assert run(paths[1], "verify").code == 0


def test_what_can_be_read_by_the_next_version_was_counted_by_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told again it is another story; but the log has its end, and nothing came late."""
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    open_ = Exchange(journal, asked(("user", "open")))
    unread = (
        Exchange(journal, asked(("user", "poisoned")))
        .chunk(b"data: 1\n\n")
        .chunk(POISON + b"\n\n")
        .end()
    )
    with Store(path) as store:
        Ingester(store, journal.directory, never).drain()
        before = query(path, "SELECT * FROM events WHERE exchange_id = ? ORDER BY pos", unread.id)
        monkeypatch.undo()
        open_.chunk(b"data: 1\n\n").end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    assert (
        query(path, "SELECT * FROM events WHERE exchange_id = ? ORDER BY pos", unread.id) == before
    )
    assert_all_is_counted(path, unread)
    assert ending(path, open_.id).lossless


def test_damage_is_carried_over_with_what_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "CARRY_SEGMENTS", 0)
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r", segment_bytes=600)
    upload, long = Upload(journal).sends(b"half"), Exchange(journal, b'{"input": "a question"}')
    while len(segment_numbers(journal.directory)) < 3:
        long.chunk(b"data: 1\n\n")
    damaged = journal.directory / segment_name(2)
    data = bytearray(damaged.read_bytes())
    data[300] ^= 1
    damaged.write_bytes(data)
    with Store(path) as store:
        ingester = Ingester(store, journal.directory, never)
        while not list(journal.directory.glob("carried-*")):
            long.chunk(b"data: 2\n\n" * 10)
            ingester.drain()
        for _ in range(2):
            long.chunk(b"data: 3\n\n" * 10)
            ingester = Ingester(store, journal.directory, never)
            ingester.drain()
        long.chunk(b"data: 4\n\n").end()
        upload.sends(b"half").sent().end()
        ingester.drain()
    journal.close()
    assert body(path, long.id).endswith(b"data: 3\n\ndata: 4\n\n")
    assert ending(path, long.id).outcome == "eof"
    raws = query(
        path,
        "SELECT raw FROM events WHERE exchange_id IN (?, ?) AND kind = 'gap'",
        upload.id,
        long.id,
    )
    assert sorted(msgspec.json.decode(raw, type=GapRecord).of for (raw,) in raws) == [
        "request",
        "response",
    ]
    assert run(path, "verify").code == 0


def test_damage_is_carried_over_once_though_the_first_record_behind_it_asks_for_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    long = Exchange(journal).chunk(b"data: 1\n\n")
    journal._rotate()
    upload = Upload(journal).sends(b'{"previous_response_id":"resp_1"}')
    long.chunk(b"data: 2\n\n")
    journal._rotate()
    damaged = journal.directory / segment_name(2)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    upload.sent()
    with Store(path) as store:
        ingester = Ingester(store, journal.directory, never)
        ingester.step()
        ingester.step()
        monkeypatch.setattr(ingest, "CARRY_SEGMENTS", 0)
        ingester.step()
        assert list(journal.directory.glob("carried-*"))
        long.chunk(b"data: 3\n\n").end()
        upload.end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    assert body(path, long.id) == b"data: 1\n\ndata: 3\n\n"
    assert ending(path, long.id).outcome == ending(path, upload.id).outcome == "eof"
    assert len(query(path, "SELECT 1 FROM events WHERE kind = 'gap'")) == 2


def test_a_commit_that_fails_in_the_middle_of_a_request_is_no_fault_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told before the request is in that commit: it must be told again, by the next
    ingester.
    """
    path, noise = tmp_path / "recorder.db", random.Random(1)
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    first, second = (
        Exchange(journal, asked(("user", "one"))),
        asked(("user", "one"), ("assistant", "A"), ("user", "2")),
    )
    for chunk in answer("A", noise):
        first.chunk(chunk)
    first.end()
    next_ = Exchange(journal, second).chunk(b"".join(answer("B", noise))).end()

    def fails(self: Ingester, batch: Batch, place: Position | None) -> None:
        raise OSError(5, "Input/output error")

    with Store(path) as store:
        with monkeypatch.context() as broken:
            broken.setattr(Ingester, "_write", fails)
            with pytest.raises(Uncommitted, match="Input/output error"):
                Ingester(store, journal.directory, never).drain()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    for exchange in (first, next_):
        assert body(path, exchange.id) == exchange.received
        assert ending(path, exchange.id).lossless
    assert len(query(path, "SELECT DISTINCT session_id FROM exchanges")) == 1
