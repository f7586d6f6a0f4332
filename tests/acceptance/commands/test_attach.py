"""Commands on a log whose older sessions are in an archive: they answer what they answer on one log
with everything.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.place import database_name, database_url
from recorder.archive.registry import archives_of, register, unregister
from recorder.errors import missing_extra
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.store.write.writer import Store
from tests.acceptance.store.test_purge import RECORDER, canary, record
from tests.integration.ingest.test_ingester import never
from tests.support import superuser
from tests.support.archives import archive_to, divide, session_ids
from tests.support.rows import put_prices
from tests.support.server import Ran, address, run


class Divided(NamedTuple):
    """A log with everything, and the same in a log and its archive."""

    whole: Path
    log: Path
    archive: URL
    archived: str  # the name of a session that is in the archive
    kept: str  # … and of one that is not


@pytest.fixture(scope="module")
def divided(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Divided:
    folder = tmp_path_factory.mktemp("divided")
    whole = Path(shutil.copy(demo_recording, folder / "whole.db"))
    journal = Journal(folder / "elsewhere", RECORDER)
    record(journal, "a", "b")
    journal.close()
    with Store(whole) as store:
        Ingester(store, journal.directory, never).drain()
    put_prices(whole, "gpt-demo", input="1.25", output="10")
    log, archive = divide(whole, folder, "ducklake")
    names = dict(superuser.asked(whole, "SELECT session_id, name FROM sessions"))
    return Divided(whole, log, archive, names[session_ids(archive)[0]], names[session_ids(log)[0]])


def same(divided: Divided, *arguments: object) -> bytes:
    """What a command prints on both. It is the same."""
    both, alone = (run(log, *arguments) for log in (divided.log, divided.whole))
    assert (both.code, both.out) == (alone.code, alone.out), both.err
    assert "left out" not in both.err
    return both.out


def test_commands_print_what_they_print_on_one_log(divided: Divided) -> None:
    """The session of the demo is in the archive: it has what each command shows."""
    name = divided.archived
    assert name not in (canary("a"), canary("b"))
    assert len(json.loads(same(divided, "sessions", "--json"))) == 3
    assert json.loads(same(divided, "show", name, "--json"))
    assert same(divided, "usage", "--by", "model", "--cost", "--json")
    assert same(divided, "diff", name, divided.kept)
    assert same(divided, "export", name, "--format", "jsonl")


def test_sql_is_about_both(divided: Divided) -> None:
    for sql in (
        "select session_id, exchange_id, pos, kind, raw from events where session_id > :after order by 1, 2, 3",
        "select session_id, exchange_id, model, cost_usd from costs where session_id > :after order by 1, 2",
    ):
        assert len(same(divided, "query", sql, "-p", "after", "00", "--jsonl").splitlines()) > 1, (
            sql
        )


def test_sql_over_both_only_reads(divided: Divided, tmp_path: Path) -> None:
    """As `tests/acceptance/security/test_duckdb.py` has it of every statement."""
    ran = run(divided.log, "query", f"copy sessions to '{tmp_path / 'out.csv'}'")
    assert (ran.code, "`recorder query`" in ran.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_log_is_read_alone(
    divided: Divided, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    sentence = str(missing_extra("", "archive"))
    ran = run(divided.log, "sessions", "--json")
    assert (ran.code, len(json.loads(ran.out))) == (0, len(session_ids(divided.log))), ran.err
    assert sentence in ran.err
    for command in ("sessions", "verify"):
        ran = run(divided.log, command, "--db", database_name(divided.archive))
        assert (ran.code, ran.out) == (1, b"")
        assert ran.err.rstrip().endswith(sentence)


def test_both_are_verified_with_one_exit_code(divided: Divided) -> None:
    manifest = same(divided, "verify", "--manifest").decode().splitlines()
    assert len(manifest) == 4
    ran = run(divided.log, "verify")
    assert (ran.code, ran.out) == (0, b"")
    assert f"{divided.log}: " in ran.err
    assert f"{database_name(divided.archive)}: " in ran.err


@pytest.fixture
def copied(divided: Divided, tmp_path: Path) -> Divided:
    """A log to be written to, with the same archive."""
    return divided._replace(log=Path(shutil.copy(divided.log, tmp_path / "log.db")))


def attach(log: Path, verb: str, archive: object) -> Ran:
    return run(log, "db", "archive", f"--{verb}", archive)


def test_an_archive_is_detached_listed_and_attached_again(copied: Divided) -> None:
    name = database_name(copied.archive)
    gone = session_ids(copied.archive)[0]
    assert run(copied.log, "db", "archive", "--list").out.decode() == f"{name}\n"
    assert attach(copied.log, "detach", name).code == 0
    assert json.loads(run(copied.log, "db", "archive", "--list", "--json").out) == []
    ran = run(copied.log, "show", gone)
    assert ran.code == 3
    assert "was archived on" in ran.err
    assert "`recorder db archive --attach`" in ran.err
    states = {
        each["session_id"]: each["state"]
        for each in json.loads(run(copied.log, "verify", "--json").out)
    }
    assert states[gone] == "archived"
    assert attach(copied.log, "detach", name).code == 2
    assert attach(copied.log, "attach", name).code == 0
    assert "attached already" in attach(copied.log, "attach", name).err
    assert archives_of(database_url(copied.log)) == [copied.archive]
    assert run(copied.log, "show", gone).code == 0


def test_what_is_no_archive_is_not_attached(copied: Divided, tmp_path: Path) -> None:
    assert attach(copied.log, "attach", f"ducklake:{tmp_path / 'none.db'}").code == 3
    assert attach(copied.log, "attach", copied.log).code == 2
    ran = run(
        copied.log, "db", "archive", "--attach", copied.log, "--db", database_name(copied.archive)
    )
    assert ran.code == 2
    assert "is an archive itself" in ran.err
    assert archives_of(database_url(copied.log)) == [copied.archive]


def test_an_archive_that_is_away_is_a_finding_and_no_obstacle(
    copied: Divided, tmp_path: Path
) -> None:
    away = database_url(f"ducklake:{tmp_path / 'away.db'}")
    with Store(copied.log) as store:
        unregister(store, copied.archive)
        register(store, away, 1)
    here = session_ids(copied.log)
    for arguments in (
        ["sessions", "--json"],
        ["query", "select session_id from sessions", "--json"],
    ):
        ran = run(copied.log, *arguments)
        assert sorted(each["session_id"] for each in json.loads(ran.out)) == here
        assert ran.err.count("is left out") == 1
        assert f"{database_name(away)} is left out: There is no archive" in ran.err
    ran = run(copied.log, "show", session_ids(copied.archive)[0])
    assert ran.code == 3
    assert f"It may be in {database_name(away)}: `recorder doctor` says why" in ran.err
    ran = run(copied.log, "verify")
    assert ran.code == 4
    assert "bad     There is no archive" in ran.out.decode()
    rows = json.loads(run(copied.log, "doctor", "--json").out)
    [message] = [each["message"] for each in rows if each["check"] == "archive"]
    assert message.startswith("There is no archive")


def test_an_archived_session_that_no_archive_has_is_a_finding(
    copied: Divided, tmp_path: Path
) -> None:
    gone = session_ids(copied.log)[0]
    archive_to(copied.log, copied.archive, gone)
    ran = run(copied.log, "verify")
    assert ran.code == 4
    assert (
        ran.out.decode()
        == f"bad     {gone}: it was archived, and no archive that is attached has it\n"
    )


def test_a_log_on_a_server_has_archives_too(divided: Divided, postgres_database: URL) -> None:
    assert run(divided.whole, "db", "copy", divided.whole, address(postgres_database)).code == 0
    put_prices(postgres_database, "gpt-demo", input="1.25", output="10")
    archive_to(postgres_database, divided.archive, *session_ids(divided.archive))
    sql = "select session_id, exchange_id, model, cost_usd from costs order by 1, 2"
    both, alone = (run(log, "query", sql, "--jsonl") for log in (postgres_database, divided.whole))
    assert (both.code, both.out) == (alone.code, alone.out), both.err
