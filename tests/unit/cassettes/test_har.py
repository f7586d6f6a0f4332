"""`recorder.cassettes.har.reader`: what a browser saved, as exchanges."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recorder.cassettes.content import formats
from recorder.cassettes.har.reader import Har
from recorder.cassettes.har.writer import har_lines as har_of
from recorder.errors import RecorderError
from recorder.ingest.pending import Batch
from recorder.model.events import BODY_KINDS, Outcome
from recorder.wire.recording import recording_of
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import OUTCOMES, body, imported, told
from tests.unit.cassettes.test_sse_jsonl import taped

STREAM = 'event: a\ndata: {"type":"a"}\n\n: c\n\ndata: 2\n\n'
BLOCKS = [
    b'data: {"a":1}\n\n',
    b": c\n\n",
    b"event: a\r\ndata: 1\r\ndata: 2\r\n\r\n",
    b"data: \xff\n\n",
    b"id: 4\n\n",
]
STARTED_S = 1_790_000_000  # 2026-09-21T14:13:20Z
MESSAGES = [
    {"time": STARTED_S + 1.5, "eventName": "a", "eventId": "", "data": '{"type":"a"}'},
    {"time": STARTED_S + 2.25, "eventName": "message", "eventId": "7", "data": "2\n3"},
]


def call(**given: Any) -> dict[str, Any]:
    """An entry as Chrome saves it."""
    request = {
        "method": "POST",
        "url": "https://api.openai.com/v1/responses?key=s3cret",
        "headers": [
            {"name": ":authority", "value": "x"},
            {"name": "Authorization", "value": "Bearer s3cret"},
        ],
        "postData": {"mimeType": "application/json", "text": '{"model":"m"}'},
    }
    headers = [
        {"name": "content-type", "value": "text/event-stream"},
        {"name": "content-encoding", "value": "br"},
    ]
    content = {"size": 9, "mimeType": "text/event-stream", "text": STREAM}
    response = {
        "status": 200,
        "statusText": "OK",
        "httpVersion": "h2",
        "headers": headers,
        "content": content,
    }
    return {
        "startedDateTime": "2026-09-21T14:13:20.000Z",
        "time": 3000.5,
        "timings": {
            "blocked": -1,
            "dns": 10,
            "connect": 20,
            "ssl": 15,
            "send": 1,
            "wait": 219,
            "receive": 2750,
        },
        "request": request | given.get("request", {}),
        "response": response | given.get("response", {}),
        **given.get("entry", {}),
    }


def har(*calls: dict[str, Any]) -> bytes:
    return json.dumps({"log": {"version": "1.2", "creator": {}, "entries": calls}}).encode()


def read(*calls: dict[str, Any]) -> Batch:
    return imported(Har(io.BytesIO(har(*calls))))


def times(batch: Batch) -> list[tuple[bytes, int]]:
    """The pieces of the body, with the millisecond that each came at."""
    return [(event.raw, event.t_ns // 10**6) for event in batch.events if event.kind in BODY_KINDS]


@table(
    ("response", "is_whole"),
    [
        ({"content": {"size": 348, "mimeType": "text/event-stream"}}, False),
        ({"content": {"size": 0, "mimeType": "text/event-stream"}}, False),
        ({"content": {"size": -1, "mimeType": "application/json"}}, False),
        ({"content": {"mimeType": "application/json"}, "bodySize": 7}, False),
        ({"content": {"size": 0, "mimeType": "application/json"}}, True),
        ({"content": {"size": 0, "mimeType": "text/event-stream", "text": ""}}, True),
        ({"content": {"size": 9, "mimeType": "application/json"}, "status": 304}, True),
    ],
)
def test_a_body_that_the_file_does_not_have_is_a_gap(
    response: dict[str, Any], is_whole: bool
) -> None:
    batch = read(call(response=response))
    [each] = [recording_of(exchange, batch.events) for exchange in batch.exchanges]
    assert each.end is not None
    assert each.end.lossless == is_whole
    assert len(each.gaps) == (not is_whole)


def test_a_body_is_kept_as_it_was_saved_and_came_with_its_last_byte() -> None:
    batch = read(call())
    assert body(batch.events) == STREAM.encode()
    assert {at_ms for _, at_ms in times(batch)} == {3000}
    [exchange] = batch.exchanges
    assert (exchange.api, exchange.provider, exchange.started_ns) == (
        "openai-responses",
        "openai",
        STARTED_S * 10**9,
    )
    heads = {
        event.kind: (event.t_ns // 10**6, event.raw) for event in batch.events if event.type is None
    }
    assert heads["response"][0] == 250
    assert json.loads(heads["response"][1])["headers"] == [["content-type", "text/event-stream"]]
    assert batch.events[1].raw == b'{"model":"m"}'
    assert json.loads(batch.events[-1].raw)["lossless"] is True


FIRST = (b'event: a\ndata: {"type":"a"}\n\n', 1500)


@table(
    ("response", "expected"),
    [
        ({}, [FIRST, (b": c\n\n", 1500), (b"data: 2\n\n", 2250)]),
        ({"content": {}}, [FIRST, (b"id: 7\ndata: 2\ndata: 3\n\n", 2250)]),
    ],
)
def test_event_source_messages_time_the_body_or_stand_in_for_one_that_was_not_saved(
    response: dict[str, Any], expected: list[tuple[bytes, int]]
) -> None:
    assert (
        times(read(call(entry={"_eventSourceMessages": MESSAGES}, response=response))) == expected
    )


def test_messages_that_are_not_those_of_the_body_do_not_time_it() -> None:
    batch = read(call(entry={"_eventSourceMessages": MESSAGES[:1]}))
    assert body(batch.events) == STREAM.encode()
    assert {at_ms for _, at_ms in times(batch)} == {3000}


def test_only_streams_and_calls_of_known_apis_are_taken() -> None:
    page = call(
        request={"url": "https://x.test/"},
        response={"content": {"mimeType": "text/html", "text": "<p>"}},
    )
    stream = call(request={"url": "https://x.test/feed"})
    document = call(
        response={"content": {"mimeType": "application/json", "text": "{}"}, "headers": []}
    )
    batch = read(page, stream, document)
    assert [exchange.target for exchange in batch.exchanges] == [
        "/feed",
        "/v1/responses?key=REDACTED",
    ]
    with pytest.raises(RecorderError, match="no event stream or WebSocket in it"):
        Har(io.BytesIO(har(page)))


@pytest.mark.parametrize(
    ("response", "outcome", "kinds"),
    [
        ({"_error": "net::ERR_ABORTED"}, "client_disconnect", "response"),
        ({"_error": "net::ERR_INCOMPLETE_CHUNKED_ENCODING"}, "upstream_reset", "response"),
        (
            {"_error": "net::ERR_CONNECTION_REFUSED", "status": 0, "content": {}},
            "upstream_unreachable",
            "end",
        ),
    ],
)
def test_a_call_that_failed_has_failed(response: dict[str, Any], outcome: str, kinds: str) -> None:
    events = read(call(response=response)).events
    assert json.loads(events[-1].raw)["outcome"] == outcome
    assert events[2].kind == kinds


def test_bytes_that_are_no_text_are_in_base64() -> None:
    content = {
        "text": b64encode(b"data: \xff\n\n").decode(),
        "encoding": "base64",
        "mimeType": "text/event-stream",
    }
    assert body(read(call(response={"content": content})).events) == b"data: \xff\n\n"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"startedDateTime": "now"}, "now is not an instant"),
        ({"startedDateTime": "2026-09-21T14:13:20"}, "is not an instant"),
        ({"response": {}}, "missing required field `status`"),
        (
            {"response": {"status": 200, "content": {"text": "x", "encoding": "base64"}}},
            "the base64 of a body is none",
        ),
    ],
)
def test_what_is_no_har_is_refused_in_one_sentence(bad: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecorderError, match=f"^it is not a HAR 1.2: .*{reason}"):
        Har(io.BytesIO(har(call(entry=bad))))


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
def test_no_time_and_no_event_is_too_odd(time: float, at: float, data: str) -> None:
    messages = [{"time": at, "eventName": data, "eventId": data, "data": data}, {"data": data}]
    batch = read(
        call(entry={"time": time, "_eventSourceMessages": messages}, response={"content": {}})
    )
    came = [event.t_ns for event in batch.events if event.kind in BODY_KINDS]
    assert came == sorted(came)


def test_no_secret_comes_along() -> None:
    batch = read(call())
    assert not any(b"s3cret" in event.raw for event in batch.events)
    assert batch.exchanges[0].target == "/v1/responses?key=REDACTED"
    assert b":authority" not in batch.events[0].raw


def test_a_har_is_known_by_its_beginning() -> None:
    assert formats(b'{\n  "log": {\n    "version": "1.2",') == ("har",)
    assert formats(har(call())) == ("har",)


# -- and out


@given(st.lists(st.sampled_from(BLOCKS), max_size=6), st.sampled_from(OUTCOMES))
def test_what_is_exported_comes_back_with_its_times(blocks: list[bytes], outcome: Outcome) -> None:
    batch = told(taped(*blocks, outcome=outcome))
    document = b"".join(har_of([recording_of(batch.exchanges[0], batch.events)]))
    again = imported(Har(io.BytesIO(document)))
    assert body(again.events) == body(batch.events)
    before, after = (
        [event for event in each.events if event.kind == "frame" and b"data" in event.raw]
        for each in (batch, again)
    )
    for was, came in zip(before, after, strict=True):
        assert abs(was.t_ns - came.t_ns) < 2_000
    assert again.exchanges[0].target == batch.exchanges[0].target


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost:9", "[::1]:1"])
def test_an_export_names_the_upstream_and_not_the_recorder(host: str) -> None:
    batch = told(taped(b"data: 2\n\n"))
    made = recording_of(batch.exchanges[0], batch.events)
    made = replace(made, request=replace(made.request, headers=[("host", host)]))
    [entry] = json.loads(b"".join(har_of([made])))["log"]["entries"]
    assert entry["request"]["url"] == "https://api.openai.com/v1/responses"


def test_an_export_has_what_har_demands() -> None:
    batch = told(taped(b"event: a\nid: 1\ndata: 2\n\n", path="/v1/responses?beta=1"))
    [entry] = json.loads(b"".join(har_of([recording_of(batch.exchanges[0], batch.events)])))["log"][
        "entries"
    ]
    assert entry["request"]["url"] == "https://api.openai.com/v1/responses?beta=1"
    assert entry["request"]["queryString"] == [{"name": "beta", "value": "1"}]
    assert entry["request"]["postData"]["text"] == '{"model":"m"}'
    assert entry["response"]["content"]["text"] == "event: a\nid: 1\ndata: 2\n\n"
    [message] = entry["_eventSourceMessages"]
    assert (message["eventName"], message["eventId"], message["data"]) == ("a", "1", "2")
    assert entry.keys() >= {"startedDateTime", "time", "request", "response", "cache", "timings"}
