"""Secrets in request bodies reach no disk that lasts, wherever they stand in a body and however
they are written.
"""

from __future__ import annotations

import gzip
import json
import re
import time
import zlib
from collections.abc import Callable, Sequence
from hashlib import sha256
from urllib.parse import quote_plus

import brotli
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.ingest.assembler import Assembler
from recorder.ingest.capture import Capture
from recorder.journal.format import START, Mark, Record
from recorder.model.events import (
    Event,
    ExchangeEnd,
    RequestEnd,
    RequestHead,
    RequestRecord,
    Session,
)
from recorder.replay.matching import Match, Matcher
from recorder.replay.matching.noise import Rules
from recorder.replay.transport import match_request
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.wire.content_coding import CODINGS
from recorder.wire.dialects import by_path
from recorder.wire.redaction import shapes
from recorder.wire.redaction.bodies import BY_SHAPE, PLACEHOLDER, Redactor, redactor_from
from tests.support.corpus import CORPUS, needs_corpus
from tests.support.proxy import request_for
from tests.support.recordings import ask, record
from tests.support.secret_shapes import (
    ALPHANUMERIC,
    PIECE,
    REQUESTS,
    SECRETS,
    URL_SAFE,
    made,
    pem,
    pieces,
)
from tests.support.tables import table
from tests.support.zstandard import zstd

VALUES = (
    "hunter2-and-more",
    'pa"ss\\wo/rd\nof two lines',
    "пароль-секрет",
    "12345678",
    "line😀end-xyz",
)


def _escaped(text: str) -> str:
    """JSON with every character as an escape."""
    units = text.encode("utf-16-be").hex()
    return "".join(rf"\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _half_escaped(text: str) -> str:
    return "".join(
        _escaped(each) if place % 2 else json.dumps(each)[1:-1] for place, each in enumerate(text)
    )


PLACES: dict[str, Callable[[str], str]] = {
    "value": lambda secret: json.dumps({"key": secret}),
    "key": lambda secret: json.dumps({secret: "value"}),
    "nested": lambda secret: json.dumps({"input": [{"content": [{"text": [secret, 1, None]}]}]}),
    "in text": lambda secret: json.dumps({"input": f"use {secret} for it."}),
    "on a line of its own": lambda secret: json.dumps({"input": f"the key:\n{secret}\nand so on"}),
    "in a .env": lambda secret: json.dumps(
        {"input": f"A=1\nKEY={secret}\nB='{secret}'\tC=\"{secret}\""}
    ),
    "quoted as books do": lambda secret: json.dumps({"input": f"“{secret}”"}),
    "found by grep": lambda secret: json.dumps(
        {"output": f".env:\x1b[01;31m\x1b[K{secret}\x1b[m\x1b[K"}
    ),
    "in a URL": lambda secret: json.dumps(
        {"url": f"https://user:{secret}@host/{secret}?key={secret}&x=1"}
    ),
    "arguments": lambda secret: json.dumps(
        {"arguments": json.dumps({"key": secret, "text": f"\n{secret}"})}
    ),
    "arguments of arguments": lambda secret: json.dumps(
        [json.dumps({"a": json.dumps({"key": secret})})]
    ),
    "html-safe": lambda secret: (
        '{"input":"' + rf"\u003ckey\u003e{json.dumps(secret)[1:-1]}\u003c/key\u003e" + '"}'
    ),
    "escaped": lambda secret: f'{{"key":"{_escaped(secret)}"}}',
    "half escaped": lambda secret: f'{{"key":"{_half_escaped(secret)}"}}',
    "arguments, escaped": lambda secret: json.dumps(
        {"arguments": f'{{"key":"{_half_escaped(secret)}"}}'}
    ),
    "slashes escaped": lambda secret: json.dumps({"key": secret}).replace("/", "\\/"),
    "utf-8": lambda secret: json.dumps({"key": f"ключ={secret}"}, ensure_ascii=False),
    "indented": lambda secret: json.dumps({"key": [secret]}, indent=2),
    "plain text": lambda secret: f"The key is {secret}, and that is it.",
    "lines of JSON": lambda secret: "\n".join(
        json.dumps({"key": each}) for each in ("a", secret, "b")
    ),
    "not quite JSON": lambda secret: json.dumps({"key": secret})[:-1] + ",}",
}


def unescaped(text: str) -> str:
    """Without any escapes, as often as there are some."""
    for _ in range(3):
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text).replace(
            r"\/", "/"
        )
        text = text.replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _assert_gone(secret: str, redacted: bytes) -> None:
    text = unescaped(redacted.decode("utf-8", "surrogateescape"))
    assert [piece for piece in pieces(secret) if piece in text] == []
    assert PLACEHOLDER.search(redacted)


