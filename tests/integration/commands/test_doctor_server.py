"""`recorder doctor` of a database on a server: what can be wrong there is said, and what is in
order, too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.commands.doctor import diagnosis
from recorder.commands.ops import health_log
from recorder.store.engine import READER_ROLE, WRITER_ROLE
from recorder.store.location import database_url, journal_root
from recorder.store.maintain.upkeep import CheckResult
from recorder.store.postgres import upkeep as postgres_upkeep
from recorder.store.postgres.rights import GRANTS
from recorder.store.write.writer import Store
from tests.integration.commands.test_recover import Elsewhere
from tests.integration.store.test_postgres import asked
from tests.support.postgres import Server, conninfo
from tests.support.rows import make_session
from tests.support.server import run
from tests.support.superuser import login


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings of whoever runs the tests, and without their journals."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def url(postgres_database: URL) -> URL:
    """A log with its roles, as the login of a recorder sees it."""
    with Store(postgres_database) as store:
        store.grant(GRANTS)
    login(postgres_database, "looks", READER_ROLE)
    return login(postgres_database, "records", WRITER_ROLE)


def said(url: URL, check: str) -> CheckResult:
    [line] = [line for line in diagnosis(url) if line.check == check]
    return line


@pytest.mark.long
def test_what_is_in_order_is_said_to_be(url: URL) -> None:
    lines = [line for line in diagnosis(url) if line.check not in ("server", "port")]
    assert [line for line in lines if line.state != "ok"] == []
    expected = {
        "python",
        "database",
        "rights",
        "partitions",
        "projections",
        "gaps",
        "recorders",
        "connections",
    }
    assert expected <= {line.check for line in lines}
    assert {"sqlite", "wal", "filesystem"}.isdisjoint(line.check for line in lines)


def test_it_is_a_command_as_for_a_file(url: URL, tmp_path: Path) -> None:
    ran = run(tmp_path / "none", "doctor", "--db", conninfo(url), "--json")
    assert ran.code == 0
    assert {"state", "check", "message"} == set(json.loads(ran.out)[0])


def test_a_look_changes_nothing(url: URL) -> None:
    counts = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_xact_all_tables"
    before = asked(url, counts), asked(url, "SELECT count(*) FROM pg_class")
    list(diagnosis(url))
    assert (asked(url, counts), asked(url, "SELECT count(*) FROM pg_class")) == before
    assert not journal_root(url).exists()


@pytest.mark.parametrize(
    ("user", "state", "words"),
    [
        ("postgres", "warn", "is a superuser"),
        ("looks", "ok", "may read the log"),
        ("records", "ok", "not change it"),
    ],
)
def test_what_the_user_may_do_is_said(url: URL, user: str, state: str, words: str) -> None:
    line = said(url.set(username=user), "rights")
    assert (line.state, words in line.message) == (state, True)


def test_who_may_change_the_log_is_warned_with_the_remedy(url: URL, postgres_database: URL) -> None:
    asked(postgres_database, "GRANT DELETE ON events TO records")
    line = said(url, "rights")
    asked(postgres_database, "REVOKE DELETE ON events FROM records")
    assert (line.state, "`recorder db upgrade --roles`" in line.message) == ("warn", True)


def test_a_month_without_partitions_is_said(url: URL, postgres_database: URL) -> None:
    [(month,)] = asked(
        postgres_database,
        "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 month', '_YYYY_MM')",
    )
    asked(postgres_database, f"DROP TABLE events{month}")
    line = said(url, "partitions")
    assert (line.state, "the next month" in line.message) == ("warn", True)


def test_of_days_today_and_tomorrow_are_looked_for(url: URL, postgres_database: URL) -> None:
    assert run(postgres_database, "db", "upgrade", "--partitions", "day").code == 0
    assert (
        said(url, "partitions").message
        == "Today and tomorrow have their partitions; the default one is empty."
    )
    tomorrow = "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 day', '_YYYY_MM_DD')"
    [(day,)] = asked(postgres_database, tomorrow)
    asked(postgres_database, f"DROP TABLE exchanges{day}")
    line = said(url, "partitions")
    assert (line.state, "There are no partitions for tomorrow" in line.message) == ("warn", True)


def test_sessions_that_keep_a_month_from_its_partition_are_said(
    url: URL, postgres_database: URL
) -> None:
    far = make_session(1, session_id="0fffffff-ffff-7000-8000-000000000000")
    with Store(postgres_database) as store, store.transaction():
        store.add_session(far)
    line = said(url, "partitions")
    assert (line.state, "1 sessions" in line.message) == ("warn", True)


def test_what_a_recorder_that_is_gone_has_open_is_said(
    url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Elsewhere(url, tmp_path / "elsewhere")
    heard = said(url, "recorders")
    monkeypatch.setattr(health_log, "GONE_NS", 1)
    silent = said(url, "recorders")
    elsewhere.close()
    assert (heard.state, "1 exchange of 1 recorder elsewhere" in heard.message) == ("ok", True)
    assert (silent.state, "run `recorder db recover`" in silent.message) == ("warn", True)


def test_a_journal_without_owner_is_said(url: URL, tmp_path: Path) -> None:
    here = Elsewhere(url, journal_root(url))
    here.close()
    for lock in here.journal.directory.glob("*lock"):
        os.utime(lock, (0, 0))  # one that was made just now is not looked at
    found = {line.state: line.message for line in diagnosis(url) if line.check == "journal"}
    assert "run `recorder db recover`" in found["warn"]


def test_a_server_that_does_not_write_to_the_disk_is_warned_of(url: URL) -> None:
    [(fsync,)] = asked(url, "SHOW fsync")
    line = said(url, "server")
    assert (line.state == "warn") == (fsync == "off") == ("fsync" in line.message)


def test_few_connections_are_said(url: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_upkeep, "FEW", 10**6)
    assert said(url, "connections").state == "warn"


def test_what_takes_too_long_is_not_waited_for(url: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_upkeep, "LIMIT_S", 1.0)
    monkeypatch.setattr(health_log, "unfinished_sql", lambda _engine: "SELECT pg_sleep(60)")
    assert "too long for a quick check" in said(url, "recorders").message


def test_a_schema_that_is_not_the_newest_is_said(url: URL, postgres_database: URL) -> None:
    asked(postgres_database, "UPDATE recorder_version SET version_num = '0021'")
    assert said(url, "schema").state == "warn"
    asked(postgres_database, "UPDATE recorder_version SET version_num = '9999'")
    assert said(url, "schema").state == "bad"


def test_a_database_without_a_log_is_one_to_be(postgres_server: Server) -> None:
    empty = database_url(postgres_server.create())
    line = said(empty, "database")
    postgres_server.drop(empty)
    assert (line.state, "the first recording makes it" in line.message) == ("ok", True)


def test_a_server_that_is_away_is_bad(tmp_path: Path) -> None:
    ran = run(tmp_path / "none", "doctor", "--db", f"postgresql://me@/db?host={tmp_path}")
    assert (ran.code, b"cannot be reached" in ran.out) == (4, True)


def test_every_line_is_one_sentence_of_text(url: URL) -> None:
    assert all(line.message.endswith(".") and "\n" not in line.message for line in diagnosis(url))
