"""What commands make is for its owner alone, also where a umask says otherwise."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.commands import main
from recorder.commands.serving.ready_file import write as write_ready_file
from recorder.files import save
from tests.support.conversations import FRAMES, Recorded

Run = Callable[..., int]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of its own, for whose files nobody's umask is strict."""
    before = os.umask(0)
    try:
        (tmp_path / "files").mkdir(0o700)
        yield tmp_path / "files"
    finally:
        os.umask(before)


def loose(folder: Path) -> dict[str, str]:
    """What others may read, write or enter."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    return {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


def do(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("capfdbinary")
def test_commands_leave_only_private_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = folder / "recorder.db"
    Recorded(db).session("one", FRAMES)
    monkeypatch.setenv("RECORDER_DB", str(db))
    stream = folder / "a.sse"
    stream.write_bytes(b"data: x\n\n")
    stream.chmod(0o600)
    for line in (
        ["import", stream],
        ["verify"],
        ["db", "rebuild"],
        ["db", "backup", folder / "copy.db"],
        ["sessions"],
    ):
        assert do(*line) == 0, line
    monkeypatch.setenv("RECORDER_DB", str(folder / "deeper" / "still" / "new.db"))
    assert do("import", stream) == 0
    made = {path.name for path in folder.rglob("*")}
    assert made >= {
        "recorder.db.lock",
        "recorder.db.verified",
        "copy.db",
        "new.db",
        "new.db.journal",
        "deeper",
        "still",
    }
    assert loose(folder) == {}


def test_the_ready_file_of_a_mock_may_hold_a_token(folder: Path) -> None:
    url = f"http://127.0.0.1:1/t/{'x' * 22}"
    write_ready_file(folder / "mock.url", url)
    assert (folder / "mock.url").read_text() == f"{url}\n"
    assert loose(folder) == {}


def test_a_cassette_is_private_until_its_owner_says_otherwise(folder: Path) -> None:
    path = folder / "new.sse.jsonl"
    save(path, [b"{}\n"])
    assert loose(folder) == {}
    path.chmod(0o644)
    save(path, [b"{ }\n"])
    assert loose(folder) == {path.name: "0o644"}
