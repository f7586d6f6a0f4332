"""`recorder db rebuild` and `recorder db upgrade`: projections of a log that has none, or others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from recorder.store import Store
from tests.log_rows import projections
from tests.serving import run
from tests.test_folding import BODY
from tests.test_migrate import alembic
from tests.test_projector import recorded


def a_log(path: Path, count: int = 3) -> dict[str, list[tuple[object, ...]]]:
    """A log of so many exchanges; returns its projections."""
    with Store(path) as store:
        for number in range(1, count + 1):
            recorded(store, number)
    return projections(path)


def test_a_rebuild_says_how_many_exchanges_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    as_it_came = a_log(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE p_usage_v1 SET input_tokens = 0")
        connection.commit()
    assert projections(path) != as_it_came
    ran = run(path, "db", "rebuild")
    assert (ran.code, ran.out, ran.err) == (0, b"", "3 exchanges rebuilt.\n")
    assert projections(path) == as_it_came


def test_an_upgrade_of_a_log_without_projections_makes_them(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    as_it_came = a_log(path)
    assert alembic(path, "downgrade", "0001") == ""
    ran = run(path, "usage")
    assert (ran.code, "run `recorder db upgrade`" in ran.err) == (1, True)
    ran = run(path, "db", "upgrade")
    assert (ran.code, ran.err.splitlines()) == (0, ["3 exchanges rebuilt.", f"{path} is up to date."])
    assert projections(path) == as_it_came


def test_who_asks_before_a_rebuild_is_done_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    a_log(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO rebuilds VALUES ('projections', '', '')")
        connection.commit()
    for command in (("usage",), ("query", "select * from usage"), ("sessions", "--model", "gpt")):
        assert "The projections are not up to date: run `recorder db rebuild`.\n" in run(path, *command).err
    assert run(path, "db", "rebuild").code == 0
    assert "not up to date" not in run(path, "usage").err


def test_there_must_be_a_log(tmp_path: Path) -> None:
    ran = run(tmp_path / "none.db", "db", "rebuild")
    assert (ran.code, ran.err.startswith("Error: There is no database ")) == (3, True)
    assert not (tmp_path / "none.db").exists()


def test_the_log_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    a_log(path, 1)

    def events() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT * FROM events").fetchall()

    before = events()
    assert len(before) > BODY.count(b"\n\n")
    assert run(path, "db", "rebuild").code == 0
    assert events() == before
