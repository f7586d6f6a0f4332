"""`recorder mock`: what it refuses before it listens."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from recorder.commands.terminal.recordings import loader
from recorder.errors import RecorderError
from tests.support.conversations import FRAMES, Recorded
from tests.support.server import Ran, run


@pytest.fixture
def db(tmp_path: Path) -> Path:
    made = Recorded(tmp_path / "recorder.db")
    made.session("one", FRAMES)
    made.session("gappy", FRAMES[:2], gap=True)
    return made.path


def failing(db: Path, *words: object) -> Ran:
    ran = run(db, "mock", "--port", 0, *words)
    assert re.search(r"^Error: [^\n]*\.$", ran.err, re.MULTILINE), ran.err
    return ran


def test_wrong_use_is_refused(db: Path, tmp_path: Path) -> None:
    forward = (
        "--otherwise",
        "forward",
        "--port",
        "9999",
        "--upstream",
        "openai=http://127.0.0.1:9999",
    )
    for arguments, code, words in (
        (["nosuch"], 3, "no session 'nosuch'"),
        ([__file__], 2, "test_mock.py is a file: name it with --cassette."),
        (["--cassette", tmp_path / "none.sse.jsonl"], 3, "There is no file"),
        (["--cassette", tmp_path], 2, "is a directory: name the files in it."),
        (["one", "--fault", "ruin@3"], 2, "'ruin@3' is not a fault"),
        (["one", "--speed", "0"], 2, "over 0, or max"),
        (["one", *forward], 2, "this recorder itself"),
        (["one", "--host", "0.0.0.0"], 2, "not a loopback address"),
    ):
        ran = failing(db, *arguments)
        assert (ran.code, words in ran.err) == (code, True), ran.err
    assert failing(tmp_path / "none.db").code == 3
    assert "name it with --cassette" in failing(tmp_path / "none.db", __file__).err


@pytest.mark.parametrize(
    "content", ["", "mine\n", "http://example.com/\n", "http://127.0.0.1:1\nmore\n", "link"]
)
def test_a_file_that_no_recorder_wrote_is_no_ready_file(
    db: Path, tmp_path: Path, content: str
) -> None:
    ready = tmp_path / "mine"
    if content == "link":
        (tmp_path / "other").write_text("http://127.0.0.1:65535\n")
        ready.symlink_to(tmp_path / "other")
    else:
        ready.write_text(content)
    before = ready.read_bytes()
    ran = failing(db, "one", "--ready-file", ready)
    assert (ran.code, "there is a file that no recorder wrote" in ran.err) == (2, True), ran.err
    assert ready.read_bytes() == before


def test_gaps_are_taken_only_if_allowed(db: Path, tmp_path: Path) -> None:
    cassette = tmp_path / "gappy.sse.jsonl"
    cassette.write_bytes(run(db, "export", "gappy", "--format", "cassette").out)
    for sessions, cassettes in ((["gappy"], []), ([], [cassette])):
        ran = failing(db, *sessions, *(word for each in cassettes for word in ("--cassette", each)))
        assert ran.code == 1
        assert "--allow-gaps takes the rest" in ran.err
        [held] = asyncio.run(loader(str(db)).answers(sessions, cassettes, allow_gaps=True))
        assert b"".join(piece.raw for piece in held.pieces) == b"".join(FRAMES[:2])


def test_recordings_that_take_too_much_memory_are_refused(db: Path) -> None:
    size_bytes = len(b"".join(FRAMES))
    held = asyncio.run(loader(str(db)).answers(["one"], []))
    assert [each.exchange.target for each in held] == ["/v1/responses"]
    with pytest.raises(RecorderError, match="of memory: name fewer of them"):
        asyncio.run(loader(str(db)).answers(["one"], [], limit_bytes=size_bytes))
