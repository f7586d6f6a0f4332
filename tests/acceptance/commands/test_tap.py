"""`recorder tap`: a client and its program notice nothing, and the log has the lines of both."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.logbook import Entry, entries
from tests.support.mcp_shop import Bought, buy
from tests.support.server import COMMAND_S, PROGRAM, children, environment, run, wait_until

SHOP = (sys.executable, "-m", "tests.support.mcp_shop")
ROOT = Path(__file__).parents[3]
CALLS = "SELECT name, output, failed FROM tool_calls ORDER BY item"


@contextmanager
def tapped(db: Path, *command: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A running tap, between pipes, which are closed behind it."""
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **streams,
    }
    variables = {**environment(db.parent), "RECORDER_DB": str(db)}
    with subprocess.Popen(
        [*PROGRAM, "tap", "shop", "--", *command], env=variables, **pipes
    ) as process:
        yield process


def recorded(db: Path) -> Entry:
    """The one exchange of a log, when it has ended."""
    found: list[Entry] = []

    def has_ended() -> bool:
        found[:] = entries(db) if run(db, "sessions", "--wait", "0").code == 0 else []
        return bool(found) and bool(found[0].end)

    wait_until(has_ended)
    [entry] = found
    return entry


def sent(entry: Entry) -> bytes:
    return b"".join(event.raw for event in entry.events if event.kind == "sent")


async def bought(*command: str, db: Path, **variables: str) -> Bought:
    variables = {**environment(db.parent), "RECORDER_DB": str(db), **variables}
    server = StdioServerParameters(
        command=command[0], args=list(command[1:]), env=variables, cwd=ROOT
    )
    async with Client(stdio_client(server), mode="legacy") as client:
        return await buy(client)


