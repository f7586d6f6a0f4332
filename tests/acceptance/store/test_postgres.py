"""A log on PostgreSQL whose server is killed, and one that a recorder of its own process writes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import URL

from recorder.commands import demo
from recorder.errors import StoreBusyError
from recorder.store.write.writer import Store
from tests.integration.store.test_postgres import WORDS, asked
from tests.support.postgres import Cluster, conninfo, programs
from tests.support.rows import add, begin, make_events
from tests.support.server import run


def test_a_server_that_crashes_and_comes_back_has_what_was_committed() -> None:
    folder = programs()
    if folder is None:
        pytest.skip("there is no server of our own to be stopped")
    with TemporaryDirectory() as directory, Cluster(folder, Path(directory), fsync="on") as cluster:
        url = URL.create("postgresql", "postgres", database="postgres", query={"host": directory})
        with Store(url) as store:
            events = make_events(begin(store), [WORDS] * 30)
            add(store, events[:20])
            cluster.stop()
            for _ in range(2):
                with pytest.raises(StoreBusyError, match="cannot be reached"):
                    add(store, events)
            cluster.start()
            add(store, events)
            assert asked(url, "SELECT count(*) FROM events") == [(30,)]


def test_a_demo_is_recorded_there_and_found_again(
    postgres_database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its ingester had time for."""
    monkeypatch.setattr(demo, "DRAIN_S", 0.0)
    db = conninfo(postgres_database)
    assert run(tmp_path / "none", "demo", "--db", db).code == 0
    assert b"gpt-demo" in run(tmp_path / "none", "sessions", "--db", db, "-q", "letter arriv*").out
    assert b"get_weather" in run(tmp_path / "none", "show", "latest", "--db", db).out
    sql = "SELECT model, total_tokens FROM usage_by_model"
    assert b"gpt-demo,1255" in run(tmp_path / "none", "query", "--csv", sql, "--db", db).out
    assert run(tmp_path / "none", "verify", "--db", db).code == 0
    assert b"pg_dump" in run(tmp_path / "none", "db", "backup", "x", "--db", db).err.encode()
