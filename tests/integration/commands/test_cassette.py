"""`recorder cassette`, and cassettes through `recorder export` and `recorder import`, as a user
types them.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest

from recorder.cassettes.sse_jsonl import check, read_cassette
from tests.support.logbook import Entry, entries
from tests.support.secret_shapes import REQUESTS
from tests.support.server import Ran, run
from tests.unit.cassettes.test_cassettes import told
from tests.unit.cassettes.test_har import call, har
from tests.unit.cassettes.test_sse_jsonl import VERSION_1, taped, write

STREAM = b'event: response.created\ndata: {"type":"response.created"}\n\ndata: {"type":"response.completed"}\n\n'
FINE = write(told(taped(STREAM)))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


def put(db: Path, name: str, data: bytes) -> Path:
    path = db.parent / name
    path.write_bytes(data)
    return path


def findings_in(data: bytes) -> list[str]:
    """What `recorder lint --cassette` says of a file, without its name."""
    return check.findings(io.BytesIO(data))


# -- in and out of the log


def described(entry: Entry) -> list[tuple[object, ...]]:
    return [
        (
            event.kind,
            event.t_ns // 1000,
            event.type,
            event.sequence_number,
            event.item_id,
            event.output_index,
        )
        for event in entry.events
    ]


def test_a_session_is_the_same_after_a_cassette(db: Path, tmp_path: Path) -> None:
    run(
        db,
        "import",
        put(db, "a.sse", STREAM),
        put(db, "b.json", b'{"object":"response"}'),
        "--session",
        "demo",
    )
    exported = run(db, "export", "demo", "--format", "cassette")
    cassette = put(db, "turn.sse.jsonl", exported.out)
    other = tmp_path / "other.db"
    ran = run(other, "import", cassette)
    assert (ran.code, ran.out) == (0, b"")
    assert re.fullmatch(r"1 file imported: session \S+ \([0-9a-f-]{36}\), 3 events?\.\n", ran.err)
    assert [described(entry) for entry in entries(other)] == [
        described(entry) for entry in entries(db)
    ]
    assert [entry.body for entry in entries(other)] == [entry.body for entry in entries(db)]
    assert {entry.session for entry in entries(other)} == {"turn"}
    again = run(other, "export", "turn", "--format", "cassette")
    assert again.out.splitlines()[1:] == exported.out.splitlines()[1:]
    assert len(read_cassette(cassette)) == 2


def test_one_exchange_is_a_cassette_too(db: Path) -> None:
    for number in (1, 2):
        run(db, "import", put(db, f"{number}.sse", b"data: %d\n\n" % number), "--session", "demo")
    out = run(db, "export", "demo", "--format", "cassette", "--exchange", "1").out
    assert [json.loads(line)[1] for line in out.splitlines() if line.startswith(b"[")] == [1]


def test_payloads_go_out_and_come_in(db: Path) -> None:
    run(db, "import", put(db, "a.sse", STREAM))
    payloads = run(db, "export", "a", "--format", "payloads").out
    assert payloads == b'{"type":"response.created"}\n{"type":"response.completed"}\n'
    assert run(db, "import", put(db, "b.chunks.txt", payloads)).code == 0
    assert run(db, "export", "b", "--format", "payloads").out == payloads
    run(db, "import", put(db, "c.json", b"{}"))
    assert run(db, "export", "c", "--format", "payloads").code == 3


def test_a_har_file_comes_in_and_goes_out(db: Path) -> None:
    ran = run(db, "import", put(db, "browser.har", har(call())))
    assert (ran.code, ran.out) == (0, b"")
    assert re.fullmatch(r"1 file imported: session \S+ \([0-9a-f-]{36}\), 1 events?\.\n", ran.err)
    [entry] = entries(db)
    assert (entry.session, entry.exchange.api, entry.end["outcome"]) == (
        "browser",
        "openai-responses",
        "eof",
    )
    out = put(db, "out.har", run(db, "export", "browser", "--format", "har").out)
    assert run(db, "import", out).code == 0
    assert {entry.body for entry in entries(db)} == {entry.body}


def test_a_bad_cassette_is_passed_over_with_its_line(db: Path) -> None:
    path = put(db, "turn.sse.jsonl", VERSION_1.replace(b'"ping",{', b'"ping",{{'))
    ran = run(db, "import", path)
    assert ran.code == 1
    assert ran.err.startswith(f"{path} is passed over: line 4 is none of a cassette: ")
    assert ran.err.count("\n") == 1


# -- check


def test_findings_are_lines_of_stdout_and_an_exit_code(db: Path) -> None:
    good, bad = (
        put(db, "a.sse.jsonl", FINE),
        put(db, "b.sse.jsonl", FINE.splitlines(keepends=True)[0]),
    )
    assert run(db, "lint", "--cassette", good) == (0, b"", "")
    said = f"{bad}: line 1: there is no exchange in it\n".encode()
    assert run(db, "lint", "--cassette", bad, good) == (4, said, "")


def test_a_good_cassette_has_nothing_to_be_said_of() -> None:
    assert findings_in(FINE) == []
    assert findings_in(VERSION_1) == []


# Put together here, so that nobody who looks for keys in this repository finds one.
SECRETS = {
    "openai-key": "sk-" + "proj-" + "a1B2" * 8,
    "google-key": "AI" + "za" + "a1B2c" * 7,
    "aws-key": "AK" + "IA" + "A1B2" * 4,
    "github-token": "gh" + "p_" + "a1B2" * 9,
    "bearer-token": "Bearer " + "a1B2" * 6,
    "jwt": ".".join(["ey" + "Ja1B2c3D4e5F6a1B2c3"] * 2 + ["a1B2c3D4e5F6"]),
    "private-key": r"-----BEGIN "
    + r"RSA PRIVATE KEY-----\n"
    + "a1B2" * 16
    + r"\n-----END RSA "
    + "PRIVATE KEY-----",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_what_looks_like_a_secret_is_found_in_any_line(kind: str) -> None:
    secret, mark = SECRETS[kind].encode(), b"no secret yet"
    asked = b'{"prompt":"it is %b"}' % mark  # what is recorded now has it taken out
    written = write(told(taped(STREAM, asked=asked))).replace(mark, secret)
    said = f"it holds what looks like a secret ({kind})"
    assert f"line 2: {said}" in findings_in(written)
    assert findings_in(write(told(taped(b'data: {"a":" %b"}\n\n' % secret)))) == [f"line 4: {said}"]
    assert findings_in(write(told(taped(b"data: \xff %b\n\n" % secret)))) == [f"line 4: {said}"]


@pytest.mark.parametrize("name", REQUESTS)
def test_what_a_recording_takes_out_by_its_place_is_found_in_a_file(name: str) -> None:
    request = json.dumps(REQUESTS[name])
    recorded = write(told(taped(STREAM, asked=request.encode())))
    assert findings_in(recorded) == []
    edited = recorded.replace(b"<REDACTED ", b"somebody's ").replace(b" bytes>", b"")
    assert any(
        line.startswith("line 2: it holds what looks like a secret") for line in findings_in(edited)
    )
    repeated = write(told(taped(b"event: a\ndata: %b\n\n" % request.encode())))
    assert b"CANARY" not in repeated
    assert findings_in(repeated) == []
    assert findings_in(repeated.replace(b"<REDACTED ", b"somebody's ").replace(b" bytes>", b""))


def test_what_only_resembles_a_key_is_none() -> None:
    texts = b"task-force-and-a-very-long-word-behind-it, sk-short, gAAAAABsk-%b" % (b"x" * 30)
    assert findings_in(write(told(taped(b'data: {"a":"%b"}\n\n' % texts)))) == []


def test_a_header_that_no_recorder_keeps_is_found() -> None:
    edited = FINE.replace(b'["authorization","REDACTED (51 bytes)"]', b'["X-Api-Key","s3cret"]')
    assert findings_in(edited) == ["line 2: the header X-Api-Key is not redacted"]


def test_what_cannot_be_so_is_found() -> None:
    lines = FINE.splitlines(keepends=True)
    assert findings_in(b"".join(lines[:-1])) == [
        f"line {len(lines) - 1}: the exchange before it has no end"
    ]
    assert findings_in(lines[0]) == ["line 1: there is no exchange in it"]
    headless = [line for line in lines if b'"response":{"status"' not in line]
    assert (
        findings_in(b"".join(headless))[0]
        == "line 3: a response body begins without a response before it"
    )
    lying = lines[-1].replace(b'"outcome"', b'"body_bytes":3,"outcome"')
    assert findings_in(b"".join([*lines[:-1], lying])) == [
        f"line {len(lines)}: the end says another body_bytes than the lines before it come to: take it out of the line"
    ]


def test_what_cannot_be_read_is_found_and_its_keys_too() -> None:
    secret = SECRETS["aws-key"].encode()
    said = findings_in(FINE.replace(b"\n[", b'\n{"x":"' + secret + b'"}\n[', 1))
    assert said[0].startswith("line 4: it is neither an object with the number of an exchange")
    assert said[1:] == ["line 4: it holds what looks like a secret (aws-key)"]
    assert findings_in(b"")[0].startswith("line 1: ")


def test_not_more_is_said_than_anybody_reads() -> None:
    secret = SECRETS["aws-key"].encode()
    assert len(findings_in(FINE + secret + b"\n" + (secret + b"\n") * 500)) == check.FINDINGS_LIMIT


@pytest.mark.parametrize("verb", [("lint", "--cassette"), ("export", "--rewrite")])
def test_a_file_that_is_not_there_is_an_error(db: Path, verb: tuple[str, str]) -> None:
    ran = run(db, *verb, db.parent / "none", put(db, "a.sse.jsonl", FINE))
    assert ran == (3, b"", f"There is no file {db.parent / 'none'}.\n")
    ran = run(db, *verb, db.parent)
    assert ran == (2, b"", f"{db.parent} is a directory: name the files in it.\n")


def test_a_line_that_is_no_json_is_said_in_our_words() -> None:
    last = len(FINE.splitlines()) + 1
    for bad, said in (
        (
            b"",
            'line 1: it does not begin with {"recorder_cassette": \u2026}; `recorder import` reads other streams',
        ),
        (
            b"data: 1\n\n",
            'line 1: it does not begin with {"recorder_cassette": \u2026}; `recorder import` reads other streams',
        ),
        (
            FINE + b"[0.5,1,null",
            f"line {last}: it is not JSON from character 12 on; mend it, or write",
        ),
        (FINE + b'["\xff"]\n', f"line {last}: it is not UTF-8 from byte 3 on; mend it, or write"),
    ):
        assert findings_in(bad)[0].startswith(said)


# -- rewrite


def test_fmt_gives_the_canonical_form_and_does_so_once(db: Path) -> None:
    spaced = b"".join(json.dumps(json.loads(line)).encode() + b"\r\n" for line in FINE.splitlines())
    path = put(db, "turn.sse.jsonl", spaced)
    assert run(db, "export", "--rewrite", path) == (0, b"", f"{path} is formatted.\n")
    assert path.read_bytes() == FINE
    before = path.stat()
    assert run(db, "export", "--rewrite", path) == (0, b"", "")
    assert path.stat() == before or path.stat().st_ino == before.st_ino


def test_what_export_writes_is_in_its_canonical_form(db: Path) -> None:
    run(db, "import", put(db, "a.sse", STREAM))
    path = put(db, "a.sse.jsonl", run(db, "export", "a", "--format", "cassette").out)
    assert run(db, "export", "--rewrite", path).err == ""
    assert run(db, "lint", "--cassette", path).code == 0


def test_fmt_leaves_mode_and_link_and_numbers_the_exchanges(db: Path) -> None:
    path = put(
        db,
        "turn.sse.jsonl",
        VERSION_1.replace(b'"exchange":1', b'"exchange":7').replace(b",1,n", b",7,n"),
    )
    path.write_bytes(path.read_bytes().replace(b"[0.5,1", b"[0.5,7"))
    path.chmod(0o640)
    link = db.parent / "link.sse.jsonl"
    link.symlink_to(path)
    assert run(db, "export", "--rewrite", link).code == 0
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert b'"exchange":1' in path.read_bytes()
    assert sorted(os.listdir(db.parent)) == ["link.sse.jsonl", "turn.sse.jsonl"]


def test_fmt_leaves_what_it_cannot_read_as_it_is_and_goes_on(db: Path) -> None:
    bad, good = put(db, "a.sse.jsonl", b"{}\n"), put(db, "b.sse.jsonl", VERSION_1)
    ran = run(db, "export", "--rewrite", bad, good)
    assert ran.code == 1
    assert ran.err.startswith(f"{bad} is passed over: line 1 is none of a cassette: ")
    assert ran.err.endswith(f"{good} is formatted.\n")
    assert bad.read_bytes() == b"{}\n"


def test_fmt_redacts_headers(db: Path) -> None:
    path = put(db, "a.sse.jsonl", FINE.replace(b'"REDACTED (51 bytes)"', b'"Bearer s3cret"'))
    run(db, "export", "--rewrite", path)
    assert b'["authorization","REDACTED (13 bytes)"]' in path.read_bytes()


def test_nothing_is_left_of_a_file_that_could_not_be_written(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: Ran = run(
        db, "export", "--rewrite", put(db, "a.sse.jsonl", FINE + b'[0,1,null,{"tail":"x"}]\n')
    )
    assert ran.code == 1
    assert os.listdir(db.parent) == ["a.sse.jsonl"]
