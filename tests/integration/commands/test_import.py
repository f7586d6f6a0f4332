"""`recorder import`: what a user gives it, what stands in the log then, and what it says."""

from __future__ import annotations

import io
import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from recorder.commands.serving import intake
from recorder.journal.writer import Journal
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.logbook import assert_chained, entries
from tests.support.server import Ran, run

STREAM = b'event: response.created\ndata: {"type":"response.created"}\n\ndata: {"type":"response.completed"}\n\n'
CHUNKS = b'{"type":"message_start"}\n{"type":"message_stop"}\n'
DOCUMENT = b'{"object":"chat.completion","choices":[]}'
ID = "[0-9a-f-]{36}"
APIS = ("openai-responses", "openai-chat", "anthropic", "gemini", "gemini-interactions")
# legacy completions are the same dialect to us
FILED_ELSEWHERE = {"openai-completions": "openai-chat"}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def run_with_input(db: Path, data: bytes, *arguments: str) -> Ran:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return run(db, *arguments)


def test_each_file_becomes_a_session_named_like_it(db: Path, tmp_path: Path) -> None:
    files = [
        write(tmp_path, "run.7.sse", STREAM),
        write(tmp_path, "agent.chunks.txt", CHUNKS),
        write(tmp_path, "answer.json", DOCUMENT),
    ]
    ran = run(db, "import", *files)
    assert (ran.code, ran.out) == (0, b"")
    rows = json.loads(run(db, "sessions", "--json").out)
    assert {(row["source"], row["origin"]) for row in rows} == {("import", "import")}
    names = {row["name"]: row["session_id"] for row in rows}
    assert ran.err.splitlines() == [
        "3 files imported: 3 sessions, 5 events:",
        *(f"  {name} ({names[name]})" for name in ("run.7", "agent", "answer")),
    ]
    found = {entry.session: entry for entry in entries(db)}
    assert {name: entry.exchange.api for name, entry in found.items()} == {
        "run.7": "openai-responses",
        "agent": "anthropic",
        "answer": "openai-chat",
    }
    assert found["run.7"].body == STREAM
    assert found["answer"].body == DOCUMENT
    assert {entry.end["status"] for entry in found.values()} == {"completed"}
    assert_chained(found.values())
    assert not list(Path(f"{db}.journal").iterdir())


def test_lines_of_ollama_stay_lines(db: Path, tmp_path: Path) -> None:
    about = b'{"model":"m","created_at":"2026-01-01T00:00:00Z",'
    lines = about + b'"message":{"role":"assistant","content":"Hi"},"done":false}\n'
    lines += (
        about + b'"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'
    )
    assert run(db, "import", write(tmp_path, "a.jsonl", lines)).code == 0
    [entry] = entries(db)
    assert (entry.exchange.api, entry.body, entry.end["status"]) == ("ollama", lines, "completed")


def test_json_says_which_session_each_file_is_in(db: Path, tmp_path: Path) -> None:
    files = [
        write(tmp_path, "a.sse", STREAM),
        write(tmp_path, "bad.sse", b""),
        write(tmp_path, "b.json", DOCUMENT),
    ]
    ran = run(db, "import", *files, "--json")
    ids = {row["name"]: row["session_id"] for row in json.loads(run(db, "sessions", "--json").out)}
    assert json.loads(ran.out) == [
        {"file": str(files[0]), "session_id": ids["a"], "session_name": "a", "events": 2},
        {"file": str(files[2]), "session_id": ids["b"], "session_name": "b", "events": 1},
    ]
    assert (ran.code, ran.err) == (1, f"{files[1]} is passed over: it is empty.\n")
    assert run(db, "import", files[1], "--json").out == b"[]\n"


def test_many_sessions_are_not_all_named(db: Path, tmp_path: Path) -> None:
    said = run(
        db, "import", *(write(tmp_path, f"{n}.sse", b"data: 1\n\n") for n in range(22))
    ).err.splitlines()
    assert (len(said), said[-1]) == (
        22,
        "  and 2 more; `recorder sessions` lists them, --json has all.",
    )


