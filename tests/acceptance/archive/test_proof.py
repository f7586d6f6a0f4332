"""An archive that has anything else than the log is found out before the log loses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

import duckdb
from sqlalchemy import URL

from recorder.archive.archiver import Pack, same_in
from recorder.archive.lake import lake
from recorder.archive.place import database_url
from recorder.archive.schema import month_of
from recorder.store.maintain.upkeep import opened
from tests.acceptance.archive.test_archiver import Stopped, recorded, stop_when_committed
from tests.acceptance.store.test_purge import session_id
from tests.support.archives import archived

DAMAGES = (
    "DELETE FROM events WHERE pos = 5",
    "DELETE FROM events WHERE kind = 'end'",
    "UPDATE events SET raw = raw || 'x'::BLOB WHERE pos = 9",
    "UPDATE events SET t_ns = t_ns + 1 WHERE pos = 9",
    "UPDATE events SET pos = pos + 1000 WHERE kind = 'end'",
    "INSERT INTO events SELECT * FROM events WHERE pos = 3",
    "UPDATE exchanges SET last_hash = 'x'::BLOB",
    "UPDATE exchanges SET root_kind = 'ids'",
    "UPDATE exchanges SET target = '/elsewhere'",
    "DELETE FROM sessions",
    "UPDATE p_items_v1 SET text = concat(text, '!')",
    "INSERT INTO p_usage_v1 SELECT * FROM p_usage_v1 LIMIT 1",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[URL, URL]:
    """A log and an archive that both have its session, as a crash leaves them."""
    root: Path = tmp_path_factory.mktemp("both")
    log, archive = database_url(root / "log.db"), database_url(f"ducklake:{root / 'catalog.db'}")
    recorded(log, root / "journals", "a")

    with pytest.raises(Stopped):
        archived(log, archive, stop_when_committed)
    return log, archive


@contextmanager
def both(place: tuple[URL, URL], folder: Path) -> Iterator[tuple[duckdb.DuckDBPyConnection, Any]]:
    """A connection to the archive, and a function that returns which sessions are the same in it."""
    log, archive = place
    id = session_id(log, "a")
    with opened(log) as reader, lake(archive, "test", writes=True) as connection:
        pack = Pack(folder)
        pack.add(reader, id)
        yield connection, lambda: same_in(connection, month_of(id), pack, {id}) == {id}


def test_every_difference_is_found(place: tuple[URL, URL], tmp_path: Path) -> None:
    with both(place, tmp_path) as (connection, is_same):
        assert is_same()
        for damage in DAMAGES:
            connection.execute("BEGIN")
            [(count,)] = connection.execute(damage).fetchall()
            assert count > 0, damage
            assert not is_same(), damage
            connection.execute("ROLLBACK")
        assert is_same()


def test_a_long_exchange_is_unpacked_in_parts(
    place: tuple[URL, URL], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part has a few events, and other exchanges of its session are not read with it."""
    monkeypatch.setattr("recorder.archive.unpack.PIECE_BYTES", 4_000)
    with both(place, tmp_path) as (connection, is_same):
        assert is_same()
        for damage in DAMAGES[:3]:
            connection.execute("BEGIN")
            connection.execute(damage)
            assert not is_same(), damage
            connection.execute("ROLLBACK")
