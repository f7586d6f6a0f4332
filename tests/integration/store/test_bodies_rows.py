"""Request bodies that repeat each other take little room, and nobody who reads them knows."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.errors import StoreConflictError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.model.chain import link, row_root
from recorder.model.events import Event, Exchange
from recorder.model.jsonl import event_line, read_event
from recorder.store.bodies.rows import events_as_they_are, whole_events
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import list_sessions
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from tests.integration.ingest import test_ingester
from tests.integration.ingest.test_ingester import COMPLETED, never
from tests.support.agents import AGENTS, bodies
from tests.support.empty_log import empty
from tests.support.rows import make_exchange, make_session
from tests.support.server import run
from tests.support.superuser import unguard, writable

ROWS = "SELECT * FROM events ORDER BY session_id, exchange_id, pos"
BODIES = "SELECT type, raw FROM events WHERE kind = 'request' AND pos > 0 ORDER BY exchange_id, pos"
AGENT = [("user-agent", "codex/1"), ("originator", "codex"), ("session-id", "one")]


def ask(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with store.transaction():
        return [tuple(row) for row in store.ask(Statement(sql), {})]


def types(store: Store) -> list[str]:
    return [type for type, _ in ask(store, BODIES)]


class Recorder:
    """A recorder and its ingester, for a database in a file or on a server."""

    def __init__(self, store: Store, root: Path) -> None:
        self.journal = Journal(root, "recorder-1")
        self.ingester = Ingester(store, root / "recorder-1", never)

    def tell(self, body: bytes, target: str = "/v1/responses") -> test_ingester.Exchange:
        time.sleep(0.002)  # the ids of one millisecond are in any order
        exchange = test_ingester.Exchange(self.journal, body, target=target, headers=AGENT)
        return exchange.chunk(COMPLETED).end()

    def record(self, body: bytes, target: str = "/v1/responses") -> None:
        self.tell(body, target)
        self.ingester.step()


async def read(url: URL) -> list[tuple[Exchange, list[Event]]]:
    """All exchanges, in order of their start, as every reader has them."""
    async with await LogReader.open(url) as log:
        found = [
            exchange
            for row in await list_sessions(log)
            for exchange in await log.exchanges(row.session_id)
        ]
        found.sort(key=lambda exchange: exchange.started_ns)
        return [
            (each, [event async for event in log.events(each.session_id, each.exchange_id)])
            for each in found
        ]


def body_of(events: Iterable[Event]) -> bytes:
    return b"".join(
        event.raw for event in events if event.kind == "request" and event.type == "body"
    )


async def assert_as_sent(url: URL, sent: Sequence[bytes]) -> None:
    """Byte for byte, and in the chain of hashes."""
    told = await read(url)
    assert [body_of(events) for _, events in told] == list(sent)
    for exchange, events in told:
        assert not findings(exchange, events)


def findings(exchange: Exchange, events: Iterable[Event]) -> list[Any]:
    verifier = ChainVerifier(exchange.session_id, exchange.exchange_id, exchange)
    for event in events:
        verifier.feed(event)
    return verifier.close()


def request(exchange: Exchange, *parts: bytes) -> list[Event]:
    """The events of a request, chained."""
    chained, made = row_root(exchange), []
    for pos, raw in enumerate((b"{}", *parts)):
        fields: tuple[Any, ...] = (
            pos,
            "request",
            0,
            "body" if pos else None,
            None,
            None,
            None,
            raw,
            None,
            None,
        )
        chained = link(chained, *fields)
        made.append(Event(*(exchange.session_id, exchange.exchange_id, *fields, chained)))
    return made


def begin(store: Store, *numbers: int) -> list[Exchange]:
    """Exchanges of one session."""
    session = make_session(1)
    made = [make_exchange(session, number) for number in numbers]
    with store.transaction():
        store.add_session(session)
        for exchange in made:
            store.add_exchange(exchange)
    return made


def append(store: Store, *events: Sequence[Event]) -> None:
    with store.transaction():
        store.append([event for each in events for event in each])


def history(count: int) -> list[bytes]:
    return bodies("openai-responses", count)


# -- fifty turns of an agent, from the journal to the log


@pytest.mark.long
@pytest.mark.parametrize(
    ("api", "database"),
    [*((api, "sqlite") for api in AGENTS), ("openai-responses", "postgresql")],
    indirect=["database"],
)
async def test_a_history_that_is_sent_again_and_again_is_stored_once(
    either: Store, tmp_path: Path, api: str
) -> None:
    sent, recorder = bodies(api), Recorder(either, tmp_path / "journal")
    for body in sent:
        recorder.record(body, AGENTS[api][0])
    stored = sum(len(raw) for _, raw in ask(either, BODIES))
    assert stored < 1.5 * len(sent[-1]) < sum(map(len, sent)) / 15
    await assert_as_sent(either.url, sent)
    assert ask(either, "SELECT count(*) FROM sessions") == [(1,)]


def grown(path: Path, sent: Sequence[bytes]) -> int:
    """By how many bytes a file grows, on the disk."""
    with Store(empty(path)) as store:
        recorder = Recorder(store, path.with_suffix(".journal"))
        store.checkpoint()
        before = path.stat().st_size
        for body in sent:
            recorder.record(body)
        store.checkpoint()
        return path.stat().st_size - before


@pytest.mark.long
def test_so_is_its_room_on_the_disk(tmp_path: Path) -> None:
    """Beside the bodies, there are the responses and what all comes to: that is there without a
    history too.
    """
    sent = history(50)
    last_only = [body if body is sent[-1] else b"{}" for body in sent]
    assert grown(tmp_path / "all.db", sent) - grown(tmp_path / "last.db", last_only) < 2 * len(
        sent[-1]
    )


async def test_a_body_in_several_parts_is_shared_part_by_part(store: Store, tmp_path: Path) -> None:
    recorder = Recorder(store, tmp_path / "journal")
    first = b"".join(history(40))
    sent = [first, b'{"in front":1},' + first, b'{"in front":1},' + first + b"behind"]
    assert len(first) > 3 * 2**18
    for body in sent:
        recorder.record(body)
    assert sum(len(raw) for _, raw in ask(store, BODIES)) < 1.1 * len(first)
    await assert_as_sent(store.url, sent)


async def test_what_comes_in_one_commit_is_shared_too(store: Store, tmp_path: Path) -> None:
    sent, recorder = history(12), Recorder(store, tmp_path / "journal")
    for body in sent:
        recorder.tell(body)
    recorder.ingester.drain()
    assert types(store) == ["body"] + ["shared"] * 11
    await assert_as_sent(store.url, sent)


def test_an_export_has_the_bodies_and_its_import_shares_them_again(tmp_path: Path) -> None:
    sent, path, other = history(12), tmp_path / "one.db", tmp_path / "other.db"
    with Store(empty(path)) as store:
        recorder = Recorder(store, tmp_path / "journal")
        for body in sent:
            recorder.record(body)
        recorder.journal.close()
    exported = run(path, "export", "latest", "--db", path)
    (tmp_path / "session.jsonl").write_bytes(exported.out)
    assert b'"shared"' not in exported.out
    assert run(other, "import", tmp_path / "session.jsonl", "--db", other).code == 0
    with Store(other) as store:
        assert "shared" in types(store)
        assert sum(len(raw) for _, raw in ask(store, BODIES)) < 3 * len(sent[-1])
        asyncio.run(assert_as_sent(store.url, sent))
    assert run(other, "verify", "--db", other).code == 0


# -- what a recipe may refer to


def test_what_was_rolled_back_is_referred_to_by_nobody(store: Store) -> None:
    first, second, third = begin(store, 1, 2, 3)
    one, two, three = history(3)

    def break_off() -> None:
        with store.transaction():
            store.append(request(first, one))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    append(store, request(second, two))
    assert types(store) == ["body"]
    append(store, request(third, three))
    assert types(store) == ["body", "shared"]


async def test_a_transaction_that_is_told_again_changes_nothing(either: Store) -> None:
    exchanges, sent = begin(either, 1, 2, 3, 4), history(4)
    told = [request(exchange, body) for exchange, body in zip(exchanges, sent, strict=True)]
    for each in told[:3]:
        append(either, each)
    before = ask(either, ROWS)
    for each in told[:3]:
        append(either, each)  # by the same writer, who knows them
    append(either, *told[:3])
    assert ask(either, ROWS) == before
    with Store(either.url) as another:  # who knows nothing
        append(another, *told)
        assert [tuple(row) for row in ask(another, ROWS)][: len(before)] == before
    await assert_told(either.url, told)


async def assert_told(url: URL, told: Sequence[Sequence[Event]]) -> None:
    assert [events for _, events in await read(url)] == list(told)


async def test_nobody_refers_to_a_row_that_stood_there_in_another_form(either: Store) -> None:
    """What is told for the second time is a recipe where it stands, and would be whole if it were
    told as it comes.
    """
    exchanges, sent = begin(either, 1, 2, 3, 4), history(4)
    told = [request(exchange, body) for exchange, body in zip(exchanges, sent, strict=True)]
    append(either, told[0])
    append(either, told[1])
    assert types(either) == ["body", "shared"]
    with Store(either.url) as another:
        append(another, told[1])
        append(another, told[2])
        append(another, told[3])
    assert types(either) == ["body", "shared", "body", "shared"]
    await assert_told(either.url, told)


async def test_several_recorders_of_one_session_do_not_wait_for_each_other(either: Store) -> None:
    exchanges, sent = begin(either, *range(1, 9)), history(8)
    told = [request(exchange, body) for exchange, body in zip(exchanges, sent, strict=True)]
    with Store(either.url) as another:
        for number, each in enumerate(told):
            append((either, another)[number % 2], each)
    assert types(either) == ["body"] * 2 + ["shared"] * 6
    await assert_told(either.url, told)


async def test_other_content_is_still_refused(either: Store) -> None:
    (first, second), sent = begin(either, 1, 2), history(2)
    told = [request(first, sent[0]), request(second, sent[1])]
    append(either, *told)
    for other in (request(second, sent[0]), [msgspec.structs.replace(told[1][1], t_ns=7)]):
        with pytest.raises(StoreConflictError, match="other content stands at that key"):
            append(either, other)
    await assert_told(either.url, told)


async def test_an_exchange_that_is_refused_takes_no_body_of_others_with_it(
    store: Store, tmp_path: Path
) -> None:
    sent, recorder = history(6), Recorder(store, tmp_path / "journal")
    recorder.record(sent[0])
    told = [recorder.tell(body) for body in sent[1:]]
    [(session_id,)] = ask(store, "SELECT session_id FROM sessions")
    with store.transaction():
        store.add_exchange(
            make_exchange(make_session(1, session_id=session_id), exchange_id=told[1].id)
        )
    recorder.ingester.step()
    found = await read(store.url)
    by_id = {exchange.exchange_id: body_of(events) for exchange, events in found}
    assert [by_id[each.id] for each in told] == [sent[1], b"", *sent[3:]]
    assert [bool(events) and events[-1].kind == "end" for _, events in found].count(True) == 5
    assert "shared" in types(store)


async def test_a_journal_that_is_told_again_after_a_crash_is_skipped(
    store: Store, tmp_path: Path
) -> None:
    sent, root = history(6), tmp_path / "journal"
    recorder = Recorder(store, root)
    for body in sent[:3]:
        recorder.tell(body)
    shutil.copytree(root, tmp_path / "crashed")
    for _ in range(3):
        recorder.ingester.drain()
    for body in sent[3:]:
        recorder.record(body)
    before = ask(store, ROWS)
    with store.transaction():
        store.forget_offset("recorder-1")
    with Store(store.url) as another:
        Ingester(another, tmp_path / "crashed" / "recorder-1", never).drain()
        assert ask(another, ROWS) == before
    await assert_as_sent(store.url, sent)


def test_no_event_has_the_type_of_a_recipe(store: Store) -> None:
    (exchange,) = begin(store, 1)
    event = msgspec.structs.replace(request(exchange, b"x")[1], type="shared")
    with pytest.raises(StoreConflictError, match="no event has the type 'shared'"):
        append(store, [event])
    with pytest.raises(ValueError, match="the type of a row that is not an event"):
        read_event(event_line(event))


def test_the_last_event_of_an_exchange_is_whole(store: Store) -> None:
    (first, second), sent = begin(store, 1, 2), history(2)
    told = [request(first, sent[0]), request(second, sent[1])]
    append(store, *told)
    with store.transaction():
        assert store.last_event(second.session_id, second.exchange_id) == told[1][-1]


# -- damage


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A file with a body and two that share with it, and a connection that may change them."""
    path = tmp_path / "log.db"
    with Store(empty(path)) as store:
        recorder = Recorder(store, tmp_path / "journal")
        for body in history(3):
            recorder.record(body)
        assert types(store) == ["body", "shared", "shared"]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        unguard(connection)
        writable(connection)
        yield path, connection