def test_a_file_that_is_nearly_something_is_told_what_is_wrong_with_that(
    db: Path, tmp_path: Path
) -> None:
    """And not what is wrong with the last thing that it might have been."""
    lines = write(tmp_path, "broken.jsonl", b'{"type":"message_start"}\n{"type":"message_stop"\n')
    document = write(tmp_path, "broken.json", b'{"object":"chat.completion","choices":[}\n')
    assert run(db, "import", lines, document).err.splitlines() == [
        f"{lines} is passed over: payload 2 is not a JSON object on a line of its own.",
        f"{document} is passed over: it is not a JSON document.",
    ]


GO_VCR = b"""---
version: %d
interactions:
- request:
    body: '{"model":"m"}'
    url: https://api.openai.com/v1/responses
    method: POST
  response:
    body: "data: {}\\n\\n"
    status: 200 OK
    code: 200
"""


THEIRS = [
    ("go-vcr", GO_VCR % 1),
    ("go-vcr", GO_VCR.replace(b"  ", b"    ") % 2),
    (
        "nock",
        b'[\n  {"scope": "https://api.openai.com:443", "method": "POST", "response": "data: {}"}]',
    ),
    ("Betamax for Java", b"!tape\nname: x\ninteractions:\n- recorded: 2026-01-01T00:00:00.000Z\n"),
    ("WireMock", b'{"mappings": [{"request": {}}]}'),
    (
        "WireMock",
        b'{"id": "1", "request": {"method": "POST", "urlPath": "/v1/responses"}, "response": {}}',
    ),
    ("Hoverfly", b'{"data": {"pairs": []}, "meta": {"schemaVersion": "v5.2"}}'),
]


def test_a_file_that_is_not_read_is_passed_over_with_its_reason(db: Path, tmp_path: Path) -> None:
    coded = "it is UTF-16 or UTF-32, and streams are UTF-8: convert it, for example with iconv."
    marked = f"\ufeff{STREAM.decode()}"
    cases = [
        (f"it is a recording of {program}, which is not supported.", data, "auto")
        for program, data in THEIRS
    ]
    cases += [
        (coded, marked.encode(coding), "auto") for coding in ("utf-16", "utf-16-be", "utf-32")
    ]
    cases.append(("it is not a JSON document.", STREAM, "json"))
    for reason, data, form in cases:
        file = write(tmp_path, "theirs", data)
        assert run(db, "import", "--format", form, file) == (
            1,
            b"",
            f"{file} is passed over: {reason}\n",
        )


def test_no_session_is_called_latest(db: Path, tmp_path: Path) -> None:
    ran = run(db, "import", write(tmp_path, "latest.sse", STREAM))
    assert (ran.code, ran.err) == (
        2,
        f"{tmp_path}/latest.sse is passed over: a session called latest would never be found by that name, which means "
        "the one that was used last: name it with --session.\n",
    )
    for arguments in (
        ("env", "openai", "--session", "latest"),
        ("run", "--session", "latest", "--", "true"),
    ):
        ran = run(db, *arguments)
        assert (ran.code, ran.out) == (2, b"")
        assert "--session latest would never be found by that name" in ran.err


def test_all_files_of_one_session_are_in_it_in_order(db: Path, tmp_path: Path) -> None:
    files = [write(tmp_path, f"{number}.sse", b"data: %d\n\n" % number) for number in range(20)]
    ran = run(db, "import", *files, "--session", "all of them")
    assert re.fullmatch(rf"20 files imported: session all of them \({ID}\), 20 events\.\n", ran.err)
    assert run(db, "replay", "all of them", "--speed", "max").out == b"".join(
        b"data: %d\n\n" % n for n in range(20)
    )


