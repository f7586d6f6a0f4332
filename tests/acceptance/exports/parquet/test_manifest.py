"""`recorder verify --against DIR`: what differs between an export and its log, and in the files of
the export.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from recorder.exports.parquet.manifest import read_manifest
from tests.support.server import Ran, run
from tests.support.superuser import connected, execute, unguard


@pytest.fixture(scope="module")
def of_demo(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified") / "export"
    assert (
        run(demo_recording, "export", folder, "--format", "parquet", "--db", demo_recording).code
        == 0
    )
    return folder


@pytest.fixture
def folder(of_demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(of_demo, tmp_path / "export"))


def verify(db: Path, folder: Path) -> Ran:
    return run(db, "verify", "--against", folder, "--db", db)


def test_an_export_that_nobody_changed_is_as_the_log(demo_db: Path, folder: Path) -> None:
    ran = verify(demo_db, folder)
    assert (ran.code, ran.err.count("\n")) == (0, 1)


def test_a_file_that_was_changed_removed_or_added_is_named(demo_db: Path, folder: Path) -> None:
    changed, removed, *_ = sorted(read_manifest(folder).all_files)
    (folder / changed).write_bytes((folder / changed).read_bytes() + b" ")
    (folder / removed).unlink()
    shutil.copy(folder / changed, folder / changed.replace("part", "more"))
    ran = verify(demo_db, folder)
    assert ran.code == 4
    bad = [line for line in ran.out.decode().splitlines() if line.startswith("bad")]
    assert len(bad) == 3
    assert f"{changed} is not the file that was exported" in bad[0]
    assert f"{removed} cannot be read" in bad[1]
    assert "is not in the manifest" in bad[2]


def test_an_exchange_that_differs_or_is_gone_is_named_and_a_new_one_is_counted(
    demo_db: Path, folder: Path
) -> None:
    manifest = folder / "manifest.json"
    exported = read_manifest(folder).exchanges()
    (session_id, exchanges), *_ = exported.items()
    differs, new, *_ = exchanges
    text = manifest.read_text().replace(str(exchanges[differs]), "0" * 64)
    manifest.write_text(text.replace(new, "00000000-0000-7000-8000-000000000000"))
    ran = verify(demo_db, folder)
    assert ran.code == 4
    assert f"{session_id}/{differs}: its last hash is not that of the export" in ran.out.decode()
    assert (
        "/00000000-0000-7000-8000-000000000000: the export has it, and the log does not: it was removed"
        in ran.out.decode()
    )
    assert "The export lacks 1 exchange that ended since" in ran.err


def test_a_session_that_is_gone_is_found_and_a_purged_one_is_mentioned(
    demo_db: Path, folder: Path
) -> None:
    (session_id, exchanges), *_ = read_manifest(folder).exchanges().items()
    purged = Path(shutil.copy(demo_db, demo_db.with_name("purged.db")))
    assert run(purged, "db", "purge", session_id, "--yes", "--db", purged).code == 0
    ran = verify(purged, folder)
    assert ran.code == 0
    assert "The export still has 1 session that the log has purged" in ran.err
    with connected(purged) as connection:
        unguard(connection)
        execute(connection, "DELETE FROM tombstones")
    ran = verify(purged, folder)
    assert ran.code == 4
    assert ran.out.decode().count("the export has it, and the log does not: it was removed") == len(
        exchanges
    )


def test_a_folder_without_an_export_is_refused_in_one_sentence(
    demo_db: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ran = verify(demo_db, tmp_path / "empty")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(
        f"Error: {tmp_path}/empty has no manifest.json: give a manifest, or the folder of"
    )
    (tmp_path / "empty" / "manifest.json").write_text("[]")
    ran = verify(demo_db, tmp_path / "empty")
    assert ran.code == 2
    assert "is not a manifest of `recorder export --format parquet`" in ran.err