def _same_structure(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(map(_same_structure, one.values(), other.values()))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_structure, one, other))
    return type(one) is type(other)


NO_JSON = ("plain text", "lines of JSON", "not quite JSON")


@table("place", PLACES)
def test_a_secret_is_taken_out_whole_wherever_it_stands(place: str) -> None:
    for secret in SECRETS.values():
        body = PLACES[place](secret).encode()
        redacted, counts = BY_SHAPE.redact(body)
        _assert_gone(secret, redacted)
        assert sum(counts.values()) == len(PLACEHOLDER.findall(redacted))
        assert BY_SHAPE.redact(redacted) == (redacted, {})
        assert place in NO_JSON or _same_structure(json.loads(body), json.loads(redacted))


@table("place", PLACES)
def test_a_registered_value_is_taken_out_however_it_is_written(place: str) -> None:
    for value in VALUES:
        redactor = Redactor([value])
        body = PLACES[place](value).encode()
        redacted, counts = redactor.redact(body)
        assert value not in unescaped(redacted.decode())
        assert "value" in counts
        assert redactor.redact(redacted) == (redacted, {})
        assert place in NO_JSON or _same_structure(json.loads(body), json.loads(redacted))


def test_a_number_that_is_registered_becomes_a_string() -> None:
    redacted = (
        Redactor(["12345678"]).redact(b'{"pin":12345678,"more":[912345678],"text":"12345678"}').body
    )
    instead = "<REDACTED value, 8 bytes>"
    assert json.loads(redacted) == {"pin": instead, "more": [instead], "text": instead}


@table("name", [name for name, secret in SECRETS.items() if "\n" not in secret])
def test_a_form_has_no_secret(name: str) -> None:
    secret = SECRETS[name]
    redacted = BY_SHAPE.redact(
        f"grant=x&key={secret}&more={quote_plus(f'a={secret} b')}".encode()
    ).body
    _assert_gone(secret, redacted)
    assert redacted.startswith(b"grant=x&key=<REDACTED ")