BREAKS = {
    "the row that it needs is gone": "DELETE FROM events WHERE type = 'body'",
    "the row that it needs is another": "UPDATE events SET kind = 'note' WHERE type = 'body'",
    "the row that it needs is shorter": "UPDATE events SET raw = x'7b' WHERE type = 'body'",
    "it is not a recipe": "UPDATE events SET raw = x'7b' WHERE type = 'shared'",
}


@pytest.mark.parametrize("sql", BREAKS.values(), ids=BREAKS.keys())
def test_a_body_that_cannot_be_put_together_is_found_and_said(
    damaged: tuple[Path, sqlite3.Connection], sql: str
) -> None:
    path, connection = damaged
    connection.execute(sql)
    verified = run(path, "verify", "--db", path)
    assert verified.code == 4
    assert b"its hash follows from neither" in verified.out
    shown = run(path, "export", "latest", "--db", path)
    assert shown.code == 1
    assert "cannot be put together" in shown.err
    assert "recorder verify" in shown.err


def test_its_exchange_is_put_aside_by_a_rebuild_and_the_others_are_not(
    damaged: tuple[Path, sqlite3.Connection],
) -> None:
    path, connection = damaged
    connection.execute(
        "UPDATE events SET raw = x'7b' WHERE type = 'shared' AND exchange_id = (SELECT max(exchange_id) FROM events)"
    )
    run(path, "db", "rebuild", "--db", path)
    [(reason,)] = connection.execute("SELECT reason FROM dead_letters").fetchall()
    assert "a recipe is not valid" in reason
    assert connection.execute("SELECT count(*) FROM p_exchanges_v1").fetchone() == (2,)