def test_an_sdk_gets_what_it_gets_without_it_and_the_log_has_its_tool_calls(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    alone = asyncio.run(bought(*SHOP, db=db))
    assert (
        asyncio.run(bought(*PROGRAM, "tap", "--session", "tour", "shop", "--", *SHOP, db=db))
        == alone
    )
    entry = recorded(db)
    assert (entry.session, entry.exchange.api, entry.exchange.method) == ("tour", "mcp", "STDIO")
    assert (entry.end["status"], entry.end["lossless"]) == ("completed", True)
    rows = json.loads(run(db, "query", CALLS, "--json").out)
    assert [(row["name"], row["output"], bool(row["failed"])) for row in rows] == alone.calls
    assert run(db, "query", "SELECT * FROM anomalies", "--json").text.strip() == "[]"
    assert [run(db, *words).code for words in (("verify",), ("lint", "tour"))] == [0, 0]


def test_at_the_level_shape_no_word_of_the_lines_is_in_any_file(tmp_path: Path) -> None:
    db, line = (
        tmp_path / "recorder.db",
        b'{"jsonrpc":"2.0","id":1,"result":{"text":"blue suede"}}\n',
    )
    variables = {**environment(tmp_path), "RECORDER_DB": str(db)}
    words = [*PROGRAM, "tap", "--content", "shape", "shop", "--", "cat"]
    ran = subprocess.run(words, input=line, env=variables, capture_output=True, timeout=COMMAND_S)
    assert (ran.stdout, ran.stderr, ran.returncode) == (line, b"", 0)
    entry = recorded(db)
    assert len(sent(entry)) == len(line)
    assert b"filler in place of texts" in run(db, "show", "latest").out
    assert not [
        each for each in tmp_path.rglob("*") if each.is_file() and b"suede" in each.read_bytes()
    ]


GIVEN = b'{"a":1}\r\n\n\xff\xfe no text\n' + b"x" * 700_000 + b"\n\x00last without an end"


def test_bytes_stderr_and_exit_code_pass_as_they_are(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    with tapped(db, "sh", "-c", "echo oops >&2; cat; exit 7") as ran:
        out, err = ran.communicate(GIVEN, COMMAND_S)
        assert (out, err, ran.returncode) == (GIVEN, b"oops\n", 7)
        entry = recorded(db)
        assert entry.body == GIVEN
        assert sent(entry).count(b"\n") == GIVEN.count(b"\n")
        assert entry.exchange.api == "other"


def test_a_client_that_says_nothing_leaves_it_to_the_program_to_show_its_format(
    tmp_path: Path,
) -> None:
    script = """cat; echo '{"type":"system","subtype":"init","session_id":"s"}'"""
    with tapped(tmp_path / "recorder.db", "sh", "-c", script, stdin=subprocess.DEVNULL) as ran:
        ran.communicate(timeout=COMMAND_S)
        entry = recorded(tmp_path / "recorder.db")
        assert (entry.exchange.api, entry.end["close"]["by"]) == ("stream-json", "client")


def test_nothing_but_the_program_has_the_streams_of_the_client(tmp_path: Path) -> None:
    """What reads them to their end would wait for the log."""
    with tapped(tmp_path / "recorder.db", "cat") as ran:
        streams = {
            os.fstat(each.fileno()).st_ino for each in (ran.stdin, ran.stdout, ran.stderr) if each
        }

        def holding() -> list[str]:
            found = [
                pid
                for pid in children(ran.pid)
                if streams & {inode_of(path) for path in descriptors(pid)}
            ]
            return [Path(f"/proc/{pid}/comm").read_text() for pid in found]

        # a process which is just made has them until its program begins
        # the other is the ingester
        wait_until(lambda: len(children(ran.pid)) == 2 and holding() == ["cat\n"])
        assert ran.communicate(b"", COMMAND_S) == (b"", b"")


def descriptors(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


def inode_of(path: Path) -> int:
    """The inode of an open file; 0 if it is closed by now."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


AT_ANY_LINE = [pytest.param(lines, marks=pytest.mark.slow) for lines in range(1, 300, 10)]


@pytest.mark.parametrize("lines", [200, *AT_ANY_LINE])
def test_kill_9_hurts_neither_side_and_the_log_has_what_they_saw(
    tmp_path: Path, lines: int
) -> None:
    db, ended = tmp_path / "recorder.db", tmp_path / "ended"
    with tapped(db, "sh", "-c", f"cat; echo over > {ended}") as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        for number in range(300):
            ran.stdin.write(b'{"jsonrpc":"2.0","method":"%d"}\n' % number)
        ran.stdin.flush()
        seen = [ran.stdout.readline() for _ in range(lines)]
        os.kill(ran.pid, signal.SIGKILL)
        seen += ran.stdout.readlines()  # to its end
        wait_until(ended.exists)
        entry = recorded(db)
        assert entry.body.startswith(b"".join(seen))
        assert sent(entry).startswith(b"".join(seen))
        assert entry.end["outcome"] == "recorder_crash"


def test_without_a_disk_it_passes_all_the_same_and_says_so_once(tmp_path: Path) -> None:
    with tapped(tmp_path / "file" / "recorder.db", "cat") as ran:
        (tmp_path / "file").write_text("no folder")
        out, err = ran.communicate(GIVEN, COMMAND_S)
        assert (out, ran.returncode) == (GIVEN, 0)
        assert err.startswith(b"Nothing of shop is recorded. ")
        assert err.count(b"\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_for_the_program(tmp_path: Path, number: int) -> None:
    script = "trap 'echo got; exit 3' TERM HUP; echo ready; while :; do sleep 0.05; done"
    with tapped(tmp_path / "recorder.db", "sh", "-c", script) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"ready\n"
        ran.send_signal(number)
        out, _ = ran.communicate(timeout=COMMAND_S)
        assert (out, ran.returncode) == (b"got\n", 3)


def test_a_client_that_leaves_is_seen_by_the_program(tmp_path: Path) -> None:
    with tapped(
        tmp_path / "recorder.db", "sh", "-c", "while echo x; do :; done", stderr=subprocess.DEVNULL
    ) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"x\n"
        ran.stdout.close()
        assert ran.wait(COMMAND_S) != 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["no-such-program"], 127, "Error: no-such-program is not on the PATH.\n"),
        (
            ["/dev/null"],
            126,
            "Error: /dev/null cannot be executed: give it the right to, or name what runs it.\n",
        ),
    ],
)
def test_a_program_that_is_not_there_is_one_sentence(
    tmp_path: Path, words: list[str], code: int, sentence: str
) -> None:
    with tapped(tmp_path / "recorder.db", *words) as ran:
        _, err = ran.communicate(timeout=COMMAND_S)
        assert (ran.returncode, err.decode()) == (code, sentence)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Bought]:
    """A recorded tour of a shop, and what its client got."""
    db = tmp_path_factory.mktemp("tour") / "recorder.db"
    got = asyncio.run(bought(*PROGRAM, "tap", "--session", "tour", "shop", "--", *SHOP, db=db))
    recorded(db)
    return db, got


def test_a_replay_stands_in_for_the_program(tour: tuple[Path, Bought]) -> None:
    db, got = tour
    assert (
        asyncio.run(bought(*PROGRAM, "tap", "shop", "--replay", "tour", "--speed", "max", db=db))
        == got
    )


def test_a_request_that_was_not_recorded_is_an_error_of_json_rpc_a_sentence_and_exit_code_5(
    tour: tuple[Path, Bought],
) -> None:
    asked = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"sell"}}\n'
    variables = {**environment(tour[0].parent), "RECORDER_DB": str(tour[0])}
    words = [*PROGRAM, "tap", "shop", "--replay", "tour"]
    ran = subprocess.run(words, input=asked, env=variables, capture_output=True, timeout=COMMAND_S)
    answer = json.loads(ran.stdout)
    assert (ran.returncode, answer["id"]) == (5, "x")
    assert answer["error"]["message"].startswith("Nothing recorded answers POST /shop")
    assert ran.stderr.decode().strip() == answer["error"]["message"]


def test_a_program_that_was_not_recorded_is_one_sentence(tour: tuple[Path, Bought]) -> None:
    ran = run(tour[0], "tap", "bakery", "--replay", "tour")
    assert (ran.code, ran.err) == (
        3,
        "Error: No run of bakery was recorded in tour: `recorder show tour` says what was.\n",
    )