@table(
    "text",
    [
        "task-force-of-twenty-people-and-1-more disk-0123456789abcdefghijklmnop",
        "class='sk-toggleable__label-arrow sk-container-id-1-something-long'",
        "sk-... hf_token ghp_xxx AKIA glpat- xoxb- AIza eyJ",
        "AKIAIOSFODNN7EXAMPLEANDMORE NAKIA0123456789ABCDEF",
        'if "-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text:',
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "eyJhbGciOiJIUzI1NiJ9 is the beginning of one; msg_0123456789abcdef0123456789abcdef is an id",
        "<REDACTED openai-key, 51 bytes>",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    for body in (text.encode(), json.dumps({"input": text}).encode()):
        assert BY_SHAPE.redact(body) == (body, {})


@pytest.mark.long
@needs_corpus
def test_nothing_is_taken_out_of_what_was_really_sent() -> None:
    """Requests, with ids, hashes, signatures and encrypted reasoning; and answers, which hold more
    of them.
    """
    requests = [json.loads(path.read_bytes())["body"] for path in CORPUS.rglob("*.request.json")]
    sent = [as_json(body) for body in requests] + [
        path.read_bytes() for path in CORPUS.rglob("*.sse")
    ]
    assert len(sent) > 50
    assert [body[:100] for body in sent if BY_SHAPE.redact(body) != (body, {})] == []


@table(
    "told",
    [
        "resp_68a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071829",
        "rs_0123456789abcdef0123456789abcdef msg_011CSHoEeqs5C35K2UUqR7Fy call_AbCdEfGhIjKlMnOpQrStUvWx",
        "toolu_01A09q90qw90lq917835lq9 file-abc123XYZ0123456789abcdef chatcmpl-BxYz0123456789ABCDEFGHIJ",
        "0b5e3a8c-52a8-4a43-9d5b-6e2f1c7d8e9f 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "gAAAAABo" + made(URL_SAFE, 700) + "==",
        "EqQBCgIYAhIM" + made(ALPHANUMERIC + "+/", 400) + "=",
    ],
)
def test_ids_hashes_and_ciphertexts_stay_wherever_they_stand(told: str) -> None:
    for name in (
        "id",
        "encrypted_content",
        "signature",
        "thoughtSignature",
        "prompt_cache_key",
        "text",
    ):
        for body in (as_json({name: told}), as_json({"arguments": json.dumps({name: told})})):
            assert BY_SHAPE.redact(body) == (body, {})


CIPHER = "EqQBCgIYAhIM/"  # as one begins


@table(
    "body",
    [
        *(
            json.dumps({name: CIPHER + SECRETS["google"]})
            for name in ("encrypted_content", "encrypted_index")
        ),
        *(
            json.dumps({name: CIPHER + SECRETS["anthropic"] + "=="})
            for name in ("thoughtSignature", "signature")
        ),
        json.dumps({"thought_signature": CIPHER + SECRETS["jwt"]}),
        json.dumps({"arguments": json.dumps({"signature": CIPHER + SECRETS["google"]})}),
        json.dumps(
            {"url": f"data:image/png;base64,iVBORw0KGgo/{SECRETS['aws']}/{SECRETS['google']}"}
        ),
        json.dumps({"data": "iVBOR/" + "Ab1/" * 400 + SECRETS["google"] + "/" + "Ab1+" * 400}),
        json.dumps({"thinking": "gAAAA-" + "Ab1-" * 400 + SECRETS["google"] + "-" + "Ab1_" * 400}),
    ],
)
def test_nothing_is_taken_out_of_what_a_provider_has_sealed_or_of_a_picture(body: str) -> None:
    assert BY_SHAPE.redact(body.encode()) == (body.encode(), {})


def test_a_text_under_the_name_of_a_signature_has_no_secret() -> None:
    for text in ("def connect(key='{}'):", "{} is the key", "({})"):
        _assert_gone(
            SECRETS["google"],
            BY_SHAPE.redact(as_json({"signature": text.format(SECRETS["google"])})).body,
        )


@pytest.mark.long
@table(
    "name",
    [
        "encrypted_content",
        "encrypted_index",
        "signature",
        "thoughtSignature",
        "thought_signature",
        "data",
    ],
)
@table("form", ["{}", "{}==", "key={}", "v1.{}"])
def test_a_key_in_the_place_of_a_signature_is_taken_out(name: str, form: str) -> None:
    for secret in [*SECRETS.values(), VALUES[0]]:
        said = form.format(secret)
        value = f"data:text/plain;base64,{said}" if name == "data" else said
        for body in (as_json({name: value}), as_json({"arguments": json.dumps({name: value})})):
            redacted = Redactor(VALUES).redact(body).body
            assert not [
                piece for piece in pieces(secret) if piece in unescaped(redacted.decode())
            ], secret
            assert _same_structure(json.loads(body), json.loads(redacted))


def test_numbered_lines_of_a_key_without_its_end_are_taken_out() -> None:
    key = pem("RSA PRIVATE KEY").rpartition("\n")[0]
    for form in ("{:6}\t{}", "{:6}→{}", "{}: {}", "{}|+{}"):
        text = "\n".join(
            form.format(number, line) for number, line in enumerate(key.split("\n"), 1)
        )
        _assert_gone(key, BY_SHAPE.redact(as_json({"input": text})).body)


@table("name", ["anthropic", "openai", "google", "jwt", "rsa key", "value"])
def test_a_body_that_breaks_off_has_no_half_of_a_secret(name: str) -> None:
    secret = SECRETS.get(name, VALUES[0])
    redactor = Redactor([VALUES[0]])
    for size in range(1, len(secret)):
        half = secret[:size]
        redacted = redactor.redact(f'{{"key":"{half}'.encode(), cut=True).body
        shown = redacted.removeprefix(b'{"key":"')
        assert len(shown) <= 100, size
        assert PLACEHOLDER.fullmatch(shown) or size < PIECE or secret.startswith("-----"), size
        assert not [
            piece for piece in pieces(secret) if len(piece) >= PIECE and piece.encode() in redacted
        ]


# What stands in no shape: letters in words that are too short for a key.
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: not re.search(r"[\w-]{19}|PRIVATE KEY", text, re.ASCII)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


@given(JSON, st.booleans())
def test_a_body_without_a_secret_is_unchanged(value: object, as_ascii: bool) -> None:
    body = json.dumps(value, ensure_ascii=as_ascii).encode()
    redactor = Redactor([VALUES[0]], [re.compile("employee-[0-9]{6}")])
    assert redactor.redact(body) == (body, {})


@given(st.binary(max_size=300))
def test_any_bytes_are_taken_and_none_of_them_is_changed_without_need(body: bytes) -> None:
    redacted, counts = Redactor([VALUES[1]], [re.compile("employee-[0-9]{6}")]).redact(
        body, cut=False
    )
    assert redacted == body or counts


def _with_secrets(value: object, draw: Callable[[], str]) -> object:
    if isinstance(value, str):
        return value + draw()
    if isinstance(value, list):
        return [_with_secrets(each, draw) for each in value]
    if isinstance(value, dict):
        return {name + draw(): _with_secrets(each, draw) for name, each in value.items()}
    return value


SEPARATED = st.sampled_from(
    ["", *(f" {secret} " for secret in SECRETS.values()), *(f'"{value}\n' for value in VALUES)]
)


@given(JSON, st.data(), st.booleans(), st.integers(0, 2))
def test_json_stays_json_of_the_same_structure(
    value: object, data: st.DataObject, ascii: bool, depth: int
) -> None:
    told = _with_secrets(value, lambda: data.draw(SEPARATED))
    for _ in range(depth):
        told = {"arguments": json.dumps(told, ensure_ascii=ascii)}
    body = json.dumps(told, ensure_ascii=ascii).encode()
    redactor = Redactor(VALUES, [re.compile("employee-.*")])
    redacted = redactor.redact(body).body
    assert _same_structure(json.loads(body), json.loads(redacted))
    assert redactor.redact(redacted).body == redacted
    text = unescaped(redacted.decode())
    for secret in (*SECRETS.values(), *VALUES):
        assert secret not in text


@table("pattern", ["sk-", "^k", "(?<=sk-).", "[a-f]", "-[^-]*$", "a secret"])
@table("form", ['{{"a": "k {}"}}', "k {}"])
def test_a_pattern_takes_no_piece_out_of_a_secret(pattern: str, form: str) -> None:
    """The rest of it would look like none, and a pattern may be that of a project which somebody
    cloned.
    """
    redactor = Redactor(["a secret value"], [re.compile(pattern)])
    for secret in (SECRETS["openai"], "a secret value"):
        body = redactor.redact(form.format(secret).encode()).body
        assert [piece for piece in pieces(secret) if piece.encode() in body] == []


def test_a_pattern_ends_where_the_text_does() -> None:
    redactor = redactor_from([{"patterns": ["(?i)employee.*"]}], {})
    body = '{"a":"Employee 17\\nnext \\u00e9","b":"é employee\\" 18","signature":"employee"}'
    redacted, counts = redactor.redact(body.encode())
    assert json.loads(redacted) == {
        "a": "<REDACTED pattern, 11 bytes>\nnext é",
        "b": "é <REDACTED pattern, 12 bytes>",
        "signature": "employee",
    }
    assert counts == {"pattern": 2}
    assert redactor.redact(redacted) == (redacted, {})
    assert (
        redactor.redact(b"x=1&employee 17\n\xff").body == b"x=1&<REDACTED pattern, 11 bytes>\n\xff"
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"pattern": []}, "has no setting 'pattern'"),
        ({"env": "HOME"}, "env must be a list"),
        ({"patterns": ["("]}, "not a regular expression"),
        ({"patterns": ["x*"]}, "everywhere"),
    ],
)
def test_settings_that_make_no_sense_are_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        redactor_from([table], {})


