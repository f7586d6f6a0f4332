"""Of a session that is purged in an archive, no byte is left there."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.archiver import open_archive
from recorder.archive.lake import lake
from recorder.archive.place import database_url
from recorder.archive.schema import PACKED, month_of
from recorder.archive.upkeep import purge_archive, sessions_there
from recorder.store.duckdb.connection import connected
from tests.acceptance.archive.test_archiver import recorded, stored, without_hashes
from tests.acceptance.store.test_purge import canary, files_with, rest, session_id
from tests.support.archives import archived
from tests.support.rows import START_NS, make_id


@pytest.fixture
def archive(tmp_path: Path) -> URL:
    return database_url(f"ducklake:{tmp_path / 'archive' / 'catalog.db'}")


def tables_with(folder: Path, session_id: str) -> set[str]:
    """The tables of which a file has a row of a session, whatever snapshot knows the file."""
    sql = "SELECT count(*) FROM read_parquet('{}/**/*.parquet') WHERE session_id = $1"
    tables = [
        path
        for path in folder.rglob("main/*")
        if path.name != "recorder_version" and any(path.rglob("*.parquet"))
    ]
    with connected(
        "test", "archive", lambda opening: opening.folders.append(f"{folder}/")
    ) as connection:
        counts = {
            path.name: connection.execute(sql.format(path), [session_id]).fetchall()
            for path in tables
        }
    return {name for name, count in counts.items() if count != [(0,)]}


def test_no_file_and_no_line_of_the_catalog_has_a_byte_of_it(archive: URL, tmp_path: Path) -> None:
    database = database_url(tmp_path / "log.db")
    folder = tmp_path / "archive"
    for names in ("ab", "cd"):  # two runs: two transactions, whose files were merged
        recorded(database, tmp_path / f"journals-{names}", *names)
        ids = {name: session_id(database, name) for name in names}
        last = {name: rest(database, name) for name in names}
        archived(database, archive)
    gone, other = ids["c"], ids["d"]
    assert len(tables_with(folder, gone)) > 5
    assert files_with(folder, "c")
    assert sessions_there(archive, [gone, other]) == {gone, other}
    [counts] = purge_archive(archive, [gone], "a secret", START_NS)
    assert (counts.exchanges, counts.events) == (2, len(last["c"]["events"]))
    assert tables_with(folder, gone) == {"tombstones"}
    assert files_with(folder, "c") == []
    assert not any(
        canary("c").encode().hex().upper().encode() in path.read_bytes()
        for path in folder.glob("catalog.db*[!s]")
    )
    assert stored(archive, [gone, other]) == {
        gone: {name: [] for name in PACKED},
        other: without_hashes(last["d"]),
    }
    assert sessions_there(archive, [gone, other]) == {gone, other}  # the first by its tombstone
    assert purge_archive(archive, [gone], "once more", START_NS) == []


# of events: together more bytes than a connection has memory for elsewhere
LARGE_ROWS, LARGE_BYTES = 1_000, 80_000
LARGE = f"""
INSERT INTO events (session_id, exchange_id, pos, kind, t_ns, raw, month)
SELECT id, id, n, 'frame', 0, encode(repeat(md5(id || n), {LARGE_BYTES // 32})), $2
FROM range({LARGE_ROWS}) AS r(n), unnest($1) AS i(id)
"""


def test_a_session_that_needs_more_memory_than_others_is_purged_and_its_neighbour_stays(
    archive: URL, tmp_path: Path
) -> None:
    gone, other = ids = [make_id(1), make_id(2)]
    open_archive(archive, None)
    with lake(archive, "test", writes=True) as connection:
        connection.execute("SET memory_limit = '2GB'")  # both sessions in one row group
        connection.execute(LARGE, [ids, month_of(gone)])
        session = "INSERT INTO sessions SELECT unnest($1), 0, 'large', 'test', '{}', 'live', $2"
        connection.execute(session, [ids, month_of(gone)])
    [counts] = purge_archive(archive, [gone], "too large", START_NS)
    assert (counts.events, counts.bytes) == (LARGE_ROWS, LARGE_ROWS * LARGE_BYTES)
    assert (tables_with(tmp_path, gone), "events" in tables_with(tmp_path, other)) == (
        {"tombstones"},
        True,
    )
