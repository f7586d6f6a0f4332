"""`recorder db purge`: what goes, what is asked first, what is said."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import URL

from recorder.commands.db import command
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.store.location import database_url, journal_root
from recorder.store.postgres import address
from recorder.store.write.writer import Store
from tests.acceptance.store.test_purge import asked, canary, files_with, record, session_id
from tests.integration.ingest.test_ingester import never
from tests.support import server, superuser
from tests.support.empty_log import empty

SWEPT = {
    "sqlite": "Removed what was left of it.\n",
    "postgresql": f"Removed what was left of it.\n{address.purge_notice}\n",
}


@pytest.fixture
def path(database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> URL:
    """A log of three sessions on each engine: a is the oldest, c has most in it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return filled(database)


@pytest.fixture
def file(tmp_path: Path) -> URL:
    """The same in a file, where the engine makes no difference."""
    return filled(database_url(empty(tmp_path / "log.db")))


def filled(database: URL) -> URL:
    journal = Journal(journal_root(database), "recorder-0")
    record(journal, "a")
    record(journal, "b")
    record(journal, "c", rounds=3)
    with Store(database) as store:
        ingest(store, journal)
    journal.close()
    age(journal)
    return database


@pytest.fixture
def journal(path: URL) -> Iterator[Journal]:
    """That of a recorder that runs."""
    journal = Journal(journal_root(path), "recorder-1")
    yield journal
    journal.close()


def ingest(store: Store, journal: Journal) -> None:
    Ingester(store, journal.directory, never).drain()


def age(journal: Journal) -> None:
    """A lock that was made just now may be about to be held."""
    os.utime(journal.directory / "lock", (0, 0))


def run(path: URL | Path, *arguments: object) -> Result:
    return CliRunner().invoke(command, ["purge", *map(str, arguments), "--db", as_given(path)])


def as_given(path: URL | Path) -> str:
    return path.render_as_string(hide_password=False) if isinstance(path, URL) else str(path)


def names(path: URL) -> list[str]:
    return [
        name for (name,) in superuser.asked(path, "SELECT name FROM sessions ORDER BY created_ns")
    ]


def remaining(*of: str) -> list[str]:
    return [canary(name) for name in of]


def test_a_session_goes_with_all_that_a_killed_recorder_left_of_it(
    path: URL, tmp_path: Path
) -> None:
    assert files_with(tmp_path, "b")
    ran = run(path, canary("b"), "--yes", "--reason", "it was a test")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr.startswith("1 session purged: 1 exchange, ")
    assert (str(address.purge_notice) in ran.stderr) is (superuser.engine(path) == "postgresql")
    assert names(path) == remaining("a", "c")
    assert files_with(tmp_path, "b") == []
    assert superuser.asked(path, "SELECT reason FROM tombstones") == [("it was a test",)]
    assert not list(journal_root(path).iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["latest"], "ab"),
        ([canary("a"), canary("b"), canary("a")], "c"),
        (["--older-than", "0s"], ""),
        (["--older-than", "1d"], "abc"),
        (["--larger-than", "20K"], "ab"),
        (["--keep", "60000"], "bc"),
        (["--keep", "1M"], "abc"),
        (["--older-than", "0s", "--larger-than", "20K"], "ab"),
        (["--keep", "0"], ""),
    ],
    ids=str,
)
def test_what_is_chosen_goes_and_the_rest_stays(file: URL, arguments: list[str], left: str) -> None:
    listed = run(file, *arguments, "--dry-run", "--json")
    assert len(names(file)) == 3
    ran = run(file, *arguments, "--yes", "--json")
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, json.loads(listed.stdout))
    assert names(file) == remaining(*left)
    assert len(superuser.asked(file, "SELECT * FROM tombstones")) == 3 - len(left)


def test_a_dry_run_lists_what_would_go_and_writes_nothing(file: URL) -> None:
    before = superuser.dumped(file)
    ran = run(file, "--older-than", "0s", "--dry-run")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["session", "name", "last", "exchanges", "events", "bytes"]
    assert [line.split()[1] for line in lines[1:]] == remaining("a", "b", "c")
    assert ran.stderr.startswith("3 sessions, 5 exchanges, ")
    assert superuser.dumped(file) == before


UNASKED, UNSAID = "give --yes, or --dry-run", "sessions by name, or by --older-than"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("latest", UNASKED),
        ("latest --json", UNASKED),
        ("--yes", UNSAID),
        ("latest --keep 1G --yes", UNSAID),
    ],
)
def test_nothing_goes_unasked_or_by_name_and_condition_at_once(
    file: URL, words: str, said: str
) -> None:
    ran = run(file, *words.split())
    assert isinstance(ran.exception, UsageError)
    assert said in str(ran.exception)
    assert len(names(file)) == 3


