"""`recorder db recover` and what it goes by: recorders elsewhere, heard of or gone, and those that
come back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.ingest.capture import Capture
from recorder.ingest.ingester import Ingester, recover
from recorder.ingest.recovery import HEARTBEAT_S, Heartbeat, Unfinished, end_open, end_silent
from recorder.journal.writer import Journal
from recorder.model.events import LateRecord
from recorder.store.location import journal_root
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support.logbook import Entry, asking, assert_chained, entries
from tests.support.postgres import conninfo
from tests.support.server import Ran, run

LATE = b'data: {"type":"late"}\n\n'
UPTIME_MS = "SELECT CAST(extract(epoch FROM now() - pg_postmaster_start_time()) * 1000 AS bigint)"


class Elsewhere:
    """A recorder on another machine, with one exchange under way."""

    def __init__(self, url: URL, folder: Path) -> None:
        self.folder, self.is_alive = folder, True
        self.store = Store(url, busy_timeout_s=0.5)
        self.journal = Journal(folder, "recorder-1")
        self.exchange = Exchange(self.journal).chunk(b'data: {"type":"in time"}\n\n')
        self.ingester = Ingester(self.store, self.journal.directory, never)
        self.ingester.drain()

    def go_on(self) -> None:
        self.exchange.chunk(LATE).chunk(LATE + COMPLETED).end()

    def die(self) -> None:
        if self.is_alive:
            self.is_alive = False
            self.journal.close()

    def close(self) -> None:
        self.die()
        self.store.close()


@pytest.fixture
def elsewhere(database: URL, tmp_path: Path) -> Iterator[Elsewhere]:
    recorder = Elsewhere(database, tmp_path / "elsewhere")
    yield recorder
    recorder.close()


@pytest.fixture
def on_server(postgres_database: URL, tmp_path: Path) -> Iterator[Elsewhere]:
    recorder = Elsewhere(postgres_database, tmp_path / "elsewhere")
    yield recorder
    recorder.close()


def recovering(url: URL, tmp_path: Path, *options: str) -> Ran:
    """The command, on a machine without journals."""
    return run(tmp_path / "here", "db", "recover", "--db", conninfo(url), *options)


def only(url: URL) -> Entry:
    found = entries(url)
    assert_chained(found)
    [entry] = found
    return entry


def value(url: URL, sql: str, *values: object) -> Any:
    with asking(url) as ask:
        return ask(sql, *values)[0][0]


# -- who is gone


def test_what_a_gone_recorder_left_open_ends_with_a_gap(
    on_server: Elsewhere, tmp_path: Path
) -> None:
    ran = recovering(on_server.store.url, tmp_path, "--gone-after", "1ms")
    assert (ran.code, "1 exchange of 1 recorder elsewhere" in ran.err, "ended" in ran.err) == (
        0,
        True,
        True,
    )
    found = only(on_server.store.url)
    assert [event.kind for event in found.events][-3:] == ["frame", "gap", "end"]
    assert (found.end["status"], found.end["lossless"]) == ("recorder_crash", False)
    assert value(on_server.store.url, "SELECT status FROM exchange_summary") == "recorder_crash"
    assert (
        "nothing to recover" in recovering(on_server.store.url, tmp_path, "--gone-after", "1ms").err
    )


def test_who_is_heard_of_keeps_what_is_open_and_that_is_said(
    on_server: Elsewhere, tmp_path: Path
) -> None:
    ran = recovering(on_server.store.url, tmp_path)
    [line] = ran.err.splitlines()
    assert line.startswith("1 exchange of 1 recorder elsewhere (")
    assert "left open" in line
    on_server.go_on()
    on_server.ingester.drain()
    assert only(on_server.store.url).end["lossless"]


def test_time_in_which_the_server_was_away_does_not_count(
    on_server: Elsewhere, tmp_path: Path
) -> None:
    url = on_server.store.url
    on_server.store.grant(["UPDATE ingest_offsets SET seen_ns = 0"])
    longer = f"{value(url, UPTIME_MS) + 60_000}ms"
    assert "left open" in recovering(url, tmp_path, "--gone-after", longer).err
    assert "ended" in recovering(url, tmp_path, "--gone-after", "1ms").err


def test_a_recorder_on_this_machine_is_never_touched(postgres_database: URL, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    here = Elsewhere(postgres_database, journal_root(postgres_database))
    assert (
        run(
            tmp_path / "here",
            "db",
            "recover",
            "--db",
            conninfo(postgres_database),
            "--gone-after",
            "1ms",
        ).code
        == 0
    )
    assert not only(postgres_database).end
    here.close()


def test_two_who_recover_at_once_end_it_once(on_server: Elsewhere, tmp_path: Path) -> None:
    url = on_server.store.url
    for _ in range(5):
        Exchange(on_server.journal).chunk(LATE)
    on_server.ingester.drain()
    ended: list[Sequence[Unfinished]] = []

    def end() -> None:
        with Store(url, busy_timeout_s=5) as store:
            together.wait()
            ended.append(end_silent(store, tmp_path / "none", 0))

    together = threading.Barrier(3)
    threads = [threading.Thread(target=end) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 3
    found = entries(url)
    assert_chained(found)
    assert [[event.kind for event in each.events].count("gap") for each in found] == [1] * 6


def test_a_file_has_no_recorders_elsewhere(tmp_path: Path) -> None:
    ran = run(tmp_path / "recorder.db", "db", "recover", "--gone-after", "1h")
    assert (ran.code, "locks show which recorders run" in ran.err) == (2, True)


# -- how it is heard of


def test_an_idle_recorder_is_heard_of(
    on_server: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = "SELECT seen_ns FROM ingest_offsets"
    first, heartbeat = value(on_server.store.url, seen), Heartbeat(on_server.store, "recorder-1")
    heartbeat.rest()
    second = value(on_server.store.url, seen)
    heartbeat.rest()  # not again so soon
    assert second == value(on_server.store.url, seen) > first
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + HEARTBEAT_S)
    heartbeat.rest()
    assert value(on_server.store.url, seen) > second


def test_a_server_that_is_away_is_told_later(on_server: Elsewhere) -> None:
    heartbeat = Heartbeat(on_server.store, "recorder-1")
    with Store(on_server.store.url) as other, other.transaction():
        other.renew("recorder-1")
        heartbeat.rest()  # waits for the other in vain, which is no reason to end


def test_to_a_file_nothing_is_written_in_idle_time(tmp_path: Path) -> None:
    here = Elsewhere(Store(tmp_path / "recorder.db").url, tmp_path / "recorder.db.journal")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    Heartbeat(here.store, "recorder-1").rest()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    here.close()


# -- who comes back


def end_meanwhile(recorder: Elsewhere) -> None:
    with Store(recorder.store.url) as other, other.transaction():
        end_open(other, "recorder-1")


def noted(url: URL) -> LateRecord:
    found = only(url)
    assert [event.kind for event in found.events][-3:] == ["gap", "end", "note"]
    assert (found.body, found.end["status"]) == (b'data: {"type":"in time"}\n\n', "recorder_crash")
    return msgspec.json.decode(found.events[-1].raw, type=LateRecord)


def test_what_comes_too_late_is_counted_in_a_note(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    end_meanwhile(elsewhere)
    elsewhere.exchange.chunk(LATE)
    elsewhere.ingester.drain()
    elsewhere.exchange.chunk(LATE + COMPLETED).end()
    other = Exchange(elsewhere.journal).chunk(LATE).end()
    elsewhere.ingester.drain()
    found = {each.exchange.exchange_id: each for each in entries(elsewhere.store.url)}
    assert found.pop(other.id).body == LATE
    [late] = found.values()
    note = msgspec.json.decode(late.events[-1].raw, type=LateRecord)
    assert (late.events[-1].kind, note.body_bytes) == ("note", len(2 * LATE + COMPLETED))
    assert note.status == "completed"
    assert f"{note.body_bytes} bytes came after the log had ended it" in caplog.text
    assert_chained(entries(elsewhere.store.url))


@pytest.mark.parametrize("ends", [True, False])
def test_a_journal_that_comes_back_says_the_same_however_often_it_is_told(
    elsewhere: Elsewhere, ends: bool
) -> None:
    end_meanwhile(elsewhere)
    elsewhere.exchange.chunk(LATE)
    if ends:
        elsewhere.exchange.chunk(COMPLETED).end()
    elsewhere.die()
    for _ in range(3):
        Ingester(elsewhere.store, elsewhere.journal.directory, never).drain()
    recover(elsewhere.store, elsewhere.folder, never)
    note = noted(elsewhere.store.url)
    assert note.body_bytes == len(LATE) + (len(COMPLETED) if ends else 0)
    assert note.status == ("completed" if ends else "recorder_crash")
    assert not list(elsewhere.folder.iterdir())


def test_what_is_told_in_doubt_is_noted_once(elsewhere: Elsewhere) -> None:
    """The ingester dies between the note and its place."""
    end_meanwhile(elsewhere)
    elsewhere.go_on()
    with elsewhere.store.transaction():
        place = elsewhere.store.offset("recorder-1")
    assert place is not None
    for _ in range(3):
        Ingester(elsewhere.store, elsewhere.journal.directory, never).drain()
        with elsewhere.store.transaction():
            elsewhere.store.set_offset("recorder-1", *place)
    assert noted(elsewhere.store.url).body_bytes == len(2 * LATE + COMPLETED)


def test_a_note_of_somebody_else_is_no_reason_to_end(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    end_meanwhile(elsewhere)
    elsewhere.go_on()
    [entry] = entries(elsewhere.store.url)
    with elsewhere.store.transaction():
        elsewhere.store.append([Capture.after(entry.events[-1]).note(1, b"looked at")])
    elsewhere.ingester.drain()
    assert only(elsewhere.store.url).events[-1].raw == b"looked at"
    assert "bytes came after the log had ended it" in caplog.text
