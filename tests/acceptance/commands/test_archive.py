"""`recorder db archive`, and `recorder db purge` of what is in an archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.place import database_url
from tests.acceptance.archive.test_archiver import crashed, recorded, stored
from tests.acceptance.archive.test_purge import tables_with
from tests.acceptance.store.test_purge import canary, files_with, session_id
from tests.support import superuser
from tests.support.server import run


@pytest.fixture
def database(tmp_path: Path) -> URL:
    return database_url(tmp_path / "log.db")


def test_what_is_old_is_archived_and_what_is_not_is_not(database: URL, tmp_path: Path) -> None:
    recorded(database, tmp_path / "journals", "a", "b")
    ids = [session_id(database, name) for name in "ab"]
    [(events, size_bytes)] = superuser.asked(
        database, "SELECT count(*), sum(length(raw)) FROM events"
    )
    archive = f"ducklake:{tmp_path / 'lake.db'}"
    ran = run(database, "db", "archive", "--older-than", "1d", "--to", archive, "--json")
    assert (ran.code, json.loads(ran.out)) == (0, [])
    assert "There is nothing to archive." in ran.err
    ran = run(
        database, "db", "archive", "--older-than", "0s", "--to", archive, "--dry-run", "--json"
    )
    [row] = json.loads(ran.out)
    assert (row["sessions"], row["events"], row["log_bytes"], row["archive_bytes"]) == (
        2,
        events,
        size_bytes,
        0,
    )
    assert not (tmp_path / "lake.db").exists()
    ran = run(database, "db", "archive", "--older-than", "0s", "--to", archive)
    assert ran.code == 0, ran.err
    assert f"2 sessions archived in {archive}, and read back from it" in ran.err
    assert [line.split()[1:3] for line in ran.out.decode().splitlines()[1:]] == [["2", str(events)]]
    # by its id or its name, a session that went there is purged there
    ran = run(database, "db", "purge", canary("a"), "--yes")
    assert ran.code == 0, ran.err
    assert f"1 session purged in {archive}" in ran.err
    found = stored(database_url(archive), ids)
    assert [bool(found[id]["events"]) for id in ids] == [False, True]


def test_a_purge_in_the_log_is_one_in_the_archive_that_has_the_session_already(
    database: URL, tmp_path: Path
) -> None:
    """An archiver was interrupted: the session is in both."""
    recorded(database, tmp_path / "journals", "a", "b")
    # both began in one millisecond
    first, second = sorted("ab", key=lambda name: session_id(database, name))
    ids = [session_id(database, name) for name in (first, second)]
    folder = tmp_path / "archive"
    archive = database_url(f"ducklake:{folder / 'catalog.db'}")
    crashed(database, archive, "committed")
    assert stored(archive, ids[:1])[ids[0]]["events"]
    ran = run(database, "db", "purge", canary(first), "--yes")
    assert ran.code == 0, ran.err
    assert f"1 session purged in ducklake:{folder}" in ran.err
    assert files_with(folder, first) == []
    assert tables_with(folder, ids[0]) == {"tombstones"}
    ran = run(
        database, "db", "archive", "--older-than", "0s", "--to", f"ducklake:{folder / 'catalog.db'}"
    )
    assert ran.code == 0, ran.err
    assert [bool(rows["events"]) for rows in stored(archive, ids).values()] == [False, True]
    # an archive that is away is named, and the same command searches it later
    (folder / "catalog.db").rename(tmp_path / "away.db")
    ran = run(database, "db", "purge", ids[0], "--yes")
    assert ran.code == 1
    assert (
        f"An archive may have a copy of what was purged: run `recorder db purge {ids[0]}` again"
        in ran.err
    )
    (tmp_path / "away.db").rename(folder / "catalog.db")
    assert run(database, "db", "purge", ids[0], "--yes").code == 0


def test_a_finding_is_named_and_the_exit_code_is_1(database: URL, tmp_path: Path) -> None:
    recorded(database, tmp_path / "journals", "a")
    superuser.free(database)
    superuser.asked(database, "UPDATE events SET raw = ? WHERE pos = 7", b"x")
    ran = run(
        database, "db", "archive", "--older-than", "0s", "--to", f"ducklake:{tmp_path / 'lake.db'}"
    )
    assert ran.code == 1
    assert f"bad     {session_id(database, 'a')}" in ran.out.decode()
    assert "with findings stayed in" in ran.err


def test_what_makes_no_sense_is_one_sentence(tmp_path: Path) -> None:
    for options, message in (
        (["--to", "elsewhere.db"], "is not an archive: give --to ducklake:PATH."),
        (["--to", "ducklake:lake.db", "--db", "ducklake:lake.db"], "is an archive itself"),
        (["--to", "ducklake:mysql://x/y"], "recorder cannot record into mysql"),
    ):
        ran = run(tmp_path / "log.db", "db", "archive", "--older-than", "0s", *options)
        assert (ran.code, message in ran.err) == (2, True), ran.err
