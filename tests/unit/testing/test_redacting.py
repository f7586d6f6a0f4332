"""What a project calls private is in no cassette, whatever form it came in, or there is no
cassette.
"""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.errors import RecorderError, UsageError
from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.model.events import Header, Recording, RequestHead, ResponseHead, Session
from recorder.recordings.files import load_cassette
from recorder.replay.matching import Match, Matcher, MatchRequest, request_of
from recorder.replay.matching.noise import Rules
from recorder.testing.clearing import PrivateValues, redacted_rows
from recorder.testing.redactions import Redactions
from recorder.wire.recording import recording_of
from recorder.wire.redaction.unescape import spliced_pieces
from tests.support.projects import stream
from tests.support.tables import run_all

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc*"), inner, max_size=3)
    ),
    max_leaves=12,
)
PATHS = st.lists(st.sampled_from("abc*"), min_size=1, max_size=4).map(".".join)


def request(
    body: bytes, target: str = "/v1/responses", headers: list[Header] | None = None
) -> MatchRequest:
    return MatchRequest("POST", target, "openai", headers or [], body)


def test_a_field_is_replaced_wherever_its_path_leads() -> None:
    asked = {"input": [{"id": 1, "text": "a"}, {"text": "b"}, "c"], "user": {"id": 7}}
    redacted = Redactions(["fields:input.*.id", "fields:user"]).request(
        request(json.dumps(asked).encode())
    )
    expected = {"input": [{"id": "REDACTED", "text": "a"}, {"text": "b"}, "c"], "user": "REDACTED"}
    assert json.loads(redacted.body) == expected


@given(JSON, PATHS)
def test_again_is_the_same(value: Any, path: str) -> None:
    redactions = Redactions([f"fields:{path}"])
    once = redactions.request(request(json.dumps(value).encode()))
    assert redactions.request(once) == once


@given(JSON)
def test_a_body_without_the_field_keeps_its_bytes(value: Any) -> None:
    body = json.dumps(value, indent=1).encode()
    assert Redactions(["fields:d", "fields:*.d"]).request(request(body)).body == body


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"nothing", b"--boundary\r\n", b'{"a":"\\ud800"}']
)
def test_no_body_is_too_odd(body: bytes) -> None:
    assert Redactions(["fields:b"]).request(request(body)).body == body
    assert b"me" not in Redactions(["fields:b"]).request(request(b'{"a":"\\ud800","b":"me"}')).body


@pytest.mark.parametrize("body", [b'{"user": "me", "n', b"[" * 100_000, b' {"user": "me\xff"}'])
def test_nothing_is_kept_of_json_that_cannot_be_read(body: bytes) -> None:
    assert Redactions(["fields:user"]).request(request(body)).body == b"REDACTED"
    assert Redactions().request(request(body)).body == body


def test_parameters_and_headers_go_by_name() -> None:
    redactions = Redactions(["headers:X-Team-*", "parameters:team"])
    headers = [("X-Team-Id", "blue"), ("x-teams", "red"), ("x-team-key", "REDACTED (9 bytes)")]
    asked = redactions.request(request(b"", "/v1/x?team=blue&t%65am=a;team&teams=red", headers))
    assert asked.target == "/v1/x?team=REDACTED&t%65am=REDACTED;team&teams=red"
    assert asked.headers == [("X-Team-Id", "REDACTED (4 bytes)"), *headers[1:]]


def written(lines: list[str], *episodes: Recording, name: str = "test_one") -> bytes:
    """The cassette that is written of exchanges."""
    session = Session("s-1", 1_000, name, "test", "{}", "live")
    return b"".join(cassette_lines(session, redacted_rows(session, episodes, Redactions(lines))))


def episode(
    body: bytes | str,
    *,
    type_: str = "application/json",
    coding: str = "",
    answer: bytes = b"data: {}\n\n",
    **how: Any,
) -> Recording:
    """An exchange as it is recorded."""
    headers = [("content-type", type_), *([("content-encoding", coding)] if coding else [])]
    answer_headers = [("content-type", "text/event-stream"), *how.pop("answered", [])]
    target, headers = how.pop("target", "/v1/responses"), [*headers, *how.pop("headers", [])]
    head = RequestHead("e-1", "s-1", 1, "POST", target, "openai", headers)
    sent = body if isinstance(body, bytes) else body.encode()
    cuts = [0, *how.pop("cuts", ()), len(answer)]
    told = [
        (Mark.REQUEST, msgspec.json.encode(head)),
        (Mark.REQUEST_BODY, sent),
        (Mark.REQUEST_END, b'{"complete":true}'),
        (Mark.RESPONSE, msgspec.json.encode(ResponseHead(200, "OK", answer_headers))),
        *((Mark.CHUNK, answer[start:stop]) for start, stop in pairwise(cuts)),
        (Mark.END, b'{"outcome":"eof"}'),
    ]
    assembler = Assembler("r-1", lambda head, grouping: "s-1")
    for t_ns, (mark, payload) in enumerate(told):
        assembler.feed(Record(1, mark, t_ns * 1_000_000, payload, START), START)
    [exchange] = assembler.batch.exchanges
    return recording_of(exchange, assembler.batch.events)


