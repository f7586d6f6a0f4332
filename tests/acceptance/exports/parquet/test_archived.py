"""An export of a log with an archive, and of the archive itself: nothing is lost by archiving."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.place import database_name, database_url
from recorder.archive.registry import register
from recorder.exports.parquet.manifest import read_manifest
from recorder.projections.views.contract import VIEWS
from recorder.store.write.writer import Store
from tests.integration.store import test_bodies_rows
from tests.support.archives import archive_to, divide, session_ids
from tests.support.exports import tables
from tests.support.rows import put_prices
from tests.support.server import Ran, run

in_a_lake = pytest.mark.parametrize("archived", ["ducklake"], indirect=True)
"""Where the engine of the archive makes no difference."""


class Archived(NamedTuple):
    """A log, its export, and the same log after a part of it was archived."""

    whole: Path
    before: Path
    log: Path
    archive: URL


def export(log: Path | URL, folder: Path, *options: object) -> Ran:
    name = log if isinstance(log, Path) else database_name(log)
    return run(Path("unused.db"), "export", folder, "--format", "parquet", "--db", name, *options)


def rows(folder: Path) -> Mapping[str, list[tuple[Any, ...]]]:
    """The rows of all datasets; events without their hashes, of which an archive has only the last."""
    found = {}
    with tables(folder) as connection:
        for dataset in (*(view.name for view in VIEWS), "events"):
            columns = "* EXCLUDE hash" if dataset == "events" else "*"
            found[dataset] = sorted(
                connection.execute(f"SELECT {columns} FROM {dataset}").fetchall(), key=repr
            )
    return found


@pytest.fixture(scope="module", params=["ducklake", "sqlite"])
def archived(
    request: pytest.FixtureRequest, demo_recording: Path, tmp_path_factory: pytest.TempPathFactory
) -> Archived:
    folder = tmp_path_factory.mktemp("archived")
    whole = Path(shutil.copy(demo_recording, folder / "whole.db"))
    with Store(whole) as store:
        recorder = test_bodies_rows.Recorder(store, folder)
        for body in test_bodies_rows.history(8):
            recorder.record(body)
    put_prices(whole, "gpt-demo", input="1.25", output="10")
    assert export(whole, folder / "before", "--events").code == 0
    log, archive = divide(whole, folder, request.param)
    parts = [
        read_manifest(folder / "before").exchanges().keys() & set(session_ids(each))
        for each in (log, archive)
    ]
    assert all(parts)
    return Archived(whole, folder / "before", log, archive)


def test_a_second_export_after_archiving_has_the_same_rows(
    archived: Archived, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(archived.before, tmp_path / "again"))
    assert export(archived.log, folder, "--events").code == 0
    before, after = read_manifest(archived.before), read_manifest(folder)
    assert {day: each.exchanges for day, each in after.days.items()} == {
        day: each.exchanges for day, each in before.days.items()
    }
    assert rows(folder) == rows(archived.before)
    ran = run(archived.log, "verify", "--against", folder, "--db", archived.log)
    assert (ran.code, "export" in ran.err) == (0, False), ran.err


@in_a_lake
def test_an_archived_session_is_exported_by_itself(archived: Archived, tmp_path: Path) -> None:
    [first, *_] = session_ids(archived.archive)
    for log, name in ((archived.log, "both"), (archived.whole, "whole")):
        assert export(log, tmp_path / name, "--session", first, "--events").code == 0
    assert rows(tmp_path / "both") == rows(tmp_path / "whole")
    assert read_manifest(tmp_path / "both").exchanges().keys() <= {first}


@in_a_lake
def test_an_archive_is_exported_by_itself(archived: Archived, tmp_path: Path) -> None:
    ran = export(archived.archive, tmp_path / "archive", "--events")
    assert ran.code == 0, ran.err
    found = read_manifest(tmp_path / "archive").exchanges()
    there = read_manifest(archived.before).exchanges()
    assert found == {each: there[each] for each in session_ids(archived.archive) if each in there}
    name = database_name(archived.archive)
    ran = run(archived.log, "verify", "--against", tmp_path / "archive", "--db", name)
    assert ran.code == 0, ran.out


@in_a_lake
def test_a_session_that_is_in_both_is_exported_once(archived: Archived, tmp_path: Path) -> None:
    log = Path(shutil.copy(archived.whole, tmp_path / "log.db"))
    with Store(log) as store:
        register(store, archived.archive, 1)
    assert export(log, tmp_path / "both", "--events").code == 0
    assert rows(tmp_path / "both") == rows(archived.before)


@in_a_lake
def test_an_export_does_not_leave_out_an_archive_that_is_away(
    archived: Archived, tmp_path: Path
) -> None:
    """It would take the days of the archive out of the export."""
    log = Path(shutil.copy(archived.log, tmp_path / "log.db"))
    archive_to(log, database_url(f"ducklake:sqlite:{tmp_path / 'nowhere.db'}"))
    folder = Path(shutil.copytree(archived.before, tmp_path / "again"))
    ran = export(log, folder, "--events")
    assert ran.code == 1
    assert ran.err.startswith(f"Error: There is no archive ducklake:{tmp_path / 'nowhere.db'} yet")
    assert f"`recorder db archive --detach ducklake:{tmp_path / 'nowhere.db'}`" in ran.err
    assert read_manifest(folder) == read_manifest(archived.before)
