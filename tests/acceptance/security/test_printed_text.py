"""Whatever is in a log, in a file, in a name: no command hands a terminal anything that it would
obey.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copy
from threading import Event, Thread

import httpx
import pytest

from recorder.commands.verbs import VERBS
from recorder.store.maintain.rebuild import rebuild
from recorder.store.write.writer import Store
from tests.acceptance.commands.test_mock import mocking
from tests.support.server import run
from tests.support.terminal import (
    CONTROLS,
    FILE_NAME,
    HOSTILE,
    NAME,
    SENT,
    body,
    printed_on_terminal,
    record,
)

NOBODY = HOSTILE + "!"
FORMATS = ("jsonl", "cassette", "payloads", "har", "vcr", "sse", "chat")

COMMANDS: Mapping[str, Sequence[Sequence[object]]] = {
    "sessions": [[], ["--json"]],
    "show": [
        ["latest"],
        ["latest", "1"],
        ["latest", "--at", "50%"],
        ["latest", "--json"],
        [NAME],
        [NOBODY],
    ]
    + [[each, "--cache"] for each in ("latest", "FILE", NOBODY)]
    + [["latest", "--cache", "--json"]],
    "events": [
        ["latest"],
        ["latest", "--raw"],
        ["latest", "--jsonl"],
        ["latest", "--follow", "--limit", 9],
        [NOBODY],
    ],
    "tail": [["--limit", 3], ["--limit", 3, "--jsonl"], ["--session", NOBODY]],
    "query": [
        *(
            [f"SELECT * FROM {view}"]
            for view in ("messages", "tool_calls", "requests", "anomalies", "event_payloads")
        ),
        *(["SELECT * FROM session_summary", option] for option in ("--json", "--csv")),
        *(
            ["SELECT raw FROM events"],
            [f'SELECT 1 AS "{NAME}"'],
            [HOSTILE],
            [f"SELECT '{NAME}' FROM {NAME}"],
        ),
        *(
            ["SELECT :a AS a", "-p", "a", HOSTILE],
            ["SELECT 1", "-p", HOSTILE, "x"],
            ["SELECT :a", "-p", HOSTILE, "1"],
        ),
    ],
    "replay": [
        ["latest", "--speed", "max", "--format", format] for format in ("sse", "jsonl", "text")
    ]
    + [[NOBODY]],
    "diff": [
        ["latest:1", "latest:3"],
        ["latest:1", "latest:2", "--all", "--exact"],
        ["latest", "FILE"],
        [NOBODY, "x"],
    ],
    "lint": [["latest"], ["latest", "--json"], ["FILE"], [NOBODY]]
    + [["--cassette", each] for each in ("CASSETTE", "BROKEN", FILE_NAME)],
    "probe": [
        [HOSTILE, "--api", "gemini", "--dry-run"],
        ["http://127.0.0.1:1", "--api", "gemini", "--dry-run", "--model", HOSTILE],
        ["http://127.0.0.1:1", "--api", "gemini", "--only", HOSTILE],
        ["http://127.0.0.1:1", "--api", "gemini", "--key-env", HOSTILE],
    ],
    "torture": [
        [HOSTILE, "--", HOSTILE],
        [NAME, "--", sys.executable, "-c", "print('nothing is asked')"],
        ["BROKEN", "--", sys.executable],
        ["FILE", "--", sys.executable, "-c", f"raise SystemExit({HOSTILE!r})"],
    ],
    "bisect": [
        ["latest", "--check", "true", "--model", HOSTILE, "--dry-run"],
        [HOSTILE, "--check", "true", "--", "true"],
        ["FILE", "--check", HOSTILE, "--", sys.executable, "-c", "print('nothing is asked')"],
        ["BROKEN", "--check", "true", "--", HOSTILE],
    ],
    "tap": [
        [HOSTILE, "--", "true"],
        ["x", "--", HOSTILE],
        ["x", "--replay", HOSTILE],
        ["x", "--replay", "FILE", "--speed", HOSTILE],
        ["x", "--replay", "BROKEN"],
    ],
    "resend": [
        ["latest", "--to", "http://127.0.0.1:1", "--dry-run", "--model", HOSTILE],
        ["latest", "--to", HOSTILE],
        ["latest", "--key-env", HOSTILE],
        [NOBODY],
    ],
    "usage": [["--by", by] for by in ("day", "model", "session", "client", "tool")]
    + [["--since", HOSTILE]],
    "prices": [["update"], ["list", "--model", HOSTILE], ["update", "--file", HOSTILE], ["path"]],
    "import": [["FILE"], ["BROKEN"], ["CASSETTE"], [FILE_NAME], ["FILE", "--session", NAME]],
    "export": [
        *(["latest", "--format", format] for format in FORMATS),
        *([NOBODY], ["--rewrite", "BROKEN"], ["--to", HOSTILE]),
        *(
            ["--to", "http://127.0.0.1:1", option, value]
            for option, value in (("--header", "x"), ("--convention", NAME))
        ),
    ],
    "verify": [[], ["latest"], ["--json"], ["--manifest"], ["--against", "BROKEN"], [NOBODY]],
    "doctor": [[], ["--json"]],
    "collect": [[HOSTILE], [f"http://{HOSTILE}"]],
    "token": [
        ["add", HOSTILE],
        ["add", "x", "--file", "BROKEN"],
        ["list", "--file", HOSTILE],
        ["revoke", HOSTILE, "--file", f"{HOSTILE}/tokens.json"],
    ],
    "trust": [[], [HOSTILE], [f"{HOSTILE}/recorder.toml"]],
    "env": [["openai", "--session", HOSTILE], ["openai", "--url", HOSTILE], [HOSTILE]],
    "db": [
        ["path"],
        ["recover"],
        ["upgrade"],
        ["rebuild"],
        ["purge", "--session", "latest", "--dry-run"],
        [HOSTILE],
    ],
}
ELSEWHERE = {
    "mock": "test_a_mock_says_nothing_that_a_terminal_would_obey",
    "run": "test_a_run_says_nothing_that_a_terminal_would_obey",
    "serve": "tests/acceptance/test_secrets.py: it prints addresses and nothing that was recorded",
    "ui": "tests/acceptance/commands/test_ui.py: it prints an address and nothing that was recorded",
    "mcp": "tests/acceptance/commands/test_mcp.py: test_an_answer_has_nothing_that_a_terminal_obeys",
    "demo": "what it prints is what `show` and `usage` print, of its own recording",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log, and with files of names and contents that are alike."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "recorder.db"
    record(path)
    with Store(path) as store:
        rebuild(store, lambda done, total: None)
    (folder / f"{FILE_NAME}.sse").write_bytes(b"".join(body("openai-responses")))
    broken = {"recorder_cassette": 1, NAME: NAME, "session": NAME, "started": NAME}
    (folder / f"{FILE_NAME}.sse.jsonl").write_text(
        json.dumps(broken, ensure_ascii=False) + f"\n{HOSTILE}\n"
    )
    (folder / f"good{FILE_NAME}.sse.jsonl").write_bytes(
        run(path, "export", "latest", "--format", "cassette").out
    )
    return folder


@pytest.fixture
def db(hostile: Path, tmp_path: Path) -> Path:
    return Path(copy(hostile / "recorder.db", tmp_path / "recorder.db"))


@contextmanager
def recording(path: Path) -> Iterator[None]:
    """Somebody records the same again and again."""
    done = Event()

    def go_on() -> None:
        while not done.wait(0.02):
            record(path, time.time_ns())

    writer = Thread(target=go_on)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def test_every_verb_has_its_lines_here() -> None:
    assert COMMANDS.keys() | ELSEWHERE.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_command_prints_what_a_terminal_would_obey(
    verb: str, hostile: Path, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "FILE": hostile / f"{FILE_NAME}.sse",
        "BROKEN": hostile / f"{FILE_NAME}.sse.jsonl",
        "CASSETTE": hostile / f"good{FILE_NAME}.sse.jsonl",
    }
    monkeypatch.setenv("RECORDER_DB", str(db))
    found, said = {}, ""
    for line in COMMANDS[verb]:
        arguments = [files.get(str(word), word) for word in line]
        if verb == "tail":
            with recording(db):
                shown = printed_on_terminal(monkeypatch, verb, *arguments)
        else:
            shown = printed_on_terminal(monkeypatch, verb, *arguments)
        said += shown
        if obeyed := CONTROLS & set(shown):
            at = min(map(shown.index, obeyed))
            found[str(line)[:60]] = shown[max(at - 40, 0) : at + 20]
    assert found == {}
    assert len(said) > 40


def test_the_search_finds_what_is_there(monkeypatch: pytest.MonkeyPatch, db: Path) -> None:
    monkeypatch.setattr("recorder.commands.terminal.output.safe_text", str)
    assert CONTROLS & set(printed_on_terminal(monkeypatch, "events", "latest", "--raw", "--db", db))


def test_a_mock_says_nothing_that_a_terminal_would_obey(db: Path) -> None:
    with mocking(db, "latest", "--allow-gaps") as mock:
        for asked in ({"model": HOSTILE, "input": HOSTILE, HOSTILE: HOSTILE}, SENT):
            httpx.post(f"{mock.base}/v1/responses", json=asked)
    assert "not recorded: 2" in mock.said
    assert CONTROLS & set(mock.said) == set()


ASK = f"""
import json, os, urllib.request
try:
    urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/responses", {json.dumps({"model": HOSTILE}).encode()!r})
except OSError:
    pass
"""


def test_a_run_says_nothing_that_a_terminal_would_obey(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    record(db, gap=False)
    (tmp_path / "ask.py").write_text(ASK)
    ran = run(
        db, "run", "--replay", "latest", "--speed", "max", "--", sys.executable, tmp_path / "ask.py"
    )
    assert "not recorded: 1" in ran.err
    assert CONTROLS & set(ran.err) == set()