def test_sizes_are_written_as_people_write_them(file: URL) -> None:
    for size in ("1", "2K", "1.5 MiB", "3gb"):
        assert run(file, "--larger-than", size, "--dry-run").exit_code == 0, size
    for size in ("", "big", "-1", "1 kilo"):
        refused = run(file, "--larger-than", size).stderr
        assert "is not a size: give 500M, 1G or a number of bytes" in refused, size


def test_nothing_to_purge_is_no_error(file: URL) -> None:
    for option in ("--dry-run", "--yes"):
        ran = run(file, "--older-than", "52w", option)
        assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "", "There is nothing to purge.\n")


def test_what_is_not_there_is_said(file: URL, tmp_path: Path) -> None:
    assert isinstance(run(file, "nothing", "--yes").exception, NotFoundError)
    assert isinstance(run(tmp_path / "none.db", "latest", "--yes").exception, NotFoundError)
    assert not (tmp_path / "none.db").exists()


def test_what_is_being_recorded_is_refused_by_name_and_spared_by_age(
    path: URL, journal: Journal
) -> None:
    stream = asked(journal, "d")
    age(journal)
    with Store(path) as store:
        ingester = Ingester(store, journal.directory, never)
        ingester.drain()
        ran = run(path, canary("a"), canary("d"), "--yes")
        assert isinstance(ran.exception, RecorderError)
        assert str(ran.exception) == (
            f"Session {canary('d')} is being recorded: purge it when its streams have ended."
        )
        assert len(names(path)) == 4
        ran = run(path, "--older-than", "0s", "--yes")
        assert "1 session of these is being recorded, and not purged." in ran.stderr
        assert names(path) == remaining("d")
        stream.end()
        ingester.drain()


def test_of_a_recorder_that_runs_the_journal_is_emptied_of_it(
    path: URL, journal: Journal, tmp_path: Path
) -> None:
    record(journal, "d")
    with Store(path) as store:
        ingest(store, journal)
    assert files_with(journal.directory, "d")
    assert run(path, canary("d"), "--yes").exit_code == 0
    assert files_with(tmp_path, "d") == []


def test_what_a_stream_keeps_in_the_journal_is_said_and_goes_with_another_purge(
    path: URL, journal: Journal, tmp_path: Path
) -> None:
    stream = asked(journal, "e")
    record(journal, "d")
    with Store(path) as store:
        ingester = Ingester(store, journal.directory, never)
        ingester.drain()
        gone = session_id(path, "d")
        ran = run(path, canary("d"), "--yes")
        assert isinstance(ran.exception, RecorderError)
        assert f"when all have ended, run `recorder db purge {gone}`" in str(ran.exception)
        assert files_with(tmp_path, "d") == ["000001.seg"]
        stream.end()
        ingester.drain()
        ran = run(path, gone, "--yes")
        assert (ran.exit_code, ran.stderr) == (0, SWEPT[superuser.engine(path)])
        assert files_with(tmp_path, "d") == []


def test_a_journal_that_cannot_be_read_is_named_and_the_rest_is_done(
    path: URL, journal: Journal
) -> None:
    record(journal, "d")
    with Store(path) as store:
        ingest(store, journal)
    [segment] = journal.directory.glob("*.seg")
    (journal.directory / "000002.seg").write_bytes(b"of a later version")
    ran = run(path, canary("d"), "--yes")
    assert f"The journal {journal.directory} cannot be overwritten: " in ran.stderr
    assert isinstance(ran.exception, RecorderError)
    assert files_with(journal.directory.parent, "d") == []
    assert segment.exists()


def test_what_a_recorder_elsewhere_records_is_left_alone_and_its_journal_is_named(
    postgres_database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    journal = Journal(tmp_path / "elsewhere", "recorder-7")
    stream = asked(journal, "d")
    with Store(postgres_database) as store:
        ingester = Ingester(store, journal.directory, never)
        ingester.drain()
        assert "is being recorded" in str(run(postgres_database, canary("d"), "--yes").exception)
        stream.end()
        ingester.drain()
        ran = run(postgres_database, canary("d"), "--yes")
        assert (ran.exit_code, names(postgres_database)) == (0, [])
        assert (
            "What a journal on other machines may still hold of it, their recorders delete."
            in ran.stderr
        )
        Ingester(store, journal.directory, never).drain()  # tells it all once more
    assert names(postgres_database) == []
    journal.close()


def test_a_purged_session_can_be_imported_from_its_export(file: URL, tmp_path: Path) -> None:
    exported = tmp_path / "a.sse.jsonl"
    exported.write_bytes(
        server.run(tmp_path / "none", "export", canary("a"), "--db", as_given(file)).out
    )
    gone = session_id(file, "a")
    assert run(file, gone, "--yes").exit_code == 0
    assert (
        "was purged on " in server.run(tmp_path / "none", "show", gone, "--db", as_given(file)).err
    )
    assert (
        server.run(
            tmp_path / "none", "import", exported, "--session", canary("a"), "--db", as_given(file)
        ).code
        == 0
    )
    assert session_id(file, "a") != gone
    assert len(names(file)) == 3
