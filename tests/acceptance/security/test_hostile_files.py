"""Files that somebody else made: read or refused in a sentence, in bounded memory; nothing is
written but the log.
"""

from __future__ import annotations

import gzip
import io
import random
import re
import sqlite3
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from recorder.cassettes.content import HEAD_BYTES
from recorder.commands import main
from recorder.recordings import files
from tests.support.conversations import FRAMES, Recorded
from tests.support.corpus import DATA
from tests.support.empty_log import empty
from tests.support.server import environment, peak, run

Do = Callable[..., tuple[int, str]]

OURS = {"jsonl": ".jsonl", "cassette": ".sse.jsonl", "har": ".har", "vcr": ".yaml", "sse": ".sse"}
THEIRS = {
    "cassetter-websocket": ".yaml",
    "cassetter": ".toml",
    "claude-tap": ".jsonl",
    "claude-tap-bundle": ".json",
    "generations": ".json",
    "litellm": ".jsonl",
}
"""Files of other programs, in `tests/data/cassettes`."""

FORMATS = OURS | THEIRS
OF_THE_LOG = {
    "recorder.db",
    "recorder.db-wal",
    "recorder.db-shm",
    "recorder.db.lock",
    "recorder.db.journal",
    "recorder.db.verified",
}

SAID = re.compile(
    r".* is passed over: |\d+ files? imported: |  \S+ \([0-9a-f-]{36}\)$|  and \d+ more; "
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A session in every format of ours, and files of others."""
    files_of_others = DATA / "cassettes"
    path = tmp_path_factory.mktemp("good") / "recorder.db"
    Recorded(path).session("../../escaped", FRAMES, FRAMES)
    arguments = {format: ("export", "latest", "--format", format) for format in OURS}
    ours = {format: run(path, *asked).out for format, asked in arguments.items()}
    return ours | {
        name: (files_of_others / f"{name}{suffix}").read_bytes() for name, suffix in THEIRS.items()
    }


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "recorder.db"
    Recorded(path).session("one", FRAMES)
    return path


@pytest.fixture
def do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Do]:
    """Run a command in a folder of its own: its exit code, and what it said.

    It leaves nothing there but the log.
    """
    home = tmp_path / "work" / "home"
    empty(home / "recorder.db")
    monkeypatch.chdir(home)
    monkeypatch.setenv("RECORDER_DB", str(home / "recorder.db"))

    def command(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        out, err = capfdbinary.readouterr()
        return int(ended.value.code or 0), (out + err).decode("utf-8", "replace")

    yield command
    assert {path.name for path in home.iterdir()} <= OF_THE_LOG
    assert {path.name for path in home.parent.iterdir()} == {"home"}
    assert list((home / "recorder.db.journal").glob("*/*")) == []


def write(folder: Path, name: str, data: bytes) -> Path:
    (folder / "files").mkdir(exist_ok=True)
    path = folder / "files" / name
    path.write_bytes(data)
    return path


def archive(kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr("../../escaped.sse", "data: x\n\n")
    else:
        with tarfile.open(fileobj=file, mode="w:gz") as tarred:
            tarred.addfile(tarfile.TarInfo("../../escaped.sse"))
    return file.getvalue()


DEEP = 10**6
LAUGH = b"a%d: &a%d [*a%d, *a%d]\n"
REFUSED = {
    "bomb.sse": gzip.compress(b"data: x\n\n" * 10**6),
    "archive.zip": archive("zip"),
    "archive.tar.gz": archive("tar"),
    "program.sse": b"\x7fELF" + bytes(100),
    "pickle.json": b"\x80\x04\x95\0\0\0\0cos\nsystem\n(S'id'\ntR.",
    "log.db": b"SQLite format 3\0" + bytes(4080),
    "deep.json": b"[" * DEEP,
    "deep2.json": b'{"a":' * DEEP,
    "deep.har": b'{"log":{"entries":' + b"[" * DEEP,
    "deep.sse.jsonl": b'{"recorder_cassette":1,"x":' + b"[" * DEEP,
    "deep.jsonl": b'{"recorder_export":1,"session":' + b"[" * DEEP,
    "deep.yaml": b"interactions: " + b"[" * DEEP,
    "deep.toml": b"version = 1\n[[interactions]]\nx = " + b"[" * DEEP,
    "keys.toml": b"version = 1\n[[interactions]]\nx" + b".a" * DEEP + b" = 1\n",
    "deep.log.json": b'{"call_type":"acompletion","custom_llm_provider":"","startTime":1,"x":' + b"[" * DEEP,
    "deep.tap.jsonl": b'{"timestamp":"","request_id":"","turn":' + b"[" * DEEP,
    "deep.bundle.json": b'{"__claude_tap_compact_trace__":{"version":1},"records":' + b"[" * DEEP,
    "deep.generations.json": b'{"runs":[],"steps":' + b"[" * DEEP,
    "laughs.yaml": b"interactions:\na0: &a0 [x]\n" + b"".join(LAUGH % (n, n, n - 1, n - 1) for n in range(1, 40)),
    "object.yaml": b"interactions: !!python/object/apply:os.system ['touch escaped']\n",
    "number.json": b'{"object":"chat.completion","choices":' + b"9" * 10**5 + b"}x",
}  # fmt: skip


def test_what_is_no_stream_is_refused_in_a_sentence(do: Do, tmp_path: Path) -> None:
    for name, data in REFUSED.items():
        path = write(tmp_path, name, data)
        code, said = do("import", path)
        assert (code, said.count("\n")) == (1, 1), said[:300]
        assert said.startswith(f"{path} is passed over: ")
        assert len(said) < 600, name


@pytest.mark.parametrize("format", FORMATS)
def test_a_name_in_a_file_is_no_path(
    do: Do, tmp_path: Path, good: dict[str, bytes], format: str
) -> None:
    code, said = do("import", write(tmp_path, f"x{FORMATS[format]}", good[format]))
    assert code == 0, said
    for verb in (["show", "latest"], ["export", "latest"], ["sessions"], ["verify"]):
        assert do(*verb)[0] == 0


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_was_cut_anywhere_is_read_as_far_as_it_is_or_refused(
    do: Do, tmp_path: Path, good: dict[str, bytes], format: str
) -> None:
    data = good[format]
    cuts = [len(data) * part // 24 + shift for part in range(24) for shift in (0, 1)]
    paths = [write(tmp_path, f"{cut}{FORMATS[format]}", data[:cut]) for cut in cuts]
    code, said = do("import", *paths)
    assert code in (0, 1)
    assert all(map(SAID.match, said.splitlines()))
    assert do("verify")[0] == (3 if " imported: " not in said else 0)


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_with_changed_bytes_is_read_or_refused(
    do: Do, tmp_path: Path, good: dict[str, bytes], format: str
) -> None:
    chance, paths = random.Random(1), []
    for number in range(40):
        data = bytearray(good[format])
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(len(data))] = chance.choice(
                b'\0\xff{}[]"\\:,\n9-e' + bytes([chance.randrange(256)])
            )
        paths.append(write(tmp_path, f"{number}{FORMATS[format]}", bytes(data)))
    code, said = do("import", *paths)
    assert code in (0, 1)
    assert all(map(SAID.match, said.splitlines()))
    assert do("verify")[0] == (3 if " imported: " not in said else 0)


def test_ten_gigabytes_are_refused_unread(do: Do, tmp_path: Path) -> None:
    for start in (
        b"data: x\n\n",
        b'{"recorder_export":1,',
        b'{"object":"',
        b"interactions:\n",
        b'{"log":{',
    ):
        path = write(tmp_path, "huge", start + b"x" * HEAD_BYTES)
        with path.open("r+b") as file:
            file.truncate(10 * 2**30)
        code, said = do("import", path)
        assert (code, "over 1 GiB" in said) == (1, True), start


def test_a_pipe_that_never_ends_is_read_to_the_limit(
    do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SIZE_LIMIT", 2**22)

    class Endless(io.RawIOBase):
        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.given += len(buffer)
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    endless = Endless()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    code, said = do("import", "-")
    assert code == 1
    assert "far more than any stream" in said
    assert endless.given < 2**23


LONG_LINES = {
    "one.sse": b"data: ",
    "cassette.sse.jsonl": b'{"recorder_cassette":1,"x":"',
    "export.jsonl": b'{"recorder_export":1,"x":"',
    "payload.jsonl": b'{"type":"response.created"}\n{"x":"',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_LINES)
def test_a_line_of_a_gigabyte_takes_bounded_memory(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, LONG_LINES[name])
    with path.open("ab") as file:
        for _ in range(1000):
            file.write(b"x" * 2**20)
    settings = {**environment(tmp_path), "RECORDER_DB": str(tmp_path / "recorder.db")}
    done, peak_kb = peak("import", path, env=settings)
    assert "Traceback" not in done.stderr
    assert peak_kb < 700 * 1024


# -- databases


ASK = ["query", "SELECT * FROM session_summary"]
IN_PROCESS = (["sessions"], ["show", "latest"], ["events", "latest"], ["usage"], ["verify"])
READS = (*IN_PROCESS, ASK)


def test_a_damaged_database_is_read_or_refused(do: Do, log: Path) -> None:
    chance, db = random.Random(2), Path("recorder.db").absolute()
    for number in range(30):
        data = bytearray(log.read_bytes())
        span = 100 if number % 3 == 0 else 4096 if number % 3 == 1 else len(data)
        for _ in range(chance.choice([1, 8, 64])):
            data[16 + chance.randrange(span - 16)] = chance.randrange(256)
        db.write_bytes(data)
        for verb in READS if number % 10 == 0 else IN_PROCESS:
            code, said = do(*verb)
            assert code in (0, 1, 3, 4), (number, verb, said[-300:])
        for path in db.parent.glob("recorder.db-*"):
            path.unlink()


HOSTILE_SCHEMA = [
    "CREATE VIEW evil AS SELECT load_extension('x')",
    "CREATE VIEW evil AS SELECT fts3_tokenizer('simple', x'0011223344556677')",
    "CREATE VIEW evil AS SELECT writefile('escaped', 'x')",
    "CREATE VIEW evil AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
    "CREATE TABLE evil (x DEFAULT (load_extension('x')), y AS (printf('%s', x)))",
]


@pytest.mark.parametrize("sql", HOSTILE_SCHEMA)
def test_a_schema_of_somebody_else_runs_nothing(do: Do, log: Path, sql: str) -> None:
    copy(log, "recorder.db")
    with closing(sqlite3.connect("recorder.db")) as connection:
        connection.execute(
            "CREATE TRIGGER evil_t AFTER INSERT ON sessions BEGIN SELECT writefile('escaped', 'x'); END"
        )
        connection.execute(sql)
        connection.commit()
    code, said = do("query", "SELECT * FROM evil", "--timeout", 0.1)
    assert code == (0 if "TABLE" in sql else 1), said
    for verb in IN_PROCESS:
        code, said = do(*verb)
        assert code in (0, 1, 3, 4), (verb, said)
