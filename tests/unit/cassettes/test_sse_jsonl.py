"""`recorder.cassettes.sse_jsonl`: a session as a cassette, and back."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.cassettes import Entry
from recorder.cassettes.content import formats
from recorder.cassettes.plain import payload_lines
from recorder.cassettes.sse_jsonl import CASSETTE_LIMIT, SseJsonl, formatted, read_cassette
from recorder.cassettes.sse_jsonl.check import findings
from recorder.cassettes.sse_jsonl.frames import PAD_LIMIT, Framing, parsed
from recorder.cassettes.sse_jsonl.lines import CONTENT_LIMIT, seconds
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.errors import NotFoundError, RecorderError
from recorder.files import save
from recorder.ingest.pending import Batch
from recorder.journal.format import Mark
from recorder.model.events import (
    ExchangeEnd,
    Header,
    Imported,
    Outcome,
    RequestEnd,
    RequestHead,
    ResponseHead,
)
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.recording import recording_of
from tests.support.aws_messages import aws_event, aws_message
from tests.support.corpus import CORPUS, ROOT, corpus_files, corpus_index, each_stream, needs_corpus
from tests.support.rows import START_NS, make_id, make_session
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import body, exchanges, imported, told

PATHS = {
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    "openai-chat": "/v1/chat/completions",
}
STREAM = ("content-type", "text/event-stream")


def taped(
    *reads: bytes, path: str = "/v1/responses", asked: bytes = b'{"model":"m"}', **given: Any
) -> list[Entry]:
    """An exchange as a recorder journals it: a read every 10 ms and 3 ns."""
    session = make_session(1)
    headers: list[Header] = given.get("headers", [STREAM])
    outcome: Outcome = given.get("outcome", "eof")
    head = RequestHead(
        *(make_id(given.get("number", 2)), session.session_id, START_NS, "POST", path, "openai"),
        headers=[("user-agent", "codex_exec/0.1"), ("authorization", "REDACTED (51 bytes)")],
        imported=Imported(session),
    )
    return [
        Entry(Mark.REQUEST, 5, msgspec.json.encode(head)),
        Entry(Mark.REQUEST_BODY, 6, asked),
        Entry(Mark.REQUEST_END, 7, msgspec.json.encode(RequestEnd(complete=True))),
        Entry(Mark.RESPONSE, 8_000, msgspec.json.encode(ResponseHead(200, "OK", headers))),
        *(Entry(Mark.CHUNK, at * 10_000_003, read) for at, read in enumerate(reads, 1)),
        Entry(Mark.END, 10**12 + 1, msgspec.json.encode(ExchangeEnd(outcome))),
    ]


def write(batch: Batch) -> bytes:
    """As `recorder export --format cassette` writes it."""
    chapters = [
        (each, [e for e in batch.events if e.exchange_id == each.exchange_id])
        for each in batch.exchanges
    ]
    return b"".join(cassette_lines(batch.sessions[0], chapters))


def restored(written: bytes) -> Batch:
    return imported(SseJsonl(io.BytesIO(written)))


def in_microseconds(batch: Batch) -> list[tuple[Any, ...]]:
    """The events without what hangs on ids, in the precision of a cassette."""
    order = [exchange.exchange_id for exchange in batch.exchanges]
    rows = []
    for event in sorted(
        batch.events, key=lambda event: (order.index(event.exchange_id), event.pos)
    ):
        t_ns, raw = event.t_ns // 1000 * 1000, event.raw
        if event.kind in ("reads", "frames"):
            raw = msgspec.json.encode([(at // 1000 * 1000, *rest) for at, *rest in json.loads(raw)])
        rows.append(
            msgspec.structs.astuple(msgspec.structs.replace(event, t_ns=t_ns, raw=raw))[2:-1]
        )
    return rows


def lines_of(*reads: bytes, **given: Any) -> list[str]:
    return write(told(taped(*reads, **given))).decode().splitlines()


def frames_of(*reads: bytes, **given: Any) -> list[str]:
    return [line for line in lines_of(*reads, **given) if line.startswith("[")]


# -- nothing is lost

FRAMES = [
    *(
        b'data: {"a":1}\n\n',
        b'event: a\ndata: {"type":"b","sequence_number":7}\n\n',
        b": c\n\n",
        b"data: \xff\n\n",
    ),
    *(
        b'event: a\r\ndata: {"a": [1, 2.5]}\r\n\r\n',
        b'data:{"a":1}\n\n',
        b'data: {"a":1   }\n\n',
        b"data: [DONE]\n\n",
    ),
    *(
        b'data: {"a":1e5}\n\n',
        b'data: {"a":1,"a":2}\n\n',
        b'data: {"raw":"x"}\n\n',
        b'data: {"body":"x"}\n\n',
    ),
    *(
        b'data: "\\ud83d"\n\n',
        b'data: "\\u202e"\n\n',
        "data: \u202e\U0001f600\n\n".encode(),
        b"data: NaN\n\n",
    ),
    *(
        b"event: a\nevent: b\ndata: 1\n\n",
        b"data: 1\ndata: 2\n\n",
        b"id: 4\ndata: 1\n\n",
        b"event: \ndata: null\n\n",
    ),
    *(
        b"data: " + b"\xc3\xa9" * FRAME_LIMIT + b"\n\n",
        b"data: " + b"[" * 5000 + b"]" * 5000 + b"\n\n",
        b"\xef\xbb\xbf",
    ),
    *(
        b'data: {"a":"\\u003c&"}\n\n',
        b"unended",
        b"x\r\r",
        b"\0\0\0\0",
        b"\x01" * 99 + b"\n\n",
        b"data: -0\n\n",
        b"\n",
    ),
]


LINES = ("content-type", "application/x-ndjson")
BINARY = ("content-type", "application/vnd.amazon.eventstream")
FRAMES += [
    b'{"a": 1}\n',
    b'{"type": "b"}\r\n',
    aws_event("chunk", {"type": "b"}),
    aws_message({}, b"x")[:-1],
]


@given(
    st.lists(st.sampled_from(FRAMES), max_size=8), st.sampled_from(list(PATHS.values())), st.data()
)
def test_a_stream_comes_back_byte_for_byte_and_to_the_microsecond(
    blocks: list[bytes], path: str, data: st.DataObject
) -> None:
    wire = b"".join(blocks)
    cuts = sorted({0, len(wire), *data.draw(st.lists(st.integers(0, len(wire)), max_size=6))})
    types = data.draw(st.sampled_from([STREAM, LINES, BINARY, ("content-type", "text/plain")]))
    batch = told(
        taped(
            *(wire[start:end] for start, end in itertools.pairwise(cuts)),
            path=path,
            headers=[types],
        )
    )
    again = restored(write(batch))
    assert body(again.events) == wire
    assert in_microseconds(again) == in_microseconds(batch)


@pytest.mark.long
@settings(max_examples=50)
@given(exchanges(2), exchanges(3))
def test_whatever_a_recorder_journals_comes_back(first: list[Entry], second: list[Entry]) -> None:
    batch = told([*first, *second])
    again = restored(write(batch))
    assert in_microseconds(again) == in_microseconds(batch)
    for before, after in zip(batch.exchanges, again.exchanges, strict=True):
        row = msgspec.structs.replace(
            before, started_ns=before.started_ns // 1000 * 1000, recorder_id="cassette"
        )
        assert msgspec.structs.astuple(after)[2:] == msgspec.structs.astuple(row)[2:]
    assert write(again).splitlines()[1:] == write(batch).splitlines()[1:]


@given(st.binary(max_size=300), st.binary(max_size=100), st.integers(1, 50))
def test_no_bytes_are_too_odd(wire: bytes, asked: bytes, step: int) -> None:
    batch = told(taped(*(wire[at : at + step] for at in range(0, len(wire), step)), asked=asked))
    assert in_microseconds(restored(write(batch))) == in_microseconds(batch)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, st.booleans(), st.sampled_from([(",", ":"), (", ", ": "), (",", ": ")]))
def test_any_json_of_any_usual_encoder_stands_parsed_or_raw_and_comes_back(
    value: Any, ascii: bool, separators: tuple[str, str]
) -> None:
    payload = json.dumps(value, ensure_ascii=ascii, separators=separators).encode(
        "utf-8", "replace"
    )
    batch = told(taped(b"data: %b\n\n" % payload, asked=payload))
    assert in_microseconds(restored(write(batch))) == in_microseconds(batch)


@pytest.mark.long
@each_stream(corpus_index())
def test_every_stream_of_the_corpus_comes_back(entry: dict[str, Any]) -> None:
    wire = (CORPUS / entry["file"]).read_bytes()
    path = PATHS.get(entry["provider"], "/v1/x")
    batch = told(taped(*(wire[at : at + 700] for at in range(0, len(wire), 700)), path=path))
    assert in_microseconds(restored(write(batch))) == in_microseconds(batch)


@needs_corpus
def test_nearly_all_frames_of_the_corpus_are_written_parsed() -> None:
    written = [line for path in corpus_files() for line in frames_of(path.read_bytes())]
    raw = [line for line in written if ',null,{"raw":' in line and "[DONE]" not in line]
    assert len(raw) < 0.02 * len(written)


# -- made for review


def test_a_cassette_is_read_line_by_line() -> None:
    assert lines_of(b'event: a\ndata: {"type":"a"}\n\n', b": ping\n\ndata: [DONE]\n\n") == [
        '{"recorder_cassette":2,"session":{"name":"run-1","created":"2026-09-21T14:13:20.000000Z",'
        '"source":"prefix","origin":"live"}}',
        '{"exchange":1,"started":"2026-09-21T14:13:20.000000Z","api":"openai-responses",'
        '"about":{"client":"codex_exec","client_version":"0.1"},'
        '"request":{"method":"POST","target":"/v1/responses","upstream":"openai",'
        '"headers":[["user-agent","codex_exec/0.1"],["authorization","REDACTED (51 bytes)"]]},"body":{"model":"m"}}',
        '{"exchange":1,"after":0.000007,"response":{"status":200,"reason":"OK",'
        '"headers":[["content-type","text/event-stream"]]}}',
        '[0.009992,1,"a",{"type":"a"}]',
        '[0.010001,1,null,{"comment":": ping\\n\\n"}]',
        '[0.000000,1,null,{"raw":"data: [DONE]\\n\\n"}]',
        '{"exchange":1,"after":0.000000,"reads":[[0.009999,29],[0.010001,22]]}',
        '{"exchange":1,"after":999.979999,"end":{"status":"incomplete","outcome":"eof"}}',
    ]


VERSION_1 = b"""\
{"recorder_cassette":1,"session":{"name":"demo","created":"2026-09-21T14:13:20.000001Z"}}
{"exchange":1,"started":"2026-09-21T14:13:20Z","api":"anthropic","request":{"method":"POST","target":"/v1/messages",\
"upstream":"anthropic","headers":[]},"body":{"stream": true},"style":{"json":"spaced"}}
{"exchange":1,"after":0.25,"response":{"status":200,"reason":"OK","headers":[["content-type","text/event-stream"]]},\
"framing":{"line_end":"\\r\\n","space":""}}
[0.5,1,"ping",{"type":"ping"},{"pad":2}]
[1,1,null,{"tail":{"base64":"/w=="}}]
{"exchange":1,"after":0,"end":{"status":"truncated","outcome":"truncated"}}
"""


def test_the_first_version_stays_readable() -> None:
    batch = restored(VERSION_1)
    assert body(batch.events) == b'event:ping\r\ndata:{"type":"ping"  }\r\n\r\n\xff'
    assert [(event.kind, event.type, event.t_ns // 10**6) for event in batch.events] == [
        *(
            ("request", None, 0),
            ("request", "body", 0),
            ("response", None, 250),
            ("frame", "ping", 750),
        ),
        *(("tail", None, 1750), ("end", None, 1750)),
    ]
    assert batch.events[1].raw == b'{"stream": true}'
    assert json.loads(batch.events[-1].raw)["body_bytes"] == len(body(batch.events))


@table(
    ("frame", "written"),
    [
        (b'data: {"a": 1, "b": 2}\n\n', 'null,{"a":1,"b":2}]'),
        (b'data: {"a":1}\r\n\r\n', 'null,{"a":1}]'),
        (b'data:{"a":1}\n\n', 'null,{"a":1}]'),
        (b'data: {"a":"\\u003cb\\u003e"}\n\n', 'null,{"a":"<b>"}]'),
        (b'data: {"a":"\\u00e9"}\n\n', 'null,{"a":"\u00e9"}]'),
        (b'data: {"a":1   }\n\n', 'null,{"a":1},{"pad":3}]'),
        (b"event: x\ndata: 1.5\n\n", '"x",1.5]'),
    ],
)
def test_the_framings_of_the_usual_servers_are_known(frame: bytes, written: str) -> None:
    assert [line.partition(",1,")[2] for line in frames_of(frame * 3)] == [written] * 3


@table(
    "payload", [b'{"a":1e5}', b'{"a":1,"a":2}', b'{"raw":"x"}', b'{"tail":1}', b"-0", b'{ "a":1}']
)
def test_a_payload_that_no_framing_gives_back_is_raw(payload: bytes) -> None:
    [line] = frames_of(b"data: %b\n\n" % payload)
    assert json.loads(line)[2:] == [None, {"raw": f"data: {payload.decode()}\n\n"}]


@table("depth", [150, 190, 200, 900, 990, 5000])
def test_nesting_that_some_reader_would_refuse_is_raw(depth: int) -> None:
    batch = told(
        taped(b"data: " + b"[" * depth + b"]" * depth + b"\n\n", asked=b"[" * depth + b"]" * depth)
    )
    written = write(batch)
    assert (b'{"raw":"data: [' in written) == (depth > 192)
    assert in_microseconds(restored(written)) == in_microseconds(batch)


def test_a_line_of_ndjson_is_its_payload() -> None:
    assert frames_of(b'{"a": 1}\n', headers=[LINES]) == ['[0.009992,1,null,{"a":1}]']


def test_one_odd_frame_does_not_choose_the_framing_of_the_others() -> None:
    odd, plain = b'data: {"a": 1}\n\n', b'data: {"b":1}\n\n'
    assert [json.loads(line)[3] for line in frames_of(odd + 3 * plain)][1:] == [{"b": 1}] * 3


def test_what_no_reviewer_would_see_is_escaped() -> None:
    unseen = "\u202e\u200e\x9b\x7f\ufeff\u2028"
    [line] = frames_of(f'data: "{unseen}"\n\n'.encode())
    assert line.isascii()
    assert json.loads(line)[3] == unseen


def test_text_that_would_be_longer_than_base64_is_base64() -> None:
    wire = b"\x01" * 3000
    [line] = frames_of(wire)
    assert list(json.loads(line)[3]["tail"]) == ["base64"]
    assert len(line) < 1.4 * len(wire)


def test_a_changed_frame_makes_no_other_line_a_lie() -> None:
    edited = write(told(taped(b'data: {"a":"old"}\n\n'))).replace(b'"old"', b'"quite another text"')
    batch = restored(edited)
    end = json.loads(batch.events[-1].raw)
    assert (
        end["body_bytes"] == len(body(batch.events)) == len(b'data: {"a":"quite another text"}\n\n')
    )
    assert findings(io.BytesIO(edited)) == []


def test_the_example_of_the_documentation_is_a_cassette_in_its_canonical_form() -> None:
    text = (ROOT / "docs" / "cassettes.md").read_text()
    [example] = re.findall(r'^```json\n(\{"recorder_cassette.*?)^```', text, re.M | re.DOTALL)
    assert b"".join(formatted(io.BytesIO(example.encode()))).decode() == example
    assert findings(io.BytesIO(example.encode())) == []


def test_lines_that_other_tools_wrote_mean_the_same() -> None:
    batch = told(taped(b'event: a\ndata: {"type":"a","n":1}\n\n', b": c\n\n"))
    lines = [json.dumps(json.loads(line)).encode() for line in write(batch).splitlines()]
    respelled = b"\xef\xbb\xbf" + b"\r\n\r\n".join(lines)
    assert in_microseconds(restored(respelled)) == in_microseconds(batch)
    assert b"".join(formatted(io.BytesIO(respelled))) == write(batch)


@given(st.integers(-(10**15), 10**15))
def test_times_are_exact(us: int) -> None:
    assert round(json.loads(seconds(us)) * 1e6) == us


# -- for tests that replay


def test_a_cassette_is_read_without_a_database(tmp_path: Path) -> None:
    batch = told(taped(b'data: {"a":1}\n\n', b"data: 2\n\n", outcome="upstream_reset"))
    path = tmp_path / "turn.sse.jsonl"
    path.write_bytes(write(batch))
    [read] = read_cassette(path)
    live = recording_of(batch.exchanges[0], batch.events)
    pieces = [
        (piece.raw, piece.sequence_number, piece.t_ns // 1000 * 1000) for piece in live.pieces
    ]
    assert [(piece.raw, piece.sequence_number, piece.t_ns) for piece in read.pieces] == pieces
    assert (read.request, read.request_body) == (live.request, live.request_body)
    assert (read.response, read.end) == (live.response, live.end)


def test_reading_says_which_file_and_line_and_what_no_test_should_hold_in_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.sse.jsonl"
    with pytest.raises(NotFoundError, match="no file"):
        read_cassette(path)
    path.write_bytes(VERSION_1.replace(b'"ping",{', b'"ping",{{'))
    with pytest.raises(
        RecorderError, match=f"^The cassette {re.escape(str(path))} cannot be read: line 4 is none"
    ):
        read_cassette(path)
    with path.open("wb") as file:
        file.truncate(CASSETTE_LIMIT + 1)
    with pytest.raises(RecorderError, match="over 256 MiB"):
        read_cassette(path)


# -- what is not a cassette


def changed(at: int, old: str, new: str) -> bytes:
    lines = VERSION_1.decode().splitlines(keepends=True)
    assert old in lines[at - 1]
    lines[at - 1] = lines[at - 1].replace(old, new)
    return "".join(lines).encode()


FAULTS: Sequence[tuple[int, str, str, str]] = [
    (
        1,
        '"recorder_cassette":1',
        '"recorder_cassette":3',
        "version 3 of the format is not known here",
    ),
    (1, '"recorder_cassette":1', '"x":1', "does not begin with"),
    (1, "2026-09-21T14:13:20.000001Z", "yesterday", "yesterday is not an instant"),
    (1, "2026-09-21T14:13:20.000001Z", "9999-09-21T14:13:20Z", "too far from now"),
    (1, '"demo"', '"demo","path":"/etc/passwd"', "unknown field `path`"),
    (1, '"recorder_cassette":1', '"recorder_cassette":1,"x":1', "and nothing else"),
    (2, '"request"', '"about":{"clinet":"x"},"request"', "about has 'clinet'"),
    (2, '"request"', '"about":{"session_id":"x"},"request"', "about has 'session_id'"),
    (2, '"request"', '"about":{"attempt":"x"},"request"', "Expected `int . null`"),
    (4, '{"pad":2}', '{"keys":{"tpye":"x"}}', "unknown field `tpye`"),
    (6, '"status":"truncated"', '"status":"' + r"x\n" * 9999 + '"', r"Invalid enum value 'x\\nx"),
    (4, '{"type":"ping"}', f'"{"x" * (9 << 20)}"', "it has over 8 MiB"),
    (2, '"anthropic","request"', '"latin","request"', "the api 'latin' is not known"),
    (2, '"method":"POST",', "", "missing required field `method`"),
    (2, '"headers":[]', '"headers":[],"file":"x"', "request says 'file'"),
    (2, '"exchange":1', '"exchange":0', "neither an object with the number"),
    (2, '"exchange":1', '"exchange":true', "neither an object with the number"),
    (2, '"spaced"', '"wide"', "Invalid enum value 'wide'"),
    (2, '{"stream": true}', '{"raw":3}', "neither text nor"),
    (3, '"status":200', '"status":"200"', "Expected `int`"),
    (3, '"after":0.25', '"after":"soon"', "soon is not a number of seconds"),
    (3, '"after":0.25', '"after":1e300', "is not a number of seconds"),
    (3, '"after":0.25,', "", "missing required field `after`"),
    (3, '"response"', '"answer"', "it says none of request, response"),
    (4, "[0.5,1,", "[0.5,2,", "it is of exchange 2, whose request does not stand before it"),
    (4, '"ping",', "7,", "an event's name is text or null"),
    (4, '{"pad":2}', f'{{"pad":{PAD_LIMIT + 1}}}', "padded with 0 to 1024"),
    (4, '{"pad":2}', '{"pad":-1}', "padded with 0 to 1024"),
    (4, '{"pad":2}', '{"keys":{"type":"a\\u0000"}}', "no log can hold"),
    (4, '{"pad":2}', '{"keys":{"type":"\\ud800"}}', "no log can hold"),
    (4, '{"pad":2}', f'{{"keys":{{"output_index":{2**70}}}}}', "no log can hold|out of range"),
    (4, '{"type":"ping"}', "NaN", "NaN is not JSON"),
    (4, '{"type":"ping"}', "[" * 200_000 + "]" * 200_000, "nested too deep"),
    (4, '{"type":"ping"}', "[" * 300 + "]" * 300, "nested too deep"),
    (1, '"created"', '"labels":"[]","created"', "labels is not a JSON object"),
    (1, '"demo"', '"a\\u0000b"', "no log can hold"),
    (4, '{"type":"ping"}', f'"{"x" * CONTENT_LIMIT}"', "a row of the log has at most"),
    (4, "[0.5", "<<<<<<< HEAD\n[0.5", "merge conflict"),
    (5, "/w==", "/w=", "its base64 is none"),
    (5, "/w==", "/w\\n==", "its base64 is none"),
    (5, '{"base64":"/w=="}', '"\\ud800"', "surrogates not allowed"),
    (6, '"status":"truncated"', '"status":"fine"', "Invalid enum value 'fine'"),
    (6, "}}\n", '}}\n[0,1,null,{"tail":"x"}]\n', "exchange 1 has ended before it"),
]


@table(("line", "old", "new", "reason"), FAULTS)
def test_what_is_wrong_is_said_with_its_line(line: int, old: str, new: str, reason: str) -> None:
    with pytest.raises(RecorderError, match=reason) as refusal:
        SseJsonl(io.BytesIO(changed(line, old, new)))
    said = str(refusal.value)
    assert said.startswith(f"line {line + new.startswith('}}')} is none of a cassette: ")
    assert "\n" not in said
    assert len(said) < 300


def test_exchanges_stand_one_after_another() -> None:
    header, *exchange = VERSION_1.splitlines(keepends=True)
    second = [
        line.replace(b'"exchange":1', b'"exchange":3').replace(b",1,", b",3,") for line in exchange
    ]
    assert len(restored(b"".join([header, *exchange, *second])).exchanges) == 2
    with pytest.raises(RecorderError, match=r"line 7 .* exchange 1 begins after exchange 1"):
        SseJsonl(io.BytesIO(b"".join([header, *exchange, *exchange])))
    with pytest.raises(RecorderError, match="there is no exchange in it"):
        SseJsonl(io.BytesIO(header))


@given(st.binary(max_size=100), st.integers(0, len(VERSION_1)), st.integers(0, 20))
def test_garbage_is_refused_in_one_sentence_or_read(garbage: bytes, at: int, gone: int) -> None:
    damaged = VERSION_1[:at] + garbage + VERSION_1[at + gone :]
    said = ""
    try:
        restored(damaged)
    except RecorderError as error:
        said = str(error)
    assert "\n" not in said


def test_an_exchange_that_breaks_off_is_ended_with_a_gap() -> None:
    batch = restored(b"".join(VERSION_1.splitlines(keepends=True)[:-1]))
    assert [event.kind for event in batch.events][-2:] == ["gap", "end"]
    assert json.loads(batch.events[-1].raw)["lossless"] is False


def test_a_header_that_somebody_put_in_is_redacted_before_it_reaches_the_log() -> None:
    edited = VERSION_1.replace(b'"headers":[]', b'"headers":[["Authorization","Bearer s3cret"]]')
    edited = edited.replace(b"/v1/messages", b"/v1/messages?key=s3cret")
    batch = restored(edited)
    assert json.loads(batch.events[0].raw)["headers"] == [["Authorization", "REDACTED (13 bytes)"]]
    assert batch.exchanges[0].target == "/v1/messages?key=REDACTED"
    assert b"s3cret" not in b"".join(formatted(io.BytesIO(edited)))


# -- beside it


def test_a_cassette_is_known_by_its_first_line() -> None:
    assert formats(VERSION_1) == ("cassette",)


def test_payloads_are_lines_of_json() -> None:
    long = b'data: {"x":"' + b"y" * FRAME_LIMIT + b'"}\n\n'
    wire = (
        b'event: a\ndata: {"type":\ndata: "a"}\n\n: c\n\n'
        + 2 * long
        + b"data: hello\n\ndata: [DONE]\n\ndata: {"
    )
    batch = told(taped(wire))
    assert [
        line[:13] for line in payload_lines(recording_of(batch.exchanges[0], batch.events))
    ] == [
        *(b'{"type": "a"}', b'{"x":"yyyyyyy', b'{"x":"yyyyyyy', b"[DONE]\n"),
    ]


def test_a_frame_is_taken_apart_only_if_it_has_one_line_of_data() -> None:
    assert parsed(b"data: 1\ndata: 2\n\n") is None
    assert parsed(b'event: a\ndata: {"b":1  }\n\n') == ("a", {"b": 1}, 2)
    assert Framing().raw("a", {"b": 1}, 2) == b'event: a\ndata: {"b":1  }\n\n'


def test_a_file_is_replaced_as_a_whole_while_others_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a.sse.jsonl"
    save(path, [b"old 1\n", b"old 2\n"])
    seen = []

    def lines() -> Iterator[bytes]:
        """Lines that are written one after the other, beyond any buffer."""
        for number in range(3):
            yield b"new %d\n" % number + bytes(2**20)
            seen.append(path.read_bytes())

    with path.open("rb") as reader:
        save(path, lines())
        assert reader.read() == b"old 1\nold 2\n", "who has it open reads on in the old one"
    assert seen == [b"old 1\nold 2\n"] * 3, "nobody sees a part of the new one"
    assert path.read_bytes().startswith(b"new 0\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_stays_as_it_was_when_writing_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.sse.jsonl"
    save(path, [b"old\n"])

    def lines() -> Iterator[bytes]:
        yield bytes(2**20)
        raise RecorderError("An exchange cannot stand in a cassette.")

    with pytest.raises(RecorderError):
        save(path, lines())
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"old\n"