def read_back(path: Path, written: bytes) -> list[Recording]:
    path.write_bytes(written)
    return read_cassette(path)


WHO = "lovelace@example.org"
ESCAPED = "".join(f"\\u{ord(letter):04X}" for letter in WHO)
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=----limit"


def multipart(**fields: str) -> bytes:
    part = '------limit\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    return "".join([*(part.format(*each) for each in fields.items()), "------limit--\r\n"]).encode()


KEPT: dict[str, Recording] = {
    "JSON": episode(f'{{"user": "{WHO}", "n": 1.0}}'),
    "escaped JSON": episode(f'{{"user": "{ESCAPED}", "n": 1.0}}'),
    "gzip": episode(gzip.compress(f'{{"user": "{WHO}", "n": 1.0}}'.encode()), coding="gzip"),
    "a BOM": episode(b"\xef\xbb\xbf" + f'{{"user": "{WHO}", "n": 1.0}}'.encode()),
    "UTF-16": episode(f'{{"user": "{WHO}", "n": 1.0}}'.encode("utf-16")),
    "UTF-32 without a BOM": episode(f'{{"user": "{WHO}", "n": 1.0}}'.encode("utf-32-le")),
    "JSON in a text": episode(
        json.dumps({"n": json.dumps({"user": WHO}), "m": json.dumps(json.dumps({"user": WHO}))})
    ),
    "a text that is all of it": episode(json.dumps(json.dumps({"user": WHO}))),
    "a form": episode(f"n=1.0&user={quote_plus(WHO)}&n%5Buser%5D={WHO}", type_=FORM),
    "a form of JSON": episode(f"n={quote_plus(json.dumps({'user': WHO}))}", type_=FORM),
    "JSON that is called a form": episode(f'{{"user": "{WHO}", "n": 1.0}}', type_=FORM),
    "a form in parts": episode(multipart(user=WHO, n="1.0", **{"n[user]": WHO}), type_=MULTIPART),
    "an echo": episode(
        f'{{"user": "{WHO}", "n": 1.0}}',
        answer=f'data: {{"type":"x","user":"{ESCAPED}","n":"{WHO}"}}\n\n'.encode(),
        cuts=(20, 30, 40),
    ),
    "an echo of a header": episode(
        '{"n": 1.0}',
        answered=[("x-request-id", WHO)],
        answer=f'data: {{"request_id": "{WHO}"}}\n\n'.encode(),
    ),
    "a parameter": episode('{"n": 1.0}', target=f"/v1/responses?after={quote_plus(WHO)}"),
}
LINES = ["fields:user", "fields:n.user", "fields:m.user", "headers:x-request-*", "parameters:after"]


@pytest.mark.parametrize("form", KEPT)
def test_what_is_private_is_in_no_cassette_whatever_form_it_came_in(
    form: str, tmp_path: Path
) -> None:
    made = written(LINES, KEPT[form])
    assert not any(
        each in made
        for each in (WHO.encode(), ESCAPED.encode(), quote_plus(WHO).encode(), b"lovelace")
    )
    assert b"REDACTED" in made
    [recording] = read_back(tmp_path / "run.sse.jsonl", made)
    body = b"".join(piece.raw for piece in recording.pieces)
    assert recording.end is not None
    assert (recording.end.body_bytes, recording.end.wire_bytes) == (len(body), len(body))
    assert recording.end.body_sha256 == sha256(body).hexdigest()
    assert recording.end.lossless
    assert sum(size for _, size in recording.reads) == len(body)
    asked = recording.request
    assert (asked.body_bytes, asked.wire_bytes) == (
        len(recording.request_body),
        len(recording.request_body),
    )
    assert asked.wire_sha256 == sha256(recording.request_body).hexdigest()
    again = written(LINES, *load_cassette(tmp_path / "run.sse.jsonl").recordings)
    assert again.split(b"\n")[1:] == made.split(b"\n")[1:]