def test_the_same_name_again_is_a_new_session_which_the_name_then_means(
    db: Path, tmp_path: Path
) -> None:
    for text in (b"data: old\n\n", b"data: new\n\n"):
        run(db, "import", write(tmp_path, "a.sse", text))
        assert run(db, "export", "a", "--format", "sse").out == text
        assert run(db, "export", "latest", "--format", "sse").out == text
    assert len(json.loads(run(db, "sessions", "--json").out)) == 2


def test_a_bad_file_is_named_and_passed_over_and_the_others_are_kept(
    db: Path, tmp_path: Path
) -> None:
    bad = {
        "empty.sse": (b"", "it is empty."),
        "noise.bin": (
            b"\x89PNG\r\n\0\0",
            "it is not a stream of server-sent events, no JSON, and no export of recorder.",
        ),
        "cut.jsonl": (
            b'{"recorder_export":1,"session":{}}\n',
            "line 1 is not as `recorder export` wrote it: ",
        ),
    }
    files = [write(tmp_path, name, data) for name, (data, _) in bad.items()]
    ran = run(
        db, "import", *files, tmp_path / "none", tmp_path, write(tmp_path, "good.sse", STREAM)
    )
    assert (ran.code, ran.out) == (1, b"")
    said = ran.err.splitlines()
    for path, line, (_, reason) in zip(files, said, bad.values(), strict=False):
        assert line.startswith(f"{path} is passed over: {reason}")
    assert said[3:] == [
        f"There is no file {tmp_path / 'none'}.",
        f"{tmp_path} is a directory: name the files in it.",
        f"1 file imported: session good ({entries(db)[0].exchange.session_id}), 2 events.",
    ]
    assert [entry.session for entry in entries(db)] == ["good"]


def test_what_is_wrong_with_all_files_is_the_exit_code(db: Path, tmp_path: Path) -> None:
    missing = f"There is no file {tmp_path / 'none'}."
    assert run(db, "import", tmp_path / "none") == (3, b"", f"{missing}\n")
    assert run(db, "import", tmp_path / "none", tmp_path / "none").code == 3
    assert run(db, "import", tmp_path).code == 2
    assert run(db, "import", tmp_path / "none", write(tmp_path, "empty.sse", b"")).code == 1
    good = write(tmp_path, "good.sse", STREAM)
    assert run(db, "import", good, "--request", tmp_path / "none") == (
        3,
        b"",
        f"Error: {missing}\n",
    )


def test_a_file_larger_than_any_stream_is_passed_over(db: Path, tmp_path: Path) -> None:
    with (tmp_path / "huge.sse").open("wb") as file:
        file.truncate(2**30 + 1)
    ran = run(db, "import", tmp_path / "huge.sse")
    assert ran.code == 1
    assert "over 1 GiB" in ran.err


def test_a_name_cannot_take_over_a_terminal(db: Path, tmp_path: Path) -> None:
    run(db, "import", write(tmp_path, "\x1b]0;x\x07ev\u202eil.sse", STREAM))
    assert [entry.session for entry in entries(db)] == ["]0;xevil"]
    assert "\x1b" not in run(db, "import", tmp_path / "\x1b[31m").err


def test_stdin_is_a_file_too(db: Path) -> None:
    said = run_with_input(db, STREAM, "import", "-").err
    assert re.fullmatch(rf"1 file imported: session stdin \({ID}\), 2 events\.\n", said)
    assert [(entry.session, entry.body) for entry in entries(db)] == [("stdin", STREAM)]
    assert run_with_input(db, b"", "import", "-").err == "stdin is passed over: it is empty.\n"


def test_an_export_that_comes_through_a_pipe_keeps_its_name(db: Path, tmp_path: Path) -> None:
    run(db, "import", write(tmp_path, "mine.sse", STREAM))
    exported = run(db, "export", "mine").out
    other = tmp_path / "other.db"
    assert run_with_input(other, exported, "import", "-").code == 0
    assert [entry.session for entry in entries(other)] == ["mine"]


