"""A session that is purged is in no file any more, and does not come back."""

from __future__ import annotations

import json
import logging
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.errors import NotFoundError, RecorderError, StoreConflictError
from recorder.ingest.ingester import Ingester
from recorder.journal.format import START, Position
from recorder.journal.scrub import scrub_exchanges
from recorder.journal.writer import Journal
from recorder.store.maintain.extents import last_hashes
from recorder.store.maintain.purge.delete import Archived, late_exchanges, purge, sweep
from recorder.store.maintain.purge.tombstone import Counts
from recorder.store.postgres import writer as postgres_writer
from recorder.store.postgres.rights import GRANTS
from recorder.store.queries.reader import LogReader
from recorder.store.queries.retention import RetentionPolicy, SessionSize, expired
from recorder.store.queries.session_list import list_sessions
from recorder.store.queries.session_named import session_named
from recorder.store.search import INDEX_NAMES
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import Exchange, body, never, query
from tests.support import superuser
from tests.support.empty_log import empty
from tests.support.rows import (
    START_NS,
    begin,
    make_end,
    make_events,
    make_exchange,
    make_id,
    make_session,
    of_type,
)
from tests.support.server import wait_until

RECORDER = "recorder-1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def store(database: URL) -> Iterator[Store]:
    with Store(database) as store:
        yield store


@pytest.fixture
def file(path: Path) -> Iterator[Store]:
    """A store of SQLite, where the claim is about its files."""
    with Store(empty(path)) as store:
        yield store


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal(Path(f"{path}.journal"), RECORDER, segment_bytes=20_000)
    yield journal
    journal.close()


def canary(name: str) -> str:
    """A word that no other session has."""
    return f"canary{name}canary"


def said(name: str, words: int = 30) -> list[bytes]:
    """A response that says the word of its session often, with noise between."""
    noise = random.Random(name)
    text = " ".join(f"{canary(name)}{noise.randrange(10**6)} {canary(name)}" for _ in range(words))
    item = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    payloads: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": f"resp-{name}", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *(
            {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": w}
            for w in text.split()
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {"id": f"resp-{name}", "status": "completed", "output": [item]},
        },
    ]
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in payloads]


def asked(journal: Journal, name: str) -> Exchange:
    """An exchange of the session of that name, begun."""
    result = {"type": "function_call_output", "call_id": "call_1", "output": canary(name)}
    words = [result, {"role": "user", "content": canary(name)}]
    question = json.dumps({"model": canary(name), "input": words}).encode()
    return Exchange(journal, question, session=canary(name), session_source="path")


def record(journal: Journal, *names: str, rounds: int = 1) -> list[Exchange]:
    """Sessions of these names, whose exchanges stream at the same time."""
    made = []
    for _ in range(rounds):
        exchanges = [asked(journal, name) for name in names]
        for chunks in zip(*(said(name) for name in names), strict=True):
            for exchange, chunk in zip(exchanges, chunks, strict=True):
                exchange.chunk(chunk)
        made += [exchange.end() for exchange in exchanges]
    return made


def session_id(database: Path | URL, name: str) -> str:
    [(found,)] = superuser.asked(
        database, "SELECT session_id FROM sessions WHERE name = ?", canary(name)
    )
    assert isinstance(found, str)
    return found


def purged(store: Store, name: str, *journals: str) -> Counts:
    counts = purge(store, session_id(store.url, name), "a secret", START_NS, journals)
    assert counts is not None
    return counts


def files_with(directory: Path, name: str) -> list[str]:
    """The files in which the word of a session stands."""
    files = (file for file in directory.rglob("*") if file.is_file())
    return sorted(file.name for file in files if canary(name).encode() in file.read_bytes())


