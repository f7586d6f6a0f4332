"""`recorder doctor`: each thing that can be wrong is said, in one sentence, and nothing is changed
by a look.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from recorder.commands.doctor import command, diagnosis
from recorder.commands.ops import health
from recorder.commands.ops.health import filesystem, filesystem_of
from recorder.commands.ops.last_verify import LastVerify, keep
from recorder.commands.query import command as query
from recorder.commands.verify import command as verify
from recorder.ingest.ingester import Ingester, recover
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.shipping.bucket import parse_prefix
from recorder.shipping.status import Status, write_status
from recorder.store.location import database_url
from recorder.store.maintain.upkeep import CheckResult
from recorder.store.sqlite.upkeep import WAL_BYTES, file_checks, has_wal_fix
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support.empty_log import empty


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one exchange, closed."""
    made = tmp_path / "data" / "recorder.db"
    journal = Journal(tmp_path / "elsewhere", "recorder-1")
    with Store(empty(made)) as store:
        Exchange(journal).chunk(COMPLETED).end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    return made


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    """That of a recorder that runs beside the database."""
    made = Journal(Path(f"{path}.journal"), "recorder-2")
    yield made
    if made._fd >= 0:
        made.close()


def ran(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--db", str(path)])


def said(path: Path, check: str) -> list[CheckResult]:
    return [line for line in diagnosis(path) if line.check == check]


def only(path: Path, check: str) -> CheckResult:
    [line] = said(path, check)
    return line


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_what_is_in_order_is_said_to_be(path: Path) -> None:
    assert CliRunner().invoke(verify, ["--db", str(path)]).exit_code == 0
    done = ran(path)
    # that of tests may be in memory
    lines = [line for line in done.stdout.splitlines() if " filesystem " not in line]
    assert (done.exit_code, [line for line in lines if not line.startswith("ok ")]) == (0, [])
    assert len(lines) > 5


def test_json_has_a_row_for_each_line(path: Path) -> None:
    rows = json.loads(ran(path, "--json").stdout)
    assert {"python", "sqlite", "clock", "database", "modes", "space", "wal", "journal"} <= {
        row["check"] for row in rows
    }
    assert all(row.keys() == {"state", "check", "message"} for row in rows)


def test_a_look_changes_nothing(path: Path, journal: Journal) -> None:
    def everything() -> dict[Path, tuple[int, int]]:
        found = path.parent.rglob("*")
        return {each: (each.stat().st_mtime_ns, each.stat().st_size) for each in found}

    for side in ("-wal", "-shm"):
        Path(f"{path}{side}").unlink(missing_ok=True)
    before = everything()
    ran(path)
    assert everything() == before


def test_a_database_that_is_being_written_can_be_looked_at(path: Path, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "elsewhere", "recorder-3")
    with Store(path) as store:
        Exchange(journal).chunk(COMPLETED).end()
        Ingester(store, journal.directory, never).drain()
        assert Path(f"{path}-wal").stat().st_size
        assert ran(path).exit_code == 0
        assert [line.state for line in diagnosis(path)].count("bad") == 0
    journal.close()


def test_without_a_database_nothing_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "none" / "recorder.db"
    assert ran(path).exit_code == 0
    assert "the first recording makes it" in only(path, "database").message
    assert not path.parent.exists()


def test_what_is_no_log_is_bad(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("folder.db", "text.db", "foreign.db")]
    paths[0].mkdir()
    paths[1].write_text("no database " * 1000)
    execute(paths[2], "CREATE TABLE things (x)")
    for path, words in zip(
        paths,
        ("is a directory", "is not a database file", "belongs to another program"),
        strict=True,
    ):
        assert (ran(path).exit_code, words in only(path, "database").message) == (4, True), words
        assert not Path(f"{path}.lock").exists()


def test_a_damaged_file_is_bad(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)
    assert ran(path).exit_code == 4
    assert "damaged" in said(path, "database")[-1].message


def test_an_empty_file_is_a_database_to_be(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch(0o600)
    assert only(tmp_path / "empty.db", "database").state == "ok"


def test_another_schema_is_said(path: Path) -> None:
    before = "before the first release"
    for revision, state, words in (
        ("0021", "warn", "db upgrade"),
        ("0001", "bad", before),
        ("9999", "bad", "newer"),
    ):
        execute(path, f"UPDATE recorder_version SET version_num = '{revision}'")
        line = only(path, "schema")
        assert (line.state, words in line.message) == (state, True)


def test_what_others_can_read_is_said_with_the_remedy(path: Path, journal: Journal) -> None:
    for end, mode in (
        ("", 0o600),
        ("-wal", 0o600),
        (".lock", 0o600),
        (".journal", 0o700),
        (".verified", 0o600),
    ):
        file = Path(f"{path}{end}")
        if not file.exists():
            file.touch()
        file.chmod(0o755)
        [line] = said(path, "modes")
        assert (line.state, f"chmod {mode:o} '{file}'" in line.message) == ("warn", True)
        file.chmod(mode)


def test_a_journal_without_owner_is_to_be_recovered(path: Path, journal: Journal) -> None:
    Exchange(journal)
    lock = journal.directory / "lock"
    os.utime(lock, (0, 0))
    assert [line.message for line in said(path, "journal")] == ["1 recorder runs just now."]
    journal.close()
    left, running = said(path, "journal")
    assert (left.state, "recorder db recover" in left.message) == ("warn", True)
    assert running.message == "0 recorders run just now."


@pytest.mark.parametrize(
    ("statement", "check", "state", "words"),
    [
        (
            "INSERT INTO rebuilds VALUES ('projections', '', '')",
            "projections",
            "warn",
            "recorder db rebuild",
        ),
        ("DELETE FROM p_exchanges_v1", "projections", "warn", "recorder db rebuild"),
        ("UPDATE p_exchanges_v1 SET lossless = 0", "gaps", "warn", "1 exchange is not whole"),
    ],
)
def test_what_is_to_be_done_for_the_log_is_said(
    path: Path, statement: str, check: str, state: str, words: str
) -> None:
    execute(path, statement)
    line = only(path, check)
    assert (line.state, words in line.message) == (state, True)


def test_exchanges_that_are_not_whole_are_listed_by_the_query_that_is_named(path: Path) -> None:
    """One that a crash ended is not whole and has no gap: `recorder verify` does not list it."""
    execute(path, "UPDATE p_exchanges_v1 SET lossless = 0")
    named = re.search(r"`(recorder query .*)`", only(path, "gaps").message)
    assert named
    _, _, *arguments = shlex.split(named[1])
    listed = CliRunner().invoke(query, [*arguments, "--json", "--db", str(path)])
    with closing(sqlite3.connect(path)) as connection:
        [(exchange_id,)] = connection.execute("SELECT exchange_id FROM exchanges")
    assert [row["exchange_id"] for row in json.loads(listed.stdout)] == [exchange_id]


def test_an_exchange_without_projections_is_bad(path: Path) -> None:
    execute(path, "INSERT INTO dead_letters SELECT session_id, exchange_id, 'why' FROM exchanges")
    assert ran(path).exit_code == 4


def test_the_last_verify_is_told(path: Path) -> None:
    assert "never verified" in only(path, "verify").message
    for findings, state in ((0, "warn"), (2, "bad")):
        keep(path, LastVerify(0, 0, 1, 1, 1, findings))
        assert only(path, "verify").state == state
    Path(f"{path}.verified").write_text("no JSON")
    assert only(path, "verify").state == "warn"


def test_an_exchange_from_the_future_is_said(path: Path) -> None:
    moved = "UPDATE stored_exchanges SET exchange_id = 'f' || substr(exchange_id, 2)"
    execute(path, "DROP TRIGGER stored_exchanges_no_update", moved)
    assert ["from the future" in line.message for line in said(path, "clock")] == [False, True]


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/me/in\\040memory tmpfs rw 0 0
"""


def test_a_network_filesystem_is_bad(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    for database, kind, state in (
        ("/data/a.db", "ext4", "ok"),
        ("/home/me/a.db", "nfs4", "bad"),
        ("/home/me/in memory/a.db", "tmpfs", "warn"),
    ):
        assert filesystem_of(Path(database), mounts) == kind
        assert [line.state for line in filesystem(Path(database), mounts)] == [state]
    assert [line.state for line in filesystem(tmp_path, tmp_path / "none")] == ["ok"], (
        "nothing is claimed"
    )


WITH_THE_FIX = [(3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 53, 0)]
WITHOUT_IT = [(3, 40, 1), (3, 44, 5), (3, 51, 2)]


def test_it_is_known_which_sqlite_has_the_fix() -> None:
    assert [
        version for version in (*WITH_THE_FIX, *WITHOUT_IT) if has_wal_fix(version)
    ] == WITH_THE_FIX


def test_a_disk_that_fills_up_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(path.parent)
    for free, state in ((2**34, "ok"), (2**29, "warn"), (2**20, "bad")):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda where, free=free: usage._replace(free=free)
        )
        assert only(path, "space").state == state


def test_a_wal_that_nobody_can_empty_is_said(path: Path) -> None:
    with open(f"{path}-wal", "wb") as file:
        file.truncate(WAL_BYTES + 1)
    assert [line.state for line in file_checks(database_url(path))] == ["warn"]


def test_a_port_that_is_taken_is_said() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        [line] = health.port(taken.getsockname()[1])
    assert "is taken" in line.message


def test_settings_that_no_command_would_take_are_bad(tmp_path: Path, path: Path) -> None:
    for text, state in (
        ("[serve]\nmax-body = 8\n", "ok"),
        ("[serve]\nport = 8788\n", "bad"),  # which a project's file may not set
        ("[serve]\nprot = 1\n", "bad"),
        ("port = \n", "bad"),
        ("[match]\nx = 1\n", "bad"),
    ):
        (tmp_path / "recorder.toml").write_text(text)
        line = only(path, "settings")
        assert (line.state, "recorder.toml" in line.message) == (state, True), text


def test_every_line_is_one_sentence_of_text(path: Path) -> None:
    assert all(line.message.endswith(".") and "\n" not in line.message for line in diagnosis(path))


# -- after a crash


@pytest.mark.long
@pytest.mark.parametrize("ingested", ["nothing", "half", "all"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["journal", "lost"])
def test_after_a_crash_doctor_and_verify_list_the_same(
    tmp_path: Path, ingested: str, is_lost: bool
) -> None:
    """The journals of recorders that are gone, and the exchanges that those had open."""
    path = tmp_path / "recorder.db"
    journal = Journal(Path(f"{path}.journal"), "killed")
    done, open_ = Exchange(journal), Exchange(journal).chunk(b"data: 1\n\n")
    done.chunk(COMPLETED).end()
    with Store(path) as store:
        ingester = Ingester(store, journal.directory, never)
        if ingested != "nothing":
            ingester.drain()
        if ingested == "half":
            open_.chunk(b"data: 2\n\n")
    journal.close()
    for lock in ("lock", "ingester.lock"):
        (journal.directory / lock).touch()
        os.utime(journal.directory / lock, (1, 1))
    if is_lost:
        shutil.rmtree(journal.directory)
    checked = CliRunner().invoke(verify, ["--wait", "0", "--db", str(path)])
    lines = [line for check in ("journal", "open") for line in said(path, check)]
    listed = checked.stdout + checked.stderr
    has_open = ingested != "nothing"
    assert (
        (open_.id in listed) == has_open == any(" without an end" in line.message for line in lines)
    )
    assert ("run `recorder db recover`" in listed) == (not is_lost)
    assert [line.message for line in lines if "was killed" in line.message] == [
        sentence.removesuffix(" What it left is not in the log.")
        for sentence in checked.stderr.splitlines()
        if "was killed" in sentence
    ]
    assert any("was killed" in line.message for line in lines) == (not is_lost)
    with Store(path) as store:
        recover(store, journal.directory.parent, never)
    again = CliRunner().invoke(verify, ["--db", str(path)])
    assert (again.exit_code == 0, "was killed" in again.stderr) == (has_open or not is_lost, False)
    assert [line.state for check in ("journal", "open") for line in said(path, check)] == [
        "ok",
        "ok",
    ]


def test_how_far_a_recorder_is_behind_is_said(path: Path, journal: Journal) -> None:
    now_ns = time.monotonic_ns()
    os.utime(journal.directory / "lock", (time.time() - 1_000, time.time() - 1_000))
    journal.exchange().write(Mark.CHUNK, now_ns - 152 * 10**9, b"x" * 3 * 2**20)
    behind, line = said(path, "journal")
    assert (behind.state, line.state) == ("warn", "ok")
    assert f"3.0 MiB wait in {journal.directory} for the log, the oldest for 15" in behind.message


def test_an_edge_that_was_killed_and_one_that_is_behind_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    root = parse_prefix("s3://bucket/edges").journal_root
    left, behind = Journal(root, "left"), Journal(root, "behind")
    for journal in (left, behind):
        journal.exchange().write(Mark.REQUEST, time.monotonic_ns() - 60 * 10**9, b"{}")
        os.utime(journal.directory / "lock", (time.time() - 90,) * 2)
    left.close()
    found = [(line.check, line.message) for line in health.edges()]
    behind.close()
    assert [check for check, _ in found] == ["edge", "edge"]
    assert "the oldest for 60 s: the object store is away" in found[0][1]
    assert f"{left.directory}: `recorder serve --ship` ships them" in found[1][1]


def test_a_collector_that_is_behind_or_says_nothing_is_named(tmp_path: Path) -> None:
    assert [*health.collector(tmp_path)] == []
    status = Status("s3://bucket/edges", recorders=2, problems={"r": "r/1.seg is damaged."})
    write_status(tmp_path, status)
    assert [(line.state, line.message) for line in health.collector(tmp_path)] == [
        ("ok", "2 edges of s3://bucket/edges, 0.0 s behind."),
        ("warn", "r: r/1.seg is damaged."),
    ]
    status.oldest_s = time.time() - 30
    write_status(tmp_path, status)
    assert next(health.collector(tmp_path)).state == "warn"
    status.noted_s = time.time() - 100
    (tmp_path / "status").write_bytes(msgspec.json.encode(status))
    [line] = health.collector(tmp_path)
    assert "has said nothing for 100 s" in line.message