def test_the_request_beside_a_stream_is_recorded_with_it(db: Path, tmp_path: Path) -> None:
    headers = {"authorization": "Bearer sk-secret-1", "user-agent": "claude-cli/2.1"}
    asked = {
        "method": "POST",
        "url": "https://x.test/v1/messages?beta=true",
        "headers": headers,
        "body": {"model": "m"},
    }
    request = write(tmp_path, "a.request.json", json.dumps(asked).encode())
    run(db, "import", write(tmp_path, "a.sse", STREAM), "--request", request)
    [entry] = entries(db)
    assert entry.request_body == b'{"model": "m"}'
    assert (entry.exchange.api, entry.exchange.target) == ("anthropic", "/v1/messages?beta=true")
    assert entry.exchange.client == "claude-cli"
    assert b"sk-secret-1" not in db.read_bytes()


def test_wrong_use_is_said_in_one_sentence(db: Path, tmp_path: Path) -> None:
    file, text = write(tmp_path, "a.sse", STREAM), write(tmp_path, "request.txt", b"not JSON")
    for arguments, sentence in (
        ([], "Missing argument"),
        ([file, file, "--request", file], "give one FILE with it"),
        ([file, "--request", text], "cannot be read: it is not JSON."),
        ([file, "--request", tmp_path], f"Error: {tmp_path} is a directory: name the files in it."),
        ([file, "--format", "xml"], "'xml' is not one of"),
        ([file, "--dialect", "latin"], "'latin' is not one of"),
        ([file, "--session", "\x07"], "needs a visible name"),
        ([file, "--session", "latest"], "--session latest would never be found by that name"),
    ):
        ran = run(db, "import", *arguments)
        assert ran.code == 2
        assert sentence in " ".join(ran.err.split())
    assert not db.exists()


# -- a journal that is small


@pytest.fixture
def small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal as on a disk that is nearly full."""
    limited = partial(Journal, limit_bytes=2**20, segment_bytes=2**17)
    monkeypatch.setattr(intake, "Journal", limited)
    monkeypatch.setattr(intake, "STEP_BYTES", 2**16)
    monkeypatch.setattr(intake, "WAITS", 3)


@pytest.mark.usefixtures("small_journal")
def test_more_than_the_journal_may_hold_is_whole_in_the_log(db: Path, tmp_path: Path) -> None:
    text = b"".join(b"data: %d %b\n\n" % (number, b"x" * 10_000) for number in range(40))
    assert (
        run(db, "import", *(write(tmp_path, f"{number}.sse", text) for number in range(8))).code
        == 0
    )
    assert [(entry.body, entry.end["lossless"]) for entry in entries(db)] == [(text, True)] * 8


@pytest.mark.usefixtures("small_journal")
def test_a_stream_that_the_journal_has_no_room_for_is_refused_and_has_no_gap(
    db: Path, tmp_path: Path
) -> None:
    ran = run(db, "import", write(tmp_path, "long.sse", b"data: %b\n\n" % (b"x" * 10_000) * 500))
    assert (ran.code, "There is no room for the journal in" in ran.err) == (1, True)
    [entry] = entries(db)
    assert entry.end["status"] == "recorder_shutdown"
    assert "gap" not in {event.kind for event in entry.events}


# -- the corpus


@pytest.mark.slow
@needs_corpus
def test_every_recorded_stream_is_imported_byte_for_byte_as_what_it_is(db: Path) -> None:
    files = corpus_index()
    ran = run(db, "import", *(CORPUS / file["file"] for file in files))
    assert ran.code == 0
    assert ran.err.startswith(f"{len(files)} files imported: {len(files)} sessions")
    found = entries(db)
    assert_chained(found)
    for file, entry in zip(files, found, strict=True):
        provider = FILED_ELSEWHERE.get(file["provider"], file["provider"])
        assert entry.exchange.api == (provider if provider in APIS else "other"), file["file"]
        assert entry.body == (CORPUS / file["file"]).read_bytes(), file["file"]
        assert entry.end["lossless"] is True
