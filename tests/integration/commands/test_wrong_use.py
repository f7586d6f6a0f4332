"""Wrong use is answered with one sentence that helps, on stderr, and its exit code."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.conversations import Conversations, message, response
from tests.support.logbook import entries
from tests.support.server import Ran, run

SERVE = ("serve", "--port", "0")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two sessions of one exchange each."""
    log = Conversations(tmp_path_factory.mktemp("recorded") / "recorder.db")
    for name in ("one", "two"):
        log.session(name).exchange(response(*message("Hi.")))
    return log.path


def assert_one_sentence(ran: Ran, code: int, *words: str) -> None:
    """And, for an option that makes no sense, click's usage before it."""
    assert (ran.code, ran.out) == (code, b""), ran.err
    *usage, sentence = ran.err.strip().splitlines()
    assert re.fullmatch(r"Error: .*[.?]", sentence), ran.err
    assert all(
        line.startswith(("Usage: recorder ", "Try 'recorder ")) or not line for line in usage
    ), ran.err
    for word in words:
        assert word in sentence


@pytest.mark.long
def test_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ran = run(tmp_path / "recorder.db", "serve", "--port", port)
    assert_one_sentence(ran, 1, f"Port {port} on 127.0.0.1 is taken", "--port")


WRONG = {
    "unknown session": (["events", "nosuch"], 3, ["no session 'nosuch'", "recorder sessions"]),
    "a place of no store": ([*SERVE, "--ship", "bucket/edges"], 2, ["s3://", "file:FOLDER"]),
    "an edge with a database": (
        [*SERVE, "--ship", "s3://b/e", "--db", "x.db"],
        2,
        ["--db", "recorder collect"],
    ),
    "an edge with a viewer": (
        [*SERVE, "--ship", "s3://b/e", "--ui-port", "0"],
        2,
        ["leave --ui-port out"],
    ),
    "a collector that keeps what it collects where it collects": (
        ["collect", "s3://b/edges", "--keep", "s3://b/edges/kept"],
        2,
        ["outside of s3://b/edges"],
    ),
    "a collector of no store": (["collect", "http://b/e"], 2, ["s3://", "file:FOLDER"]),
    "a name that no file may have": (
        ["sessions", "--db", "é" * 300],
        1,
        ["File name too long"],
    ),
    "a text that is not UTF-8": (
        ["sessions", "--client", "\udcff"],
        2,
        ["'\\udcff' is not UTF-8"],
    ),
    "a port that is not a number": (
        ["sessions", "--db", "postgresql://[::1/log"],
        2,
        ["not a database URL"],
    ),
    "unknown exchange": (
        ["events", "latest", "--exchange", "7"],
        3,
        ["no exchange 7", "it has only 1"],
    ),
    "unknown exchange of a replay": (
        ["replay", "latest", "--exchange", "abcdef"],
        3,
        ["no exchange abcdef"],
    ),
    "speed of nothing": (["replay", "latest", "--speed", "0"], 2, ["over 0, or max"]),
    "negative speed": (["replay", "latest", "--speed", "-1"], 2, ["over 0, or max"]),
    "speed of no number": (["replay", "latest", "--speed", "fast"], 2, ["fast", "over 0, or max"]),
    "infinite speed": (["replay", "latest", "--speed", "inf"], 2, ["over 0, or max"]),
    "upstream without a name": ([*SERVE, "--upstream", "http://x"], 2, ["write NAME=URL"]),
    "upstream without a host": (
        [*SERVE, "--upstream", "openai=api.openai.com"],
        2,
        ["http:// or https://"],
    ),
    "upstream of another scheme": (
        [*SERVE, "--upstream", "openai=ftp://x"],
        2,
        ["http:// or https://"],
    ),
    "upstream with a query": ([*SERVE, "--upstream", "openai=http://x/?key=1"], 2, ["query"]),
    "upstream with a bad name": (
        [*SERVE, "--upstream", "Open AI=http://x"],
        2,
        ["cannot name an upstream"],
    ),
    "unknown engine": (["sessions", "--db", "mysql://x/y"], 2, ["mysql", "path"]),
    "two formats": (["events", "latest", "--raw", "--json"], 2, ["choose one"]),
    "an array without an end": (["events", "latest", "--follow", "--json"], 2, ["use --jsonl"]),
    "session for a collector": (
        ["export", "latest", "--to", "http://127.0.0.1:1"],
        2,
        ["leave latest out"],
    ),
    "format for a collector": (
        ["export", "--to", "x", "--format", "har"],
        2,
        ["--format is not for --to"],
    ),
    "two ways to archive": (
        ["db", "archive", "--list", "--attach", "x"],
        2,
        ["or one of --list, --attach"],
    ),
    "archive of nothing": (
        ["db", "archive", "--to", "ducklake:x.db"],
        2,
        ["--older-than and --to belong together"],
    ),
    "cache of one exchange": (["show", "latest", "1", "--cache"], 2, ["leave EXCHANGE"]),
    "two views of a session": (["show", "latest", "--cache", "--chain"], 2, ["leave EXCHANGE"]),
    "no session": (["replay"], 2, ["Missing argument 'SESSION'"]),
    "limit of nothing": (["sessions", "--limit", "0"], 2, ["--limit"]),
    "unknown verb": (["nonsense"], 2, ["No such command 'nonsense'."]),
    **{
        f"gone {verb}": ([*verb.split()], 2, [f"`recorder {verb}` is now written `"])
        for verb in (
            "cache",
            "cassette",
            "completion",
            "otlp",
            "schema",
            "db archives",
            "db attach",
            "db detach",
        )
    },
    "misspelt verb": (["sesions"], 2, ["Did you mean 'sessions'?"]),
    "client elsewhere": (
        ["env", "openai", "--url", "localhost:8787"],
        2,
        ["is not an http or https URL"],
    ),
    "client with a query": (
        ["env", "openai", "--url", "http://x/?y"],
        2,
        ["is not an http or https URL"],
    ),
    "client that a shell obeys": (
        ["env", "codex", "--url", 'http://x/"'],
        2,
        ["is not an http or https URL"],
    ),
    **{
        f"open to {host}": (["serve", "--host", host], 2, ["is not a loopback address"])
        for host in ("0.0.0.0", "::", "example.com")
    },
}


