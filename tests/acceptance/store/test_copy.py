"""A log is the same in another database, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from sqlalchemy import URL, select

from recorder.errors import StoreBusyError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.model.events import Event, Session
from recorder.store.engine import address_of
from recorder.store.location import database_path, database_url
from recorder.store.maintain import copy as copying
from recorder.store.maintain.copy import CopiedLog, CopyReport, copy
from recorder.store.maintain.extents import Extent
from recorder.store.maintain.purge.delete import purge
from recorder.store.schema import dead_letters, tables_of
from recorder.store.sql import Statement
from recorder.store.sqlite.connection import write_lock
from recorder.store.write.writer import Store
from tests.acceptance.store.test_purge import asked, canary, record, said
from tests.conftest import Demo
from tests.integration.ingest.test_ingester import Exchange, never
from tests.support.empty_log import empty
from tests.support.postgres import Server, conninfo
from tests.support.rows import (
    START_NS,
    add,
    begin,
    make_end,
    make_events,
    make_exchange,
    make_session,
)
from tests.support.server import run
from tests.support.superuser import unguard, writable

WAYS = [
    f"{source} to {target}"
    for source in ("sqlite", "postgresql")
    for target in ("sqlite", "postgresql")
]


class Log(NamedTuple):
    """All rows of a log, its events whole, and all projections."""

    sessions: list[Session]
    extents: list[Extent]
    events: list[Event]
    tombstones: list[Any]
    projections: dict[str, list[Any]]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[URL, URL]]:
    """Two empty databases, from one of which to copy to the other."""
    server: Server | None = None
    urls = []
    for name, engine in zip(("source", "target"), request.param.split(" to "), strict=True):
        if engine == "postgresql":
            server = request.getfixturevalue("postgres_server")
            urls.append(database_url(server.create(request.getfixturevalue("postgres_template"))))
        else:
            urls.append(database_url(tmp_path / f"{name}.db"))
    yield urls[0], urls[1]
    for url in urls:
        if server is not None and not address_of(url).is_local:
            server.drop(url)


@pytest.fixture
def source(tmp_path: Path) -> URL:
    return database_url(empty(tmp_path / "source.db"))


@pytest.fixture
def target(tmp_path: Path) -> URL:
    return database_url(tmp_path / "target.db")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and transactions of a few rows, so that a small log has many."""
    for name, value in (("PAGE_ROWS", 9), ("COMMIT_ROWS", 25)):
        monkeypatch.setattr(copying, name, value)


class Recorder:
    """A recorder of a database, with a journal of its own."""

    def __init__(self, url: URL, root: Path) -> None:
        self.store = Store(url)
        self.journal = Journal(root, "recorder-1")
        self._ingester = Ingester(self.store, self.journal.directory, never)

    def record(self, *names: str) -> list[Exchange]:
        exchanges = record(self.journal, *names)
        self._ingester.drain()
        return exchanges

    def begin(self, name: str) -> Exchange:
        exchange = asked(self.journal, name)
        for chunk in said(name)[:7]:
            exchange.chunk(chunk)
        self._ingester.drain()
        return exchange

    def end(self, exchange: Exchange, name: str) -> None:
        for chunk in said(name)[7:]:
            exchange.chunk(chunk)
        exchange.end()
        self._ingester.drain()


@pytest.fixture
def recorders() -> Iterator[Callable[[URL, Path], Recorder]]:
    made: list[Recorder] = []

    def make(url: URL, root: Path) -> Recorder:
        made.append(Recorder(url, root))
        return made[-1]

    yield make
    for each in made:
        each.journal.close()
        each.store.close()


def quiet(done: int, total: int) -> None:
    """Nobody watches."""


def copied(
    source: URL,
    target: URL,
    progress: Callable[[int, int], None] = quiet,
    ids: Sequence[str] | None = None,
    busy_timeout_s: float = 30.0,
) -> list[CopyReport]:
    with (
        CopiedLog.open(source) as here,
        Store(target, busy_timeout_s) as store,
        CopiedLog.open(target) as there,
    ):
        return copy(here, there, store, progress, ids)


def read(url: URL) -> Log:
    with CopiedLog.open(url) as log:
        ids = list(log.counts())
        sessions = [each for each in map(log.session, ids) if each is not None]
        extents = [extent for id in ids for extent in log.extents(id).values()]
        events = [event for each in extents for event in log.events(each.exchange)]
        gone = log.tombstones()
    tables = (*tables_of.values(), dead_letters)
    with Store(url) as store, store.transaction():
        projections = {
            table.name: sorted(
                (tuple(row) for row in store.ask(Statement(select(table)), {})), key=repr
            )
            for table in tables
        }
    return Log(sessions, extents, events, gone, projections)