def rest(database: Path | URL, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of the session of that name."""
    return rows_of(database, session_id(database, name))


def rows_of(database: Path | URL, session_id: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: sorted(
            superuser.asked(database, f"SELECT * FROM {table} WHERE session_id = ?", session_id),
            key=repr,
        )
        for table in superuser.tables(database)
    }


def found(database: Path | URL, name: str) -> int:
    return len(superuser.matching(database, canary(name)))


NAMES = tuple("qwertyuiop")


def test_of_purged_sessions_no_byte_is_left_and_of_others_every_one(
    file: Store, path: Path
) -> None:
    journal = Journal(path.parent / "elsewhere", RECORDER)
    for _ in range(6):  # many commits, so that the pages of sessions are split and joined
        record(journal, *NAMES)
        Ingester(file, journal.directory, never).drain()
    journal.close()
    for each in journal.directory.iterdir():
        each.unlink()
    kept = {name: rest(path, name) for name in NAMES[6:]}
    for name in NAMES[:6]:
        assert files_with(path.parent, name)
        purged(file, name)
        assert sweep(path)
    assert [files_with(path.parent, name) for name in NAMES[:6]] == [[]] * 6
    assert {name: rest(path, name) for name in NAMES[6:]} == kept
    assert all(found(path, name) for name in NAMES[6:])


def test_of_purged_sessions_no_row_is_left_and_of_others_every_one(
    store: Store, journal: Journal
) -> None:
    gone, stay = NAMES[:2], NAMES[2:4]
    record(journal, *gone, *stay, rounds=2)
    Ingester(store, journal.directory, never).drain()
    ids = {name: session_id(store.url, name) for name in gone}
    kept = {name: rest(store.url, name) for name in stay}
    counts = [purged(store, name) for name in gone]
    assert sweep(store.url)
    for name in gone:
        assert [table for table, rows in rows_of(store.url, ids[name]).items() if rows] == [
            "tombstones"
        ]
        assert found(store.url, name) == 0
    assert {name: rest(store.url, name) for name in stay} == kept
    assert all(found(store.url, name) for name in stay)
    assert all(each.exchanges == 2 for each in counts)


def interleaved(store: Store, seed: int) -> list[str]:
    """Sessions that stream at the same time, at different speeds; their ids."""
    noise = random.Random(seed)
    told = {}
    for number in range(1, 13):
        exchange = begin(store, number)
        sizes = [noise.randrange(noise.choice((300, 20_000))) for _ in range(80)]
        marked = [canary(exchange.session_id).encode() + bytes(size) for size in sizes]
        told[exchange.session_id] = make_events(exchange, marked)
    while any(told.values()):
        with store.transaction():
            for events in noise.choices(list(told.values()), k=20):
                store.append(events[:1])
                del events[:1]
    return noise.sample(sorted(told), 8)


@pytest.mark.parametrize("vacuum", [True, False])
def test_only_a_new_file_has_no_copies_of_what_was_moved_in_it(
    tmp_path: Path, vacuum: bool
) -> None:
    """Deleting overwrites a row where it stands; where it stood before a page was split or joined,
    nothing does.
    """
    left = []
    for seed in range(4):
        with Store(tmp_path / f"{seed}" / "log.db") as store:
            for each in interleaved(store, seed):
                purge(store, each, "", 0)
                assert sweep(store.path, vacuum=vacuum)
                left += files_with(store.path.parent, each)
    assert (left == []) is vacuum


def test_without_a_sweep_the_words_would_still_be_there(
    file: Store, journal: Journal, path: Path
) -> None:
    record(journal, "a", "b")
    Ingester(file, journal.directory, never).drain()
    purged(file, "a")
    assert "log.db-wal" in files_with(path.parent, "a")


def test_the_index_still_goes_with_its_items_when_the_file_is_new(
    file: Store, journal: Journal, path: Path
) -> None:
    record(journal, *NAMES[:4], rounds=2)
    Ingester(file, journal.directory, never).drain()
    purged(file, NAMES[1])
    assert sweep(path)
    superuser.check_search(path)
    assert [bool(found(path, name)) for name in NAMES[:4]] == [True, False, True, True]


def test_a_damaged_index_is_no_obstacle(file: Store, journal: Journal, path: Path) -> None:
    record(journal, "a", "b")
    Ingester(file, journal.directory, never).drain()
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in INDEX_NAMES:
            connection.execute(f"UPDATE {name}_data SET block = x'00'")
    purged(file, "a")
    assert sweep(path)
    assert (found(path, "a"), bool(found(path, "b"))) == (0, True)


_TOMBSTONE = "SELECT purged_ns, reason, counts, last_hash FROM tombstones"


def test_the_tombstone_says_what_there_was(store: Store, journal: Journal) -> None:
    record(journal, "a", rounds=2)
    Ingester(store, journal.directory, never).drain()
    [(events, size_bytes)] = superuser.asked(
        store.url, "SELECT count(*), sum(length(raw)) FROM events"
    )
    [(last,)] = superuser.asked(
        store.url, "SELECT hash FROM events ORDER BY exchange_id DESC, pos DESC LIMIT 1"
    )
    counts = purged(store, "a")
    assert (counts.exchanges, counts.events, counts.bytes) == (2, events, size_bytes)
    # its place is in the log: it may tell them again, wherever it is
    assert len(counts.late[RECORDER]) == 2
    [(at_ns, reason, stored, hashed)] = superuser.asked(store.url, _TOMBSTONE)
    assert (at_ns, reason, hashed) == (START_NS, "a secret", last)
    assert msgspec.json.decode(stored, type=Counts) == counts


def test_what_is_not_there_is_not_purged(store: Store) -> None:
    assert purge(store, make_id(9), "", 0) is None
    assert superuser.asked(store.url, "SELECT count(*) FROM tombstones") == [(0,)]


def test_a_purge_that_fails_changes_nothing(file: Store, path: Path) -> None:
    exchange = begin(file)
    with file.transaction():
        file.append(make_events(exchange, [b"x"]))
    with closing(sqlite3.connect(path)) as connection, connection:
        fails = "SELECT RAISE(ABORT, 'the last of all')"
        connection.execute(f"CREATE TRIGGER broken BEFORE DELETE ON sessions BEGIN {fails}; END")
        before = list(connection.iterdump())
    with pytest.raises(StoreConflictError, match="the last of all"):
        purge(file, exchange.session_id, "", 0)
    with closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before


def test_of_types_and_items_only_those_that_another_session_has_are_left(
    file: Store, path: Path
) -> None:
    one, other = begin(file, 1), begin(file, 2)
    with file.transaction():
        file.append([*of_type(one, "theirs", canary("a")), *of_type(other, "theirs")])
    assert files_with(path.parent, "a")
    purge(file, one.session_id, "", 0)
    assert sweep(path)
    assert superuser.asked(path, "SELECT type FROM event_types") == [("theirs",)]
    assert superuser.asked(path, "SELECT type, item_id FROM events") == [("theirs", "theirs-item")]
    assert files_with(path.parent, "a") == []


def test_a_tombstone_permits_to_delete_its_session_and_no_other(file: Store, path: Path) -> None:
    one, other = begin(file, 1), begin(file, 2)
    for exchange in (one, other):
        with file.transaction():
            file.append(make_events(exchange, [b"x", make_end("completed")], ["request", "end"]))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO tombstones VALUES (?, 1, '', '{}', NULL)", [one.session_id])
        of_one = f"IN (SELECT number FROM stored_exchanges WHERE session_id = '{one.session_id}')"
        for table, which in (
            ("stored_events", f"exchange {of_one}"),
            ("stored_exchanges", f"number {of_one}"),
            ("sessions", f"session_id = '{one.session_id}'"),
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(f"DELETE FROM {table}")
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(f"UPDATE {table} SET rowid = rowid WHERE {which}")
            assert connection.execute(f"DELETE FROM {table} WHERE {which}").rowcount > 0
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("DELETE FROM tombstones")


def test_nothing_of_a_purged_session_is_taken_any_more(store: Store) -> None:
    exchange = begin(store)
    purge(store, exchange.session_id, "", 0)
    late: list[Callable[[], object]] = [
        lambda: store.add_session(make_session()),
        lambda: store.add_exchange(make_exchange(make_session())),
        lambda: store.append(make_events(exchange, [b"x"])),
    ]
    for each in late:
        with pytest.raises(StoreConflictError, match="the session was purged"), store.transaction():
            each()


def test_no_trigger_takes_an_event_of_a_purged_session(file: Store) -> None:
    exchange = begin(file)
    purge(file, exchange.session_id, "", 0)
    row = "1, 0, 'frame', 1, NULL, NULL, NULL, NULL, x'78', NULL, NULL, x'00'"
    with closing(sqlite3.connect(file.path)) as connection:  # without foreign keys
        with pytest.raises(sqlite3.IntegrityError, match="its exchange is not there"):
            connection.execute(f"INSERT INTO stored_events VALUES ({row})")


# -- what is in journals


def test_what_a_journal_tells_once_more_is_passed_over_and_others_are_not(
    store: Store, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    long = asked(journal, "b").chunk(b"data: 1\n\n")  # what keeps the place of the ingester back
    # of the second exchange only, the session is not known by its own id
    record(journal, "a", rounds=2)
    Ingester(store, journal.directory, never).drain()
    counts = purged(store, "a", RECORDER)
    assert len(counts.late[RECORDER]) == 2
    with store.transaction():
        assert late_exchanges(store, RECORDER) == dict.fromkeys(counts.late[RECORDER], "was purged")
        assert late_exchanges(store, "recorder-2") == {}
    again = Ingester(store, journal.directory, never)
    long.chunk(b"data: 2\n\n").end()
    record(journal, "c")
    again.drain()
    names = superuser.asked(store.url, "SELECT name FROM sessions ORDER BY name")
    assert names == [(canary("b"),), (canary("c"),)]
    [(lossless,)] = superuser.asked(
        store.url, "SELECT lossless FROM p_exchanges_v1 WHERE exchange_id = ?", long.id
    )
    assert lossless == 1
    assert sum("is of a session that was purged" in each.message for each in caplog.records) == 2


def test_a_stream_whose_session_is_purged_is_given_up_and_others_are_not(
    file: Store, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    ingester = Ingester(file, journal.directory, never)
    gone, other = (asked(journal, name).chunk(b"data: 1\n\n") for name in "ab")
    ingester.drain()
    purged(file, "a")
    caplog.set_level(logging.ERROR)
    for exchange in (gone, other):
        exchange.chunk(b"data: 2\n\n")
    ingester.drain()
    for exchange in (gone, other):
        exchange.chunk(b"data: 3\n\n").end()
    ingester.drain()
    assert superuser.asked(file.url, "SELECT name FROM sessions") == [(canary("b"),)]
    assert superuser.asked(file.url, "SELECT DISTINCT exchange_id FROM events") == [(other.id,)]
    assert any("its session was purged" in each.message for each in caplog.records)


def test_what_comes_late_for_an_archived_session_is_refused_and_its_archive_named(
    store: Store, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    ingester = Ingester(store, journal.directory, never)
    record(journal, "a")
    late = asked(journal, "b").chunk(b"data: 1\n\n")
    ingester.drain()
    for name in "ab":
        with store.transaction():
            archived = Archived(
                "ducklake:/there", last_hashes(store.ask, session_id(store.url, name))
            )
        counts = purge(
            store, session_id(store.url, name), "archived", START_NS, (RECORDER,), archived=archived
        )
        assert counts is not None
        assert counts.archive == "ducklake:/there"
    Ingester(store, journal.directory, never).drain()
    late.chunk(b"data: 2\n\n").end()
    ingester.drain()
    assert superuser.asked(store.url, "SELECT count(*) FROM sessions") == [(0,)]
    told = [each.message for each in caplog.records]
    assert any("is of a session that was archived in ducklake:/there" in each for each in told)
    assert any("its session was archived in ducklake:/there" in each for each in told)


def test_a_session_that_has_grown_since_it_was_archived_stays(
    store: Store, journal: Journal
) -> None:
    record(journal, "a")
    Ingester(store, journal.directory, never).drain()
    with store.transaction():
        archived = Archived("ducklake:/there", last_hashes(store.ask, session_id(store.url, "a")))
    record(journal, "a")
    Ingester(store, journal.directory, never).drain()
    assert purge(store, session_id(store.url, "a"), "archived", START_NS, archived=archived) is None
    assert superuser.asked(store.url, "SELECT count(*) FROM exchanges") == [(2,)]
    assert superuser.asked(store.url, "SELECT count(*) FROM tombstones") == [(0,)]


def test_the_name_of_a_purged_session_may_be_used_again(file: Store, journal: Journal) -> None:
    ingester = Ingester(file, journal.directory, never)
    record(journal, "a")
    ingester.drain()
    before = session_id(file.url, "a")
    purged(file, "a")
    record(journal, "a")
    ingester.drain()
    assert session_id(file.url, "a") != before


def test_what_is_being_recorded_is_not_purged(file: Store, journal: Journal) -> None:
    exchange = asked(journal, "a")
    ingester = Ingester(file, journal.directory, never)
    ingester.drain()
    with pytest.raises(
        RecorderError, match="is being recorded: purge it when its streams have ended"
    ):
        purge(file, session_id(file.url, "a"), "", 0, is_alive=lambda name: name == RECORDER)
    exchange.end()
    ingester.drain()
    assert purge(file, session_id(file.url, "a"), "", 0, is_alive=lambda name: True) is not None


def place(store: Store) -> Position:
    with store.transaction():
        return Position(*(store.offset(RECORDER) or START))


def test_a_journal_that_is_being_written_holds_nothing_of_it_either(
    file: Store, journal: Journal
) -> None:
    ingester = Ingester(file, journal.directory, never)
    record(journal, "a", "b")
    ingester.drain()
    assert files_with(journal.directory, "a")
    counts = purged(file, "a", RECORDER)
    assert scrub_exchanges(journal.directory, place(file), counts.late[RECORDER])
    assert files_with(journal.directory, "a") == []
    record(journal, "c")
    ingester.drain()
    assert bool(found(file.url, "c"))


def test_a_journal_told_to_a_new_database_has_the_others(file: Store, path: Path) -> None:
    # of one segment, of which nothing is deleted
    journal = Journal(Path(f"{path}.journal"), RECORDER)
    record(journal, "a")
    kept = asked(journal, "b").chunk(b"data: 1\n\n").end()
    Ingester(file, journal.directory, never).drain()
    late = purged(file, "a", RECORDER).late[RECORDER]
    assert scrub_exchanges(journal.directory, place(file), late)
    record(journal, "c")
    with Store(path.parent / "new.db") as new:
        Ingester(new, journal.directory, never).drain()
        names = query(new.path, "SELECT name FROM sessions ORDER BY name")
        assert names == [(canary("b"),), (canary("c"),)]
        assert body(new.path, kept.id) == kept.received
    journal.close()


def test_an_open_stream_from_before_keeps_it_until_it_ends(file: Store, journal: Journal) -> None:
    ingester = Ingester(file, journal.directory, never)
    long = asked(journal, "b")
    record(journal, "a")
    ingester.drain()
    late = purged(file, "a", RECORDER).late[RECORDER]
    assert not scrub_exchanges(journal.directory, place(file), late)
    long.chunk(b"data: 1\n\n").end()
    ingester.drain()
    assert scrub_exchanges(journal.directory, place(file), late)
    assert files_with(journal.directory, "a") == []


def test_a_journal_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert scrub_exchanges(tmp_path / "gone", Position(3, 100), {"x"})


# -- the file


def test_a_reader_in_a_transaction_keeps_the_wal_and_it_is_said(
    file: Store, journal: Journal, path: Path
) -> None:
    record(journal, "a")
    Ingester(file, journal.directory, never).drain()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        purged(file, "a")
        assert not sweep(path, busy_timeout_s=0.05)
    assert sweep(path)
    told = [file.name for file in journal.directory.glob("*.seg") if file.stat().st_size > 8]
    assert files_with(path.parent, "a") == told


def test_a_recorder_goes_on_while_the_file_is_written_anew(file: Store, path: Path) -> None:
    stop, made = threading.Event(), list[Exchange]()

    def is_longer(count: int) -> bool:
        return len(made) > count

    def record_on() -> None:
        journal = Journal(path.parent / "elsewhere", RECORDER)
        with Store(path, busy_timeout_s=30.0) as own:
            ingester = Ingester(own, journal.directory, never)
            while not stop.is_set():
                made.extend(record(journal, "a", "b"))
                ingester.drain()
        journal.close()

    thread = threading.Thread(target=record_on)
    thread.start()
    try:
        for number in range(10, 20):
            wait_until(partial(is_longer, len(made)))
            exchange = begin(file, number)
            with file.transaction():
                file.append(make_events(exchange, [canary("x").encode()]))
            assert purge(file, exchange.session_id, "", 0)
            sweep(path)
    finally:
        stop.set()
        thread.join()
    assert all(body(path, exchange.id) == exchange.received for exchange in made)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    superuser.check_search(path)


async def test_who_asks_for_it_is_told_when_and_why(file: Store) -> None:
    exchange = begin(file)
    purge(file, exchange.session_id, "a password in it", START_NS)
    async with await LogReader.open(file.url) as log:
        for ref in (exchange.session_id, exchange.session_id[:12], exchange.session_id.upper()):
            with pytest.raises(NotFoundError, match=r"was purged on 20\d\d-.*: a password in it\."):
                await session_named(log, ref)
        with pytest.raises(NotFoundError, match="There is no session 'latest'"):
            await session_named(log, "latest")
        assert await list_sessions(log) == []


# -- a server, where others write at the same moment


def waiting(url: URL, count: int) -> bool:
    sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    in_it = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    return superuser.asked(url, f"{sql} AND {in_it}") == [(count,)]


def in_thread(work: Callable[[Store], object], url: URL, outcome: list[object]) -> threading.Thread:
    """Does it with a store of its own; what became of it is added."""

    def run() -> None:
        try:
            with Store(url, busy_timeout_s=30.0) as own:
                outcome.append(work(own))
        except StoreConflictError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def left(url: URL, session_id: str) -> list[str]:
    return [table for table, rows in rows_of(url, session_id).items() if rows]


def test_a_purge_waits_for_who_has_begun_and_takes_what_they_wrote(postgres_database: URL) -> None:
    with Store(postgres_database) as store:
        exchange = begin(store)
        outcome: list[object] = []
        with store.transaction():
            store.append(make_events(exchange, [b"{}", b"x"], ["request"]))
            thread = in_thread(
                lambda own: purge(own, exchange.session_id, "", 0), postgres_database, outcome
            )
            wait_until(partial(waiting, postgres_database, 1))
        thread.join()
    [counts] = outcome
    assert isinstance(counts, Counts)
    assert (counts.events, left(postgres_database, exchange.session_id)) == (2, ["tombstones"])


def test_without_the_lock_it_would_stay(
    postgres_database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: it is the lock, and not luck."""
    monkeypatch.setattr(postgres_writer, "_ALONE", Statement("SELECT 1"))
    with Store(postgres_database) as store, Store(postgres_database) as other:
        exchange = begin(store)
        with store.transaction():
            store.append(make_events(exchange, [b"{}", b"x"], ["request"]))
            purge(other, exchange.session_id, "", 0)
    assert left(postgres_database, exchange.session_id) == ["events", "tombstones"]


def test_who_comes_while_a_purge_goes_on_is_refused_when_it_is_done(postgres_database: URL) -> None:
    with Store(postgres_database) as store:
        exchange = begin(store)
        with store.transaction():
            store.append(make_events(exchange, [b"{}"], ["request"]))
    inside, go_on = threading.Event(), threading.Event()

    def is_alive(_recorder_id: str) -> bool:
        inside.set()
        return not go_on.wait(30)

    def write(own: Store, work: Callable[[Store], object]) -> None:
        with own.transaction():
            work(own)

    late: list[Callable[[Store], object]] = [
        lambda own: own.add_session(make_session()),
        lambda own: own.add_exchange(make_exchange(make_session())),
        lambda own: own.append(make_events(exchange, [b"{}", b"x"], ["request"])[1:]),
        lambda own: own.projector.project(exchange.session_id, exchange.exchange_id),
    ]
    purged_, refused = list[object](), list[object]()
    threads = [
        in_thread(
            lambda own: purge(own, exchange.session_id, "", 0, (), is_alive),
            postgres_database,
            purged_,
        )
    ]
    assert inside.wait(30)
    threads += [in_thread(partial(write, work=each), postgres_database, refused) for each in late]
    wait_until(partial(waiting, postgres_database, len(late)))
    go_on.set()
    for thread in threads:
        thread.join()
    assert isinstance(purged_[0], Counts)
    said = "The database refused a row: the session was purged: nothing of it is taken any more."
    assert [str(each) for each in refused if each is not None] == [said] * 3
    assert left(postgres_database, exchange.session_id) == ["tombstones"]


def test_a_reader_in_a_transaction_keeps_the_rows_and_it_is_said(postgres_database: URL) -> None:
    with Store(postgres_database) as store:
        exchange = begin(store)
        with superuser.connected(postgres_database) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM sessions")
            purge(store, exchange.session_id, "", 0)
            assert not sweep(postgres_database, busy_timeout_s=0.05)
        assert sweep(postgres_database)


def test_a_writer_may_not_purge_and_is_told_who_may(postgres_database: URL) -> None:
    with Store(postgres_database) as store:
        exchange = begin(store)
        store.grant(GRANTS)
    superuser.asked(postgres_database, "DO $$ BEGIN CREATE ROLE recording LOGIN IN ROLE recorder_writer; EXCEPTION "
                 "WHEN duplicate_object THEN NULL; END $$")  # fmt: skip
    with Store(postgres_database.set(username="recording")) as store:
        with pytest.raises(
            RecorderError, match="may not purge: give the URL of the owner of its schema"
        ):
            purge(store, exchange.session_id, "", 0)
    assert left(postgres_database, exchange.session_id) == ["exchanges", "sessions"]


# -- which sessions


@pytest.mark.parametrize(
    ("limits", "spared", "expected"),
    [
        (RetentionPolicy(before_ns=2), (), ["s0", "s1"]),
        (RetentionPolicy(over_bytes=20), (), ["s2", "s3"]),
        (RetentionPolicy(before_ns=3, over_bytes=20), (), ["s2"]),
        (RetentionPolicy(keep_bytes=100), (), []),
        (RetentionPolicy(keep_bytes=99), (), ["s0"]),
        (RetentionPolicy(keep_bytes=70), (), ["s0", "s1"]),
        (RetentionPolicy(keep_bytes=0), (), ["s0", "s1", "s2", "s3"]),
        (RetentionPolicy(keep_bytes=99), ("s0",), ["s1"]),
        (RetentionPolicy(before_ns=1, keep_bytes=0), (), ["s0"]),
    ],
)
def test_the_longest_unused_go_first(
    limits: RetentionPolicy, spared: tuple[str, ...], expected: list[str]
) -> None:
    held = [
        SessionSize(f"s{number}", "", number, 1, 1, size)
        for number, size in enumerate((10, 20, 30, 40))
    ]
    assert [each.session_id for each in expired(held, limits, spared)] == expected