def test_wrong_arguments(recorded: Path) -> None:
    for words, code, said in WRONG.values():
        assert_one_sentence(run(recorded, *words), code, *said)


def test_an_ambiguous_prefix(recorded: Path) -> None:
    ids = [entry.exchange.session_id for entry in entries(recorded)]
    ran = run(recorded, "replay", ids[0][:6])
    sentence, *listed = ran.err.splitlines()
    assert (ran.code, ran.out, sentence.startswith("Error: ")) == (2, b"", True)
    assert "is the beginning of several session ids; give more of it" in sentence
    assert {line.split()[0] for line in listed} == set(ids)


def _text(path: Path) -> None:
    path.write_text("This is a letter, and as long as it takes to be no database at all.\n" * 20)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def _newer(path: Path) -> None:
    assert run(path, "db", "upgrade").code == 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        [table] = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if "version" in name
        ]
        connection.execute(f"UPDATE {table} SET version_num = '9999'")


DATABASES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "directory": (Path.mkdir, []),
    "no database": (_text, []),
    "of another program": (_foreign, []),
    "newer schema": (_newer, ["newer"]),
}


@pytest.mark.parametrize(("make", "words"), DATABASES.values(), ids=DATABASES)
def test_a_database_that_is_none_of_ours(
    tmp_path: Path, make: Callable[[Path], None], words: list[str]
) -> None:
    db = tmp_path / "recorder.db"
    make(db)
    before = db.read_bytes() if db.is_file() else b""
    for command in (SERVE, ("replay", "latest")):
        assert_one_sentence(run(db, *command), 1, str(db), *words)
    assert (db.read_bytes() if db.is_file() else b"") == before


@pytest.mark.skipif(
    os.geteuid() == 0 and sys.platform != "linux", reason="root may write everywhere"
)
@pytest.mark.parametrize("command", [SERVE, ("db", "upgrade")], ids=" ".join)
def test_a_database_that_cannot_be_written(tmp_path: Path, command: tuple[str, ...]) -> None:
    tmp_path.chmod(0o500)
    db = Path("/proc") / "recorder.db" if os.geteuid() == 0 else tmp_path / "recorder.db"
    assert_one_sentence(run(db, *command), 1, str(db), "cannot be")
