"""`recorder db rebuild` and `recorder db upgrade`: projections of a log that has none, or others."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from recorder.store.write.writer import Store
from tests.integration.store.test_projector import recorded
from tests.support import superuser
from tests.support.rows import projections
from tests.support.server import Ran, run
from tests.unit.projections.test_fold import BODY


def a_log(path: Path | URL, count: int = 3) -> dict[str, list[tuple[object, ...]]]:
    """A log of so many exchanges; returns its projections."""
    with Store(path) as store:
        for number in range(1, count + 1):
            recorded(store, number)
    return projections(path)


def command(database: URL, home: Path, *arguments: object) -> Ran:
    return run(home / "none.db", *arguments, "--db", database.render_as_string(hide_password=False))


def test_a_rebuild_says_how_many_exchanges_it_was(database: URL, tmp_path: Path) -> None:
    as_it_came = a_log(database)
    superuser.asked(database, "UPDATE p_usage_v1 SET input_tokens = 0")
    assert projections(database) != as_it_came
    ran = command(database, tmp_path, "db", "rebuild")
    assert (ran.code, ran.out, ran.err) == (0, b"", "3 exchanges rebuilt.\n")
    assert projections(database) == as_it_came


def test_an_upgrade_makes_the_projections_that_are_due(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    as_it_came = a_log(path)
    for table in superuser.tables(path):
        if table.startswith("p_"):
            superuser.asked(path, f"DELETE FROM {table}")
    ran = run(path, "db", "upgrade")
    assert (ran.code, ran.err.splitlines()) == (
        0,
        ["3 exchanges rebuilt.", f"{path} is up to date."],
    )
    assert projections(path) == as_it_came


def test_the_log_stays_as_it_is(database: URL, tmp_path: Path) -> None:
    a_log(database, 1)
    before = superuser.asked(database, "SELECT * FROM events ORDER BY pos")
    assert len(before) > BODY.count(b"\n\n")
    assert command(database, tmp_path, "db", "rebuild").code == 0
    assert superuser.asked(database, "SELECT * FROM events ORDER BY pos") == before