_NUMBERS = ("exchanges", "events", "standing")


def summed(found: Sequence[CopyReport]) -> tuple[int, int, int, int]:
    """Exchanges, events, exchanges that stood there, open ones."""
    exchanges, events, standing = (sum(getattr(each, name) for each in found) for name in _NUMBERS)
    return exchanges, events, standing, sum(len(each.open) for each in found)


def findings(found: Sequence[CopyReport]) -> list[tuple[str, int | None]]:
    return [(place.check, place.pos) for each in found for place in each.findings]


def tampered(url: URL, *statements: str) -> None:
    """A file, changed behind the recorder's back: without its guards."""
    with closing(sqlite3.connect(database_path(url))) as connection, connection:
        unguard(connection)
        writable(connection)
        for statement in statements:
            connection.execute(statement)


# -- the same log


def test_a_copy_is_the_same_log(way: tuple[URL, URL], tmp_path: Path, recorders: Any) -> None:
    source, target = way
    recorder = recorders(source, tmp_path / "journals")
    recorder.record("a", "b")
    recorder.begin("c")
    begin(recorder.store, 7)
    with recorder.store.transaction():
        recorder.store.add_session(make_session(8))  # nothing was asked in it
    found = copied(source, target)
    before, after = read(source), read(target)
    assert after == before
    assert len(before.events) > 100
    assert all(
        before.projections[table.name]
        for name, table in tables_of.items()
        if name in ("exchanges", "items")
    )
    assert findings(found) == [("order", None)]  # of the exchange without an event
    assert summed(found) == (4, len(before.events), 0, 2)
    again = copied(source, target)
    assert (summed(again), findings(again)) == ((0, 0, 4, 2), [])
    assert read(target) == before


def test_the_demo_is_searched_and_verified_in_a_server_and_back(
    demo: Demo, postgres_database: URL, tmp_path: Path
) -> None:
    server, back = conninfo(postgres_database), tmp_path / "back.db"
    assert run(tmp_path / "x", "db", "copy", demo.path, server).code == 0
    assert b"gpt-demo" in run(tmp_path / "x", "sessions", "--db", server, "-q", "letter arriv*").out
    assert run(tmp_path / "x", "db", "copy", server, back).code == 0
    assert b"gpt-demo" in run(tmp_path / "x", "sessions", "--db", back, "-q", "letter arriv*").out
    assert run(tmp_path / "x", "verify", "--db", back).code == 0
    assert read(database_url(back)) == read(database_url(demo.path))


def test_two_logs_become_one(source: URL, target: URL, tmp_path: Path, recorders: Any) -> None:
    recorders(source, tmp_path / "one").record("a")
    recorders(target, tmp_path / "two").record("b")
    both = {*read(source).events, *read(target).events}
    assert findings(copied(source, target)) == []
    assert set(read(target).events) == both


