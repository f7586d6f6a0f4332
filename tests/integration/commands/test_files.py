"""Files where commands take a session: what they show of one is what they show of its import."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.conversations import Conversations, answering, asking, call, message, response
from tests.support.corpus import ROOT
from tests.support.server import run
from tests.support.viewer import viewing

QUESTION = asking("What is the weather in Paris?")
CALLS = response(*call("get_weather", '{"city": "Paris"}'), id="resp_1")
ANSWERS = response(*message("It is ", "18 °C."), id="resp_2")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def cassette(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette, and beside it a log that has it as session `run`."""
    folder = tmp_path_factory.mktemp("files")
    recorded = Conversations(folder / "recorded.db")
    session = recorded.session("run")
    session.exchange(CALLS, QUESTION)
    session.exchange(ANSWERS, [*QUESTION, *answering("18 °C, clear")], at_s=2.0)
    cassette = folder / "run.sse.jsonl"
    cassette.write_bytes(run(recorded.path, "export", "run", "--format", "cassette").out)
    assert run(folder / "imported.db", "import", cassette).code == 0
    return cassette


@pytest.mark.parametrize(
    "command",
    [
        ["show", "SUBJECT"],
        ["show", "SUBJECT", "2", "--at", "50%"],
        ["show", "SUBJECT", "2", "--request"],
        ["events", "SUBJECT", "--exchange", "2", "--jsonl"],
        ["replay", "SUBJECT", "--speed", "max"],
        ["export", "SUBJECT", "--format", "cassette"],
        ["export", "SUBJECT", "--format", "chat"],
        ["export", "SUBJECT", "--format", "sse"],
    ],
)
def test_a_file_is_shown_as_its_import_is(
    cassette: Path, tmp_path: Path, command: list[str]
) -> None:
    of_import = run(
        cassette.parent / "imported.db", *["run" if each == "SUBJECT" else each for each in command]
    )
    of_file = run(
        tmp_path / "none.db", *[cassette if each == "SUBJECT" else each for each in command]
    )
    assert (of_file.code, of_file.err) == (0, of_import.err)
    assert _without_ids(of_file.out) == _without_ids(of_import.out)
    assert not (tmp_path / "none.db").exists()


def _without_ids(out: bytes) -> str:
    """What was printed; hashes, which are of the ids too, left out."""
    return re.sub(r'"hash":"[^"]*"', "", _ID.sub("ID", out.decode()))


def test_a_file_always_has_the_same_ids(cassette: Path, tmp_path: Path) -> None:
    first, again = (run(tmp_path / "none.db", "events", cassette, "--json").out for _ in range(2))
    assert first == again
    assert first != b"[]"


def test_a_stored_body_of_another_tool_is_shown(tmp_path: Path) -> None:
    told = run(
        tmp_path / "none.db", "show", ROOT / "tests" / "data" / "cassettes" / "claude-tap.jsonl"
    )
    assert (told.code, told.err) == (0, "")
    assert told.text.startswith("claude-tap · ")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        (
            "missing.sse.jsonl",
            3,
            "There is no file missing.sse.jsonl, and no session of that name.",
        ),
        (".", 2, ". is a directory: name the files in it."),
        (
            "/dev/null",
            2,
            "/dev/null is not a regular file: write what it has to stdin, and name that -.",
        ),
        (
            str(ROOT / "README.md"),
            1,
            "README.md cannot be read: it is not a stream of server-sent events, ",
        ),
        (
            str(ROOT / "tests" / "data" / "cassettes" / "claude-tap.jsonl"),
            3,
            "has no exchange 99: it has ",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(
    tmp_path: Path, name: str, code: int, message: str
) -> None:
    ran = run(tmp_path / "none.db", "show", name, "99")
    assert (ran.code, ran.out) == (code, b"")
    assert message in ran.err


@pytest.mark.parametrize(
    "command", [["lint", "run.1:9"], ["diff", "run.1:9", "run.1"], ["resend", "run.1:9"]]
)
def test_an_exchange_that_is_missing_is_not_called_a_file(
    tmp_path: Path, command: list[str]
) -> None:
    recorded = Conversations(tmp_path / "recorder.db")
    recorded.session("run.1").exchange(CALLS, QUESTION)
    ran = run(recorded.path, *command)
    assert (ran.code, ran.err) == (3, "Error: Session run.1 has no exchange 9: it has only 1.\n")


def test_what_killed_commands_left_of_files_is_removed(
    cassette: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, held, young = (tmp_path / f"recorder-file-{name}" for name in ("left", "held", "young"))
    for folder in (left, held, young):
        folder.mkdir()
        (folder / "log.db").touch()
    for folder in (left, held):
        os.utime(folder, (0, 0))
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert run(tmp_path / "none.db", "show", cassette).code == 0
    os.close(lock)
    assert {path.name for path in tmp_path.iterdir()} == {held.name, young.name}


def test_a_file_is_not_followed(cassette: Path, tmp_path: Path) -> None:
    ran = run(tmp_path / "none.db", "events", cassette, "--follow")
    assert (ran.code, ran.out) == (2, b"")
    assert "A file has an end and --follow has none: leave it out." in ran.err


@pytest.mark.long
def test_the_viewer_shows_a_file(cassette: Path, tmp_path: Path) -> None:
    with viewing(tmp_path / "none.db", str(cassette)) as viewer:
        request = Request(f"{viewer.base}api/sessions", headers={"X-Recorder-Token": viewer.token})
        with urlopen(request) as answer:
            rows = json.load(answer)["sessions"]
    assert [row["name"] for row in rows] == ["run"]