def test_what_is_written_is_matched_by_who_asks_it_with_something_else(tmp_path: Path) -> None:
    for form in KEPT:
        [recording] = read_back(tmp_path / "run.sse.jsonl", written(LINES, KEPT[form]))
        redactions = Redactions(LINES)
        asked = redactions.request(request_of(KEPT[form]))
        assert isinstance(
            Matcher([redactions.recording(recording)], Rules(until="exact")).match(asked), Match
        ), form


USER = json.dumps({"user": WHO})
ALSO = json.dumps({"input": f"I am {WHO}."})
NESTED = json.dumps({"a": json.dumps({"b": WHO})})
REFUSED: dict[str, list[tuple[str, Recording]]] = {
    "cannot be decoded": [
        ("two codings", episode(gzip.compress(gzip.compress(b"{}")), coding="gzip, rot13")),
        ("an unknown coding", episode(b"\xff\x06{}", coding="rot13")),
    ],
    "neither JSON nor a form": [
        ("cut JSON", episode(f'{{"user": "{WHO}", "n')),
        ("cut JSON with a BOM", episode(b"\xef\xbb\xbf" + f'{{"user": "{WHO}", "n'.encode())),
        ("cut JSON in UTF-16", episode(f'{{"user": "{WHO}", "n'.encode("utf-16"))),
        ("a key twice", episode(f'{{"user": "{WHO}", "user": "REDACTED"}}')),
        ("deep JSON", episode("[" * 100_000)),
        ("a text", episode(f"user: {WHO}", type_="text/plain")),
        ("a cut form in parts", episode(multipart(user=WHO)[:-20], type_=MULTIPART)),
        (
            "a form in parts without a limit",
            episode(multipart(user=WHO), type_="multipart/form-data"),
        ),
    ],
    "JSON in a text": [("cut JSON in a text", episode(json.dumps({"n": f'{{"user": "{WHO}"'})))],
    "its request still has": [
        ("another place", episode(json.dumps({"user": WHO, "input": f"I am {WHO}."})))
    ],
    "its response still has": [
        (
            "what the model says",
            episode(USER, answer=f'data: {{"delta":"I am {ESCAPED}."}}\n\n'.encode()),
        ),
        ("JSON in JSON", episode(USER, answer=f"data: {NESTED}\n\n".encode())),
        (
            "what the model says bit by bit",
            episode(USER, answer=stream("love", "lace@exam", "ple.org")),
        ),
        ("a number", episode('{"user": 4915112345}', answer=b'data: {"phone":4915112345}\n\n')),
        (
            "a part of an object",
            episode(f'{{"user": {{"name": ["{WHO}"]}}}}', answer=f"data: I am {WHO}\n\n".encode()),
        ),
    ],
    "its response cannot be decoded": [
        (
            "an unknown coding",
            episode(USER, answer=b"\xff\x06" * 9, answered=[("content-encoding", "rot13")]),
        ),
    ],
}


def assert_refused(why: str, *episodes: Recording) -> None:
    with pytest.raises(RecorderError) as refused:
        written(LINES, *episodes)
    said = str(refused.value)
    assert said.startswith(
        f"Exchange {len(episodes)} (POST to openai) cannot be redacted, so nothing was written: "
    )
    assert why in said
    assert "lovelace" not in said


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_redacted_is_not_written(why: str) -> None:
    run_all(lambda _form, held: assert_refused(why, held), REFUSED[why])


MAIL = [r"text:[\w.]+@[\w.]+\w"]
SAID = f'"I am {WHO}."'
IN_TEXTS: dict[str, Recording] = {
    "a text": episode(ALSO),
    "JSON in a text": episode(json.dumps({"input": ALSO})),
    "a form": episode(f"a=I+am+{quote_plus(WHO)}", type_="application/x-www-form-urlencoded"),
    "a form in parts": episode(multipart(a=f"I am {WHO}"), type_=MULTIPART),
    "deltas": episode("{}", answer=stream("I am love", "lace@", "exam", "ple.org", ".")),
    "deltas and reads": episode(
        "{}", answer=stream("I am lovel", "ace@example.or", "g."), cuts=range(100, 500, 7)
    ),
    "one document": episode("{}", answer=f'{{"a": [{{"b": {SAID}}}]}}'.encode()),
    "no JSON": episode("{}", answer=f"Wrong key: {WHO}".encode()),
}