def test_only_some_sessions_are_copied(
    source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    recorders(source, tmp_path / "journals").record("a", "b")
    ran = run(
        tmp_path / "x",
        "db",
        "copy",
        database_path(source),
        database_path(target),
        "--session",
        canary("b"),
    )
    assert ran.code == 0
    assert [each.name for each in read(target).sessions] == [canary("b")]
    assert (
        run(
            tmp_path / "x",
            "db",
            "copy",
            database_path(source),
            tmp_path / "y",
            "--session",
            "nobody",
        ).code
        == 3
    )


# -- again, and broken off


def test_an_exchange_that_ended_since_is_copied_to_its_end(
    way: tuple[URL, URL], tmp_path: Path, recorders: Any
) -> None:
    source, target = way
    recorder = recorders(source, tmp_path / "journals")
    exchange = recorder.begin("a")
    first = summed(copied(source, target))
    assert (first[0], first[3]) == (1, 1)
    recorder.end(exchange, "a")
    second = summed(copied(source, target))
    assert second == (1, len(read(source).events) - first[1], 0, 0)
    assert read(target) == read(source)


class Broken(Exception):
    """Somebody pulled the plug."""


def broken_off(source: URL, target: URL, at: int) -> bool:
    """Copy until the progress is told so often; whether that was before the end."""
    calls = iter(range(at))

    def progress(done: int, total: int) -> None:
        if next(calls, None) is None:
            raise Broken

    try:
        copied(source, target, progress)
    except Broken:
        return True
    return False


def check_consistent(source: Log, target: Log) -> None:
    """What is in a target that was left is the beginning of every exchange; what has its end has
    its projections.
    """
    events = {(event.exchange_id, event.pos): event for event in source.events}
    assert all(events[event.exchange_id, event.pos] == event for event in target.events)
    counts = {each.exchange.exchange_id: each.last_pos + 1 for each in target.extents}
    assert sum(counts.values()) == len(target.events)
    ended = {event.exchange_id for event in target.events if event.kind == "end"}
    assert {row[1] for row in target.projections[tables_of["exchanges"].name]} == ended


@pytest.mark.slow
def test_wherever_it_breaks_off_it_goes_on(
    small: None, source: URL, tmp_path: Path, recorders: Any
) -> None:
    recorder = recorders(source, tmp_path / "journals")
    recorder.record("a", "b")
    recorder.begin("c")
    before = read(source)
    for at in range(1000):
        target = database_url(tmp_path / f"target-{at}.db")
        if not broken_off(source, target, at):
            break
        check_consistent(before, read(target))
        copied(source, target)
        assert read(target) == before
    assert at > 5


def test_a_copy_that_breaks_off_all_the_time_comes_to_its_end(
    small: None, source: URL, database: URL, tmp_path: Path, recorders: Any
) -> None:
    recorders(source, tmp_path / "journals").record("a", "b", "c")
    before, attempts = read(source), 0
    while broken_off(source, database, 3):
        attempts += 1
        check_consistent(before, read(database))
        assert attempts < 100
    assert attempts > 1
    assert read(database) == before


def test_ctrl_c_is_heard_while_it_waits_and_leaves_what_can_be_gone_on_with(
    small: None, source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    recorder = recorders(source, tmp_path / "journals")
    path, copying = (
        database_path(target),
        ("db", "copy", database_path(source), database_path(target)),
    )
    recorder.record("a", "b")
    assert run(tmp_path / "x", *copying).code == 0
    recorder.record("c", "d")
    is_over = threading.Event()
    thread = threading.Thread(target=interrupt, args=(is_over,))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with write_lock(path, 30.0):
            thread.start()
            ran = run(tmp_path / "x", *copying)
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGINT, handler)
    assert (ran.code, ran.err.strip()) == (
        130,
        "What was copied stays: run the same again to go on.",
    )
    assert 0 < len(read(target).events) < len(read(source).events)
    assert run(tmp_path / "x", *copying).code == 0
    assert read(target) == read(source)


def interrupt(is_over: threading.Event) -> None:
    """Send a SIGINT to this process while its main thread waits for the lock of writers, unless it
    is over before.
    """
    main = threading.main_thread().ident
    while not is_over.wait(0.01):
        stack = traceback.extract_stack(sys._current_frames()[main]) if main else ()
        if any(frame.name == write_lock.__name__ for frame in stack):
            os.kill(os.getpid(), signal.SIGINT)
            return


def test_it_is_recorded_into_the_source_meanwhile(
    source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    recorders(source, tmp_path / "journals").record("a", "b")

    def record_on() -> None:
        journal = Journal(tmp_path / "others", "recorder-2")
        with Store(source, busy_timeout_s=30.0) as store:
            ingester = Ingester(store, journal.directory, never)
            for _ in range(12):
                record(journal, "c", "d")
                ingester.drain()
        journal.close()

    thread = threading.Thread(target=record_on)
    thread.start()
    while thread.is_alive():
        assert findings(copied(source, target)) == []
    assert read(target).events
    assert findings(copied(source, target)) == []
    assert read(target) == read(source)


# -- what cannot be copied


def test_what_was_changed_is_named_and_not_copied_and_the_rest_is(
    source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    recorder = recorders(source, tmp_path / "journals")
    changed, removed, moved, whole = recorder.record("a", "b", "c", "d")
    before = {event for event in read(source).events if event.exchange_id == whole.id}
    tampered(
        source,
        f"UPDATE events SET raw = x'64' WHERE exchange_id = '{changed.id}' AND pos = 20",
        f"DELETE FROM events WHERE exchange_id = '{removed.id}' AND pos = 30",
        f"UPDATE exchanges SET target = '/elsewhere' WHERE exchange_id = '{moved.id}'",
    )
    expected = [("hash", 20), ("position", 30), ("hash", 0)]
    for _ in range(2):
        assert sorted(findings(copied(source, target)), key=str) == sorted(expected, key=str)
    found = read(target)
    counts = {each.exchange.exchange_id: each.last_pos + 1 for each in found.extents}
    assert (counts[changed.id], counts[removed.id], moved.id in counts) == (20, 30, False)
    assert before == {event for event in found.events if event.exchange_id == whole.id}
    assert len(found.sessions) == 4  # the session of what was moved is there, without it


def test_what_contradicts_itself_is_named_and_copied_as_it_was_recorded(
    source: URL, target: URL
) -> None:
    with Store(source) as store:
        exchange = begin(store)
        add(store, make_events(exchange, [b"{}", make_end("completed")], ["request", "end"]))
    found = copied(source, target)
    assert {check for check, _ in findings(found)} == {"content", "order"}
    assert read(target).events == read(source).events


def test_a_file_that_cannot_be_read_on_costs_what_is_there_and_no_more(
    source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    recorder = recorders(source, tmp_path / "journals")
    damaged, whole = recorder.record("a", "b")
    first = [event for event in read(source).events if event.exchange_id == damaged.id]
    shared = first[1]
    tampered(
        source,
        f"UPDATE events SET type = 'shared', raw = x'78' WHERE exchange_id = '{damaged.id}' AND pos = 1",
    )
    [file] = [each for each in copied(source, target) if each.findings]
    assert [(place.check, place.exchange_id) for place in file.findings] == [("file", damaged.id)]
    events = read(target).events
    assert shared not in events
    assert [event for event in events if event.exchange_id == damaged.id] == first[:1]
    assert len([event for event in events if event.exchange_id == whole.id]) == len(first)


@pytest.mark.parametrize("way", WAYS[:2], indirect=True)
def test_other_content_in_the_target_is_named_and_stays(
    way: tuple[URL, URL], tmp_path: Path, recorders: Any
) -> None:
    source, target = way
    session, other_session = make_session(1), make_session(2)
    exchange, other, inside = (
        make_exchange(session, 1),
        make_exchange(session, 2),
        make_exchange(other_session, 3),
    )
    raws = [b"{}", b"x" * 100]
    for url, word, name in ((source, b"here", "one"), (target, b"there", "two")):
        with Store(url) as store:
            with store.transaction():
                store.add_session(session)
                store.add_session(msgspec.structs.replace(other_session, name=name))
                for each in (exchange, other, inside):
                    store.add_exchange(each)
            add(store, make_events(exchange, [*raws, word], ["request"]))
            if url == source:
                add(store, make_events(other, raws, ["request"]))
                add(store, make_events(inside, raws, ["request"]))
    before = read(target)
    found = {each.session_id: each for each in copied(source, target)}
    one, two = (found[each.session_id] for each in (session, other_session))
    assert [place.exchange_id for place in one.findings if place.check == "conflict"] == [
        exchange.exchange_id
    ]
    assert [place.exchange_id for place in two.findings if place.check == "conflict"] == [None]
    after = read(target)
    assert [
        event for event in after.events if event.exchange_id != other.exchange_id
    ] == before.events
    assert len(after.events) == len(before.events) + 2


@pytest.mark.parametrize("way", WAYS[:2], indirect=True)
def test_what_was_purged_does_not_come_back(
    way: tuple[URL, URL], tmp_path: Path, recorders: Any
) -> None:
    source, target = way
    recorder = recorders(source, tmp_path / "journals")
    recorder.record("a", "b", "c")
    names = {each.name: each.session_id for each in read(source).sessions}
    gone, refused, alive = (names[canary(name)] for name in "abc")
    copied(source, target, ids=[refused, alive])
    purge(recorder.store, gone, "a secret", START_NS)
    with Store(target) as store:
        purge(store, refused, "theirs", START_NS)
    found = {each.session_id: each for each in copied(source, target)}
    assert (found[refused].purged, found[refused].findings, gone in found) == (True, [], False)
    after = read(target)
    assert {each.session_id for each in after.sessions} == {alive}
    assert {each.session_id: each.reason for each in after.tombstones} == {
        gone: "a secret",
        refused: "theirs",
    }
    purge(recorder.store, alive, "late", START_NS)
    assert findings(copied(source, target)) == [("purge", None)]
    assert {each.session_id for each in read(target).sessions} == {alive}


def test_a_tombstone_waits_for_whoever_adds_its_session(
    database: URL, tmp_path: Path, recorders: Any
) -> None:
    source = database_url(tmp_path / "source.db")
    recorder = recorders(source, tmp_path / "journals")
    recorder.record("a")
    [session] = read(source).sessions
    purge(recorder.store, session.session_id, "a secret", START_NS)
    with Store(database) as theirs:
        with theirs.transaction():
            theirs.add_session(session)
            with pytest.raises(StoreBusyError):
                copied(source, database, busy_timeout_s=0.1)
        assert findings(copied(source, database)) == [("purge", None)]
    assert read(database).sessions == [session]


def test_a_target_that_gives_back_something_else_is_found_out(
    small: None, source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    """A trigger of somebody's changes what was written."""
    recorders(source, tmp_path / "journals").record("a")
    Store(target).close()
    tampered(
        target,
        "CREATE TRIGGER theirs AFTER INSERT ON stored_events WHEN NEW.pos = 12 BEGIN "
        "UPDATE stored_events SET raw = x'79' WHERE exchange = NEW.exchange AND pos = 12; END",
    )
    assert findings(copied(source, target)) == [("copy", len(read(source).events) - 1)]


# -- what it says


def test_wrong_uses_are_told_apart(demo_db: Path, postgres_database: URL, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(demo_db)
    server = conninfo(postgres_database)
    other_spelling = f"{server}{'&' if '?' in server else '?'}application_name=x"
    for source, target, code, words in (
        (demo_db, tmp_path / "link.db", 2, "are the same database"),
        (demo_db, demo_db.parent / "." / demo_db.name, 2, "are the same database"),
        (demo_db, f"sqlite:///{demo_db}", 2, "are the same database"),
        (server, other_spelling, 2, "are the same database"),
        (tmp_path / "none.db", tmp_path / "new.db", 3, "nothing has been recorded there"),
        (demo_db, tmp_path, 1, "is a directory"),
        (demo_db, "mysql://x/y", 2, "cannot record into mysql"),
        (demo_db, "", 2, "needs a database file"),
    ):
        ran = run(tmp_path / "x", "db", "copy", source, target)
        assert (ran.code, words in ran.err, "Traceback" in ran.err) == (code, True, False), (
            source,
            target,
            ran.err,
        )
    assert not (tmp_path / "new.db").exists()


@pytest.mark.slow  # as long as it waits
def test_a_target_that_is_locked_is_told_in_a_sentence(
    source: URL, target: URL, tmp_path: Path
) -> None:
    with Store(source) as store:
        add(store, make_events(begin(store), [b"{}"], ["request"]))
    Store(target).close()
    with write_lock(database_path(target), 1.0):
        ran = run(tmp_path / "x", "db", "copy", database_path(source), database_path(target))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "Another recorder is writing" in ran.err
    assert "run the same again to go on" in ran.err


def test_what_became_of_every_session_is_told(
    source: URL, target: URL, tmp_path: Path, recorders: Any
) -> None:
    recorder = recorders(source, tmp_path / "source.db.journal")
    ended, damaged = recorder.record("a", "b")
    live = recorder.begin("c")
    tampered(
        source, f"UPDATE events SET raw = x'78' WHERE exchange_id = '{damaged.id}' AND pos = 9"
    )
    ran = run(tmp_path / "x", "db", "copy", database_path(source), database_path(target), "--json")
    told = {row["name"]: row for row in msgspec.json.decode(ran.out)}
    assert ran.code == 4
    expected = {canary("a"): "ok", canary("b"): "bad", canary("c"): "open"}
    assert {name: row["state"] for name, row in told.items()} == expected
    assert told[canary("a")] == {
        "session_id": told[canary("a")]["session_id"],
        "name": canary("a"),
        "state": "ok",
        "exchanges": 1,
        "standing": 0,
        "open": [],
        "findings": [],
        "events": told[canary("a")]["events"],
        "bytes": told[canary("a")]["bytes"],
    }
    assert told[canary("b")]["findings"][0]["pos"] == 9
    ran = run(tmp_path / "x", "db", "copy", database_path(source), database_path(target))
    lines = ran.out.decode()
    assert f"{damaged.id} @9: it was changed" in lines
    assert f"{live.id}: it has not ended" in lines
    assert ended.id not in lines
    assert "2 exchanges stood there already" in ran.err
    assert "1 exchange had not ended: run the same command again" in ran.err