def test_every_bit_that_flips_is_found(damaged: tuple[Path, sqlite3.Connection]) -> None:
    """But for those that change nothing of what is inflated: padding, or another distance to the
    same bytes.
    """
    _, connection = damaged
    rows = connection.execute(ROWS).fetchall()
    exchanges = [
        Exchange(*row) for row in connection.execute("SELECT * FROM exchanges ORDER BY exchange_id")
    ]
    sound = read_from(rows)
    assert not any(findings(each, sound[each.exchange_id]) for each in exchanges)
    for number in [number for number, row in enumerate(rows) if row[KIND] == "request" and row[2]]:
        whole, missed = rows[number][RAW], 0
        for at in range(0, len(whole), max(1, len(whole) // 150)):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            changed = [*rows]
            changed[number] = (*rows[number][:RAW], bytes(flipped), *rows[number][RAW + 1 :])
            told = read_from(changed)
            if told == sound:
                assert zlib.decompress(flipped) == zlib.decompress(whole), (number, at)
                missed += 1
            else:
                assert any(findings(each, told[each.exchange_id]) for each in exchanges), (
                    number,
                    at,
                )
        assert missed <= len(range(0, len(whole), max(1, len(whole) // 150))) // 20


KIND, TYPE, RAW = (Event.__struct_fields__.index(name) for name in ("kind", "type", "raw"))


def read_from(rows: Sequence[Sequence[Any]]) -> dict[str, list[Event]]:
    """The events of rows, by exchange, with nothing but these rows."""
    held = {(row[1], row[2]): (row[1], row[2], row[TYPE], row[RAW]) for row in rows}

    def answer(_: Statement, values: Any) -> list[Any]:
        places = [(each["x"], each["pos"]) for each in msgspec.json.decode(values["places"])]
        return [held[place] for place in places if place in held]

    found: dict[str, list[Event]] = {}
    for event in events_as_they_are(rows, answer):
        found.setdefault(event.exchange_id, []).append(event)
    return found


def test_what_stands_whole_is_read_without_a_question(store: Store) -> None:
    (exchange,) = begin(store, 1)
    events = request(exchange, history(1)[0])
    append(store, events)
    assert list(whole_events(ask(store, ROWS), lambda *_: pytest.fail("nobody asks"))) == events