@pytest.mark.parametrize("form", IN_TEXTS)
def test_what_a_pattern_matches_is_in_no_cassette_whatever_it_came_in(
    form: str, tmp_path: Path
) -> None:
    made = written(MAIL, IN_TEXTS[form])
    assert not any(part in made for part in (b"love", b"lace", b"exam", b"ple.org"))
    [recording] = read_back(tmp_path / "run.sse.jsonl", made)
    body = b"".join(piece.raw for piece in recording.pieces)
    assert recording.end is not None
    assert (recording.end.lossless, recording.end.body_sha256) == (True, sha256(body).hexdigest())
    if form.startswith("deltas"):
        assert load_cassette(tmp_path / "run.sse.jsonl").text == "I am REDACTED."
    again = written(MAIL, *load_cassette(tmp_path / "run.sse.jsonl").recordings)
    assert again.split(b"\n")[1:] == made.split(b"\n")[1:]


def test_who_a_text_names_distinguishes_no_two_requests() -> None:
    redactions = Redactions(MAIL)
    recorded = redactions.recording(IN_TEXTS["a text"])
    asked = [
        redactions.request(request(json.dumps({"input": f"I am {who}."}).encode()))
        for who in ("a@b.org", "Ada")
    ]
    content_type = [("content-type", "application/json")]
    found = [
        Matcher([recorded], Rules(until="exact")).match(replace(each, headers=content_type))
        for each in asked
    ]
    assert [isinstance(each, Match) for each in found] == [True, False]


def test_what_a_pattern_matches_only_without_escapes_is_not_written() -> None:
    call = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1}
    added = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": "",
    }
    events = [
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {"type": "response.output_item.added", "output_index": 1, "item": added},
        {**call, "delta": '{"a":"love\\u006cace"}'},
    ]
    answer = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events)
    with pytest.raises(
        RecorderError, match="its response still has what a line text: of recorder_redact matches"
    ):
        written(["text:lovelace"], episode("{}", answer=answer))


def test_what_is_private_in_one_request_is_in_no_other_one() -> None:
    assert_refused("its request still has", episode(USER), episode(ALSO))


def test_the_name_of_a_test_is_no_place_for_what_is_private() -> None:
    with pytest.raises(
        RecorderError, match="fields:user is in the name of the test: give it another one"
    ):
        written(LINES, KEPT["JSON"], name=f"test_one[{WHO}]")


def test_what_stands_anywhere_by_chance_is_looked_for_nowhere() -> None:
    asked = {"user": ["me", True, None, 1234, "true", "  "], "input": "me, true and 1234"}
    assert b'"input":"me, true and 1234"' in written(LINES, episode(json.dumps(asked)))


def test_bodies_do_not_matter_where_no_field_is_private() -> None:
    assert b"user: me" in written(["headers:x-team"], episode("user: me", type_="text/plain"))


def test_what_the_row_of_an_exchange_has_of_something_private_is_left_out() -> None:
    user = "user_0123456789_account__session_01a1fa73-90bd-4000-8000-000000000001"
    held = episode(json.dumps({"metadata": {"user_id": user}}))
    row = msgspec.structs.replace(held.exchange, thread_id="01a1fa73-90bd-4000-8000-000000000001")
    held = msgspec.structs.replace(held, exchange=row)
    assert b"01a1fa73" not in written(["fields:metadata.user_id"], held)


@pytest.mark.parametrize(
    "cuts", [(), (1,), (8,), (14,), (8, 9, 10, 14), (3, 7, 20), tuple(range(1, 24))]
)
def test_a_piece_keeps_its_place_when_an_echo_is_shorter(cuts: tuple[int, ...]) -> None:
    body = b'a: "lovelace", b: "lovelace" '
    private = PrivateValues()
    private.add("fields:user", "lovelace")
    pieces = [body[start:stop] for start, stop in pairwise([0, *cuts, len(body)])]
    made = spliced_pieces(pieces, private.echoes(body), splits=False)
    assert b"".join(made) == b'a: "REDACTED", b: "REDACTED" '
    assert len(made) == len(pieces)


def test_without_private_things_exchanges_stay_as_they_are() -> None:
    session = Session("s-1", 1_000, "test_one", "test", "{}", "live")
    held = [episode(gzip.compress(b'{"a":1}'), coding="gzip")]
    rows = [(each.exchange, [*each.events]) for each in held]
    for lines in ([], ["fields:user"]):
        assert [
            (row, [*events]) for row, events in redacted_rows(session, held, Redactions(lines))
        ] == rows


@pytest.mark.parametrize(
    ("pattern", "why"), [("(", "is not a regular expression"), ("a*", "matches the empty text")]
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Redactions([f"text:{pattern}"])


@pytest.mark.parametrize("line", ["user", "field:user", "fields:", "fields:a.", "headers: ", ":x"])
def test_a_line_that_names_nothing_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="names nothing: write fields:PATH"):
        Redactions([line])
