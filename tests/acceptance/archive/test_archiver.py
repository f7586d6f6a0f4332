"""A session goes from a log into an archive as it is, and is never in neither, whatever happens on
the way.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive import archiver as archiving
from recorder.archive.archiver import Pack
from recorder.archive.lake import lake
from recorder.archive.place import database_url
from recorder.archive.schema import PACKED
from recorder.errors import StoreError, UsageError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.model.events import Event
from recorder.store.maintain.purge.delete import purge
from recorder.store.maintain.upkeep import opened
from recorder.store.write.writer import Store
from tests.acceptance.store.test_purge import canary, record, rest, session_id
from tests.integration.ingest.test_ingester import never
from tests.support import superuser
from tests.support.archives import archived
from tests.support.corpus import ROOT

Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def archive(tmp_path: Path) -> URL:
    return database_url(f"ducklake:{tmp_path / 'archive' / 'catalog.db'}")


def recorded(database: URL, root: Path, *names: str) -> None:
    """Sessions of these names, each of two exchanges, that nobody records any more."""
    journal = Journal(root, "recorder-1")
    record(journal, *names, rounds=2)
    with Store(database) as store:
        Ingester(store, journal.directory, never).drain()
        with store.transaction():
            store.forget_offset("recorder-1")
    journal.close()


def stored(archive: URL, session_ids: Iterable[str]) -> dict[str, Rows]:
    """All rows of sessions in an archive, without month and hashes of chains, as `rest` has those
    of a log.
    """
    found: dict[str, Rows] = {}
    with lake(archive, "test") as connection:
        for id in session_ids:
            found[id] = {}
            for name in PACKED:
                more = ", last_hash, root_kind" if name == "exchanges" else ""
                rows = connection.execute(
                    f"SELECT * EXCLUDE (month{more}) FROM {name} WHERE session_id = $1", [id]
                )
                found[id][name] = sorted(rows.fetchall(), key=repr)
    return found


def without_hashes(rows: Rows) -> Rows:
    """The rows of a log that an archive has."""
    return {
        name: [row[:-1] for row in rows[name]] if name == "events" else rows[name]
        for name in PACKED
    }


def test_sessions_are_in_the_archive_row_for_row_and_gone_from_the_log(
    database: URL, archive: URL, tmp_path: Path
) -> None:
    recorded(database, tmp_path / "journals", "a", "b")
    before = {session_id(database, name): rest(database, name) for name in "ab"}
    events = [Event(*row) for rows in before.values() for row in rows["events"]]
    [report] = archived(database, archive)
    assert stored(archive, before) == {id: without_hashes(rows) for id, rows in before.items()}
    assert (report.sessions, report.events, report.log_bytes) == (
        2,
        len(events),
        sum(len(e.raw) for e in events),
    )
    assert report.archive_bytes > 0
    assert superuser.asked(database, "SELECT count(*) FROM sessions") == [(0,)]
    assert superuser.asked(database, "SELECT count(*) FROM events") == [(0,)]
    [row, _] = superuser.asked(
        database, "SELECT reason, counts, last_hash FROM tombstones ORDER BY session_id"
    )
    assert row[0] == "archived"
    assert f'"archive":"ducklake:{tmp_path}/archive/catalog.db"' in row[1]
    assert (
        row[2]
        == max(
            (e for e in events if e.session_id == min(before)), key=lambda e: (e.exchange_id, e.pos)
        ).hash
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "archive" in path.parts]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


# -- crashes


STEPS = ("verified", "written", "committed", "compared", "deleted", "merged", "cleaned")


def archiver(database: URL, archive: URL, last: str = "") -> subprocess.Popen[str]:
    """An archiver in a process of its own, which is killed at that step, or runs to its end."""
    urls = [url.render_as_string(hide_password=False) for url in (database, archive)]
    command = [sys.executable, "-m", "tests.support.archives", *urls, last]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def crashed(database: URL, archive: URL, at: str) -> None:
    with archiver(database, archive, at) as process:
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said


def check_nothing_is_lost(database: URL, archive: URL, before: dict[str, Rows]) -> None:
    """Each session is whole in the log, or in the archive and nothing else but its tombstone in the
    log.
    """
    gone = {}
    for id, rows in before.items():
        sql = "SELECT * FROM {} WHERE session_id = ?"
        here = {
            name: sorted(superuser.asked(database, sql.format(name), id), key=repr)
            for name in PACKED
        }
        if any(here.values()):
            assert here == {name: rows[name] for name in PACKED}
        else:
            gone[id] = without_hashes(rows)
    assert not gone or stored(archive, gone) == gone


def check_crashes(
    database: URL, archive: URL, root: Path, names: str, steps: Iterable[str]
) -> None:
    recorded(database, root, *names)
    before = {session_id(database, name): rest(database, name) for name in names}
    for step in steps:
        crashed(database, archive, step)
        check_nothing_is_lost(database, archive, before)
    [*_] = archived(database, archive)
    assert superuser.asked(database, "SELECT count(*) FROM sessions") == [(0,)]
    check_nothing_is_lost(database, archive, before)
    with lake(archive, "test") as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM events").fetchall()
        [(files,)] = connection.execute(
            "SELECT count(*) FROM ducklake_list_files('lake', 'events')"
        ).fetchall()
    assert count == sum(len(rows["events"]) for rows in before.values())
    assert (
        files == len(list(Path(archive.database or "").parent.rglob("*/events/**/*.parquet"))) == 1
    )


def test_a_crash_at_any_step_is_completed_by_the_next_run(archive: URL, tmp_path: Path) -> None:
    """The slow one has all steps, and more sessions."""
    steps = ("committed", "deleted")
    check_crashes(database_url(tmp_path / "log.db"), archive, tmp_path / "journals", "ab", steps)


@pytest.mark.slow
def test_a_crash_at_any_step_is_completed_on_every_engine(
    database: URL, archive: URL, tmp_path: Path
) -> None:
    check_crashes(database, archive, tmp_path / "journals", "abcde", STEPS)


def check_turns(database: URL, archive: URL, tmp_path: Path, names: str) -> None:
    recorded(database, tmp_path / "journals", *names)
    before = {session_id(database, name): rest(database, name) for name in names}
    with archiver(database, archive) as one, archiver(database, archive) as other:
        said = [each.communicate()[1] for each in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], said
    assert superuser.asked(database, "SELECT count(*) FROM sessions") == [(0,)]
    check_nothing_is_lost(database, archive, before)


def test_two_archivers_at_once_take_turns(archive: URL, tmp_path: Path) -> None:
    check_turns(database_url(tmp_path / "log.db"), archive, tmp_path, "ab")


@pytest.mark.slow
def test_two_archivers_of_a_server_take_turns(
    postgres_database: URL, archive: URL, tmp_path: Path
) -> None:
    check_turns(postgres_database, archive, tmp_path, "abcdefgh")


# -- what is in the archive already, and what must not go there


class Stopped(Exception):
    """The archiver stops here."""


def stop_when_committed(name: str, _sessions: int) -> None:
    if name == "committed":
        raise Stopped


def test_a_session_that_has_grown_since_is_replaced(
    archive: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # it is written in many pieces
    monkeypatch.setattr("recorder.archive.archiver.PIECE_BYTES", 4_000)
    database = database_url(tmp_path / "log.db")
    recorded(database, tmp_path / "journals", "a")
    with pytest.raises(Stopped):
        archived(database, archive, stop_when_committed)
    with Store(database) as store:
        more = tmp_path / "more"
        journal = Journal(more, "recorder-2")
        record(journal, "a")
        Ingester(store, journal.directory, never).drain()
    before = {session_id(database, "a"): rest(database, "a")}
    assert len({row[1] for rows in before.values() for row in rows["exchanges"]}) == 3
    archived(database, archive)
    assert superuser.asked(database, "SELECT count(*) FROM sessions") == [(0,)]
    check_nothing_is_lost(database, archive, before)


def test_what_the_archive_does_not_give_back_stays_in_the_log(archive: URL, tmp_path: Path) -> None:
    """A disk, say, keeps something else than what was written to it; `test_proof.py` has all that
    is seen.
    """
    database = database_url(tmp_path / "log.db")
    recorded(database, tmp_path / "journals", "a")
    before = rest(database, "a")
    left = ["DELETE FROM events WHERE pos = 5"]

    def step(name: str, _sessions: int) -> None:
        if name == "committed" and left:
            with lake(archive, "test", writes=True) as connection:
                connection.execute(left.pop())

    with pytest.raises(StoreError, match="does not give back what was written of session"):
        archived(database, archive, step)
    assert rest(database, "a") == before


class Meanwhile:
    """A reader of a log that somebody changes after the first answer."""

    def __init__(self, reader: Any, change: Callable[[], object]) -> None:
        self.transaction = reader.transaction
        self._reader, self._changes = reader, [change]

    def ask(self, statement: Any, values: Any) -> Iterator[Any]:
        rows = list(self._reader.ask(statement, values))
        if self._changes:
            self._changes.pop()()
        yield from rows


def test_a_session_is_read_at_one_moment_whatever_happens_to_it_meanwhile(tmp_path: Path) -> None:
    database = database_url(tmp_path / "log.db")
    recorded(database, tmp_path / "journals", "a")
    id = session_id(database, "a")
    journal = Journal(tmp_path / "more", "recorder-2")

    def grow() -> None:
        record(journal, "a")
        with Store(database) as store:
            Ingester(store, journal.directory, never).drain()

    def go() -> None:
        with Store(database) as store:
            purge(store, id, "a secret", 0)

    for number, change in enumerate((grow, go)):
        folder = tmp_path / str(number)
        folder.mkdir()
        before = shutil.copy(tmp_path / "log.db", folder / "before.db")
        pack = Pack(folder)
        with opened(database) as reader:
            meanwhile: Any = Meanwhile(reader, change)
            pack.add(meanwhile, id)
        assert len(pack.last_hashes[id]) == 2 + number
        assert pack.differing(database_url(before)) == set()
        assert pack.differing(database) == {id}
    journal.close()


def test_a_session_with_findings_stays_and_others_go(archive: URL, tmp_path: Path) -> None:
    database = database_url(tmp_path / "log.db")
    recorded(database, tmp_path / "journals", "a", "b")
    superuser.free(database)
    damaged = session_id(database, "a")
    superuser.asked(
        database, "UPDATE events SET raw = ? WHERE session_id = ? AND pos = 7", b"x", damaged
    )
    [report] = archived(database, archive)
    assert (report.sessions, list(report.findings)) == (1, [damaged])
    assert superuser.asked(database, "SELECT name FROM sessions") == [(canary("a"),)]
    with lake(archive, "test") as connection:
        assert connection.execute("SELECT name FROM sessions").fetchall() == [(canary("b"),)]


def test_a_folder_of_other_files_is_refused(archive: URL, tmp_path: Path) -> None:
    database = database_url(tmp_path / "log.db")
    Store(database).close()
    (tmp_path / "mine.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="is not empty"):
        archiving.open_archive(archive, str(tmp_path))
    assert (tmp_path / "mine.parquet").exists()


def test_a_folder_inside_of_another_archive_is_refused(archive: URL, tmp_path: Path) -> None:
    """That one deletes the files that it does not know."""
    archiving.open_archive(archive, str(tmp_path / "outer"))
    other = database_url(f"ducklake:{tmp_path / 'other' / 'catalog.db'}")
    with pytest.raises(
        UsageError, match=f"is inside of {tmp_path}/outer, which has the files of another archive"
    ):
        archiving.open_archive(other, str(tmp_path / "outer" / "some" / "inner"))
    (tmp_path / "link").symlink_to(tmp_path / "outer")
    with pytest.raises(UsageError, match="another archive"):
        archiving.open_archive(other, str(tmp_path / "link" / "inner"))
    archiving.open_archive(other, str(tmp_path / "outer.too"))