def test_short_values_and_variables_that_are_not_set_are_passed_over() -> None:
    redactor = redactor_from(
        [{"env": ["SHORT", "NONE", "LONG"]}], {"SHORT": "1234567", "LONG": '"12345678x"\n'}
    )
    assert redactor.redact(b"1234567 12345678x").body == b"1234567 <REDACTED value, 9 bytes>"


@pytest.mark.timed
@table(
    "piece",
    [
        b"sk-",
        b"eyJ-",
        b"sk-ant-",
        b"-----BEGIN PRIVATE KEY-----",
        b"\\u002d",
        b"\\",
        b"eyJ" + b"a" * 30 + b".",
        b"<REDACTED ",
        b"KEY=",
        b"://a:",
        b"a=b&",
        b'{"a":',
        b"[",
        b'{"headers":[',
        b'"--token',
        b'x" name="',
        b"https://a?b=c&",
    ],
)
def test_hostile_bodies_take_no_time(piece: bytes) -> None:
    """Each of them would take minutes if what stands in it were read again for every part of it."""
    begun_s = time.process_time()
    Redactor(VALUES, fields=[["a", "*"]]).redact(piece * (2**18 // len(piece)), cut=True)
    assert time.process_time() - begun_s < 5


# -- on the way into the log

HEAD = RequestHead(
    "e-1", "s-1", 1_000, "POST", "/v1/responses", "openai", [("content-type", "application/json")]
)
ZSTD: Callable[[bytes], bytes] = zstd.compress


def _events(body: bytes, *codings: str, complete: bool = True) -> tuple[Assembler, list[Event]]:
    """With a Content-Encoding for each of `codings`."""
    assembler = Assembler("r-1", lambda head, grouping: None, redactor=Redactor(VALUES))
    head = msgspec.structs.replace(
        HEAD, headers=[*HEAD.headers, *(("Content-Encoding", each) for each in codings)]
    )
    for number, (mark, payload) in enumerate(records(head, body, complete)):
        assembler.feed(Record(1, mark, number, payload, START), START)
    return assembler, assembler.batch.events


def records(head: RequestHead, body: bytes, complete: bool = True) -> list[tuple[Mark, bytes]]:
    encode = msgspec.json.encode
    cuts = [body[at : at + 7] for at in range(0, len(body), 7)]
    return [
        (Mark.REQUEST, encode(head)),
        *((Mark.REQUEST_BODY, cut) for cut in cuts),
        (Mark.REQUEST_END, encode(RequestEnd(complete))),
        (Mark.END, encode(ExchangeEnd("eof"))),
    ]


def _record(events: Sequence[Event]) -> RequestRecord:
    return msgspec.json.decode(events[0].raw, type=RequestRecord)


@pytest.mark.long
@pytest.mark.parametrize("coding", [None, "gzip", "zstd"])
def test_the_log_and_a_cassette_have_no_secret_and_say_so(coding: str | None) -> None:
    plain = as_json({"prompt_cache_key": SECRETS["openai"], "input": [*SECRETS.values(), *VALUES]})
    coded = {"gzip": gzip.compress, "zstd": ZSTD}[coding](plain) if coding else plain
    assembler, events = _events(coded, *([coding] if coding else []))
    session = Session("s-1", 0, "n", "path", "{}", "live")
    lines = b"".join(cassette_lines(session, [(assembler.batch.exchanges[0], events)]))
    rows = msgspec.json.encode([assembler.batch.sessions, assembler.batch.exchanges])
    for written in (b"".join(event.raw for event in events[1:]), lines, rows):
        for secret in (*SECRETS.values(), *VALUES):
            assert not [piece for piece in pieces(secret) if piece in unescaped(written.decode())]
    record = _record(events)
    assert record.redactions == {**BY_SHAPE.redact(plain).counts, "value": len(VALUES)}
    assert record.wire_bytes == record.body_bytes == len(events[1].raw)
    assert _findings(assembler, events) == []


PLAIN = as_json({"key": SECRETS["openai"], "noise": "x" * 1000})
IN_CHUNKS = b"40;chunk-signature=1\r\n" + PLAIN[:64] + b"\r\n0;chunk-signature=2\r\n\r\n"


@table(
    ("codings", "wire"),
    [
        (["gzip, br"], brotli.compress(gzip.compress(PLAIN))),
        (["gzip", "br"], brotli.compress(gzip.compress(PLAIN))),
        (["x-gzip,identity , ZSTD"], ZSTD(gzip.compress(PLAIN))),
        (
            ["deflate", "gzip", "gzip", "br"],
            brotli.compress(gzip.compress(gzip.compress(zlib.compress(PLAIN)))),
        ),
        (["", "identity"], PLAIN),
    ],
)
def test_all_codings_of_a_body_are_undone(codings: list[str], wire: bytes) -> None:
    assembler, events = _events(wire, *codings)
    assert events[1].raw == BY_SHAPE.redact(PLAIN).body
    assert (_record(events).undecoded, _record(events).redactions) == (None, {"api-key": 1})
    assert _findings(assembler, events) == []


@table("code", [gzip.compress, zlib.compress, ZSTD])
@table("codings", [[], ["gzip"]])
def test_json_in_a_coding_that_no_header_names_is_kept_without_it(
    code: Callable[[bytes], bytes], codings: list[str]
) -> None:
    wire = gzip.compress(code(PLAIN)) if codings else code(PLAIN)
    assembler, events = _events(wire, *codings)
    assert events[1].raw == BY_SHAPE.redact(PLAIN).body
    assert _record(events).redactions == {"api-key": 1}
    assert match_request(request_for("POST", "http://h/v1/x", content=wire), wire).body == (
        wire if codings else PLAIN
    )
    assert _findings(assembler, events) == []
    plain = as_json({"input": "hello"})
    assembler, events = _events(code(plain))
    assert events[1].raw == plain
    assert _findings(assembler, events) == []
    file = code(b"no JSON " * 100)
    assert _events(file)[1][1].raw == file


@table(
    ("codings", "wire"),
    [
        (["aws-chunked"], IN_CHUNKS),
        (["gzip", "br"], gzip.compress(PLAIN)),
        (["gzip", "gzip"], gzip.compress(PLAIN)),
        (["gzip"], gzip.compress(PLAIN)[:-9]),
        (["zstd"], ZSTD(PLAIN)[:-1]),
        (
            ["gzip"] * 5,
            gzip.compress(gzip.compress(gzip.compress(gzip.compress(gzip.compress(PLAIN))))),
        ),
        (["gzip"], PLAIN[:-1]),
        (["gzip"], gzip.compress(b"no secret is in here, and nobody can know that")[:-9]),
    ],
)
@table("complete", [True, False])
def test_what_cannot_be_decoded_to_its_end_is_counted_and_not_kept(
    codings: list[str], wire: bytes, complete: bool
) -> None:
    assembler, events = _events(wire, *codings, complete=complete)
    assert events[1].raw == b"<REDACTED coded, %d bytes>" % len(wire)
    record = _record(events)
    assert record.redactions == {"coded": 1}
    assert record.undecoded
    assert sha256(wire).hexdigest().encode() not in events[0].raw
    assert _findings(assembler, events) == []


@table("coding", ["utf-8", "aws-chunked", "none", "gzip", "br"])
def test_json_that_is_not_coded_is_kept_whatever_its_head_says(coding: str) -> None:
    """Without its secrets."""
    assembler, events = _events(PLAIN, coding)
    assert events[1].raw == BY_SHAPE.redact(PLAIN).body
    assert (_record(events).undecoded is not None) == (coding in CODINGS)
    assert _findings(assembler, events) == []
    plain = as_json({"input": "hello"})
    assert _events(plain, coding)[1][1].raw == plain


def test_a_request_that_cannot_be_decoded_finds_its_recording() -> None:
    wire = gzip.compress(PLAIN)
    for coding in ("gzip, br", "gzip"):
        _, events = _events(wire, coding)
        request = request_for(
            "POST", "http://h/v1/x", content=wire, headers={"content-encoding": coding}
        )
        asked = match_request(request, wire)
        assert Rules().redactor.redact(asked.body).body == events[1].raw


def _findings(assembler: Assembler, events: Sequence[Event]) -> list[object]:
    verifier = ChainVerifier("s-1", "e-1", assembler.batch.exchanges[0])
    for event in events:
        verifier.feed(event)
    return list(verifier.close())


def test_a_body_that_breaks_off_in_a_secret_has_no_half_of_it() -> None:
    _, events = _events(as_json({"key": SECRETS["openai"]})[:-20], complete=False)
    assert events[1].raw == b'{"key": "<REDACTED api-key, 33 bytes>'


def test_a_request_without_a_secret_is_recorded_as_ever() -> None:
    """The bytes of the record, too: a journal that an older version has told in part is told again."""
    body = as_json({"input": "hello"})
    _, events = _events(body)
    capture = Capture("s-1", "e-1", by_path("POST", "/v1/responses"), 0, first=b"x")
    assert [event.raw for event in events[:2]] == [
        event.raw for event in capture.request(HEAD, body, wire=body)
    ]
    assert b"redactions" not in events[0].raw


# -- on the way out of it


@pytest.mark.parametrize("recorded", ["redacted", "as it was sent"])
def test_who_sends_the_secret_again_gets_what_was_recorded(recorded: str) -> None:
    rules = Rules(redactor=Redactor(VALUES))
    body = as_json({"input": f"hello {SECRETS['anthropic']} {VALUES[0]}"})
    kept = rules.redactor.redact(body).body if recorded == "redacted" else body
    matcher = Matcher([record(ask(kept))], rules)
    found = matcher.match(ask(body))
    assert isinstance(found, Match)
    assert found.how == "exact"


@table("name", REQUESTS)
def test_who_sends_other_credentials_gets_what_was_recorded(name: str) -> None:
    asked = as_json(REQUESTS[name])
    others = asked.replace(b"CANARY-", b"CANARY-of-somebody-else-")
    assert len(others) > len(asked)
    for kept in (BY_SHAPE.redact(asked).body, asked):
        for sent in (asked, others):
            found = Matcher([record(ask(kept))]).match(ask(sent))
            assert isinstance(found, Match)
            assert found.how == "exact"


def test_a_miss_does_not_repeat_a_secret() -> None:
    matcher = Matcher([record(ask(as_json({"input": "hello"})))])
    miss = matcher.match(ask(as_json({"input": SECRETS["openai"]})))
    assert SECRETS["openai"] not in repr(miss)
    assert "<REDACTED api-key, 51 bytes>" in repr(miss)


def test_every_shape_is_in_this_test() -> None:
    found = {hit.kind for secret in SECRETS.values() for hit in shapes.find(secret.encode())}
    assert found == {*(shape.kind for shape in shapes.SHAPES), shapes.PRIVATE_KEY}


def _grouped(body: dict[str, object], redactor: Redactor = BY_SHAPE) -> str:
    """The name of the session that such a request begins."""
    assembler = Assembler("r-1", lambda head, grouping: None, redactor=redactor)
    for number, (mark, payload) in enumerate(records(HEAD, as_json(body))):
        assembler.feed(Record(1, mark, number, payload, START), START)
    return assembler.batch.sessions[0].name


def test_a_session_has_no_secret_in_its_name_and_keeps_it() -> None:
    named = {
        name: _grouped({"prompt_cache_key": secret})
        for name, secret in SECRETS.items()
        if "\n" not in secret
    }
    assert (
        named["openai"] == "REDACTED-api-key-" + sha256(SECRETS["openai"].encode()).hexdigest()[:6]
    )
    assert len(set(named.values())) == len(named)
    for name, again in named.items():
        assert _grouped({"input": ["x"], "prompt_cache_key": SECRETS[name]}) == again
        assert not [piece for piece in pieces(SECRETS[name]) if piece in again]


def test_of_a_registered_value_a_session_has_no_digest() -> None:
    """It may be short, and guessed."""
    redactor = Redactor(VALUES)
    assert _grouped({"prompt_cache_key": VALUES[0]}, redactor) == "<REDACTED value, 16 bytes>"
    both = f"{VALUES[0]} {SECRETS['openai']}"
    assert (
        _grouped({"prompt_cache_key": both}, redactor)
        == "<REDACTED value, 16 bytes> <REDACTED api-key, 51 bytes>"
    )


# -- a text that is not JSON


@table(("name", "secret"), SECRETS.items())
def test_a_secret_in_a_text_has_its_place_in_characters(name: str, secret: str) -> None:
    text = f"é😀\ud83d {secret} ü"
    [hit] = BY_SHAPE.secrets(text)
    assert text[hit.start : hit.end] == secret


def test_values_and_patterns_are_found_in_a_text_once() -> None:
    redactor = Redactor(["größer-als-alles"], [re.compile("alles|ü+")])
    text = "ü größer-als-alles <REDACTED alles, 12 bytes> ümlaut <REDACTED value, 7 bytes>"
    assert [text[hit.start : hit.end] for hit in redactor.secrets(text)] == [
        "ü",
        "größer-als-alles",
        "ü",
    ]
    assert BY_SHAPE.secrets(text) == []
