"""The status of an exchange is the worst that its connection, its events and its response say, and
fits its error.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.model.events import EndRecord
from recorder.projections.fold import Folding
from recorder.projections.rows import ExchangeRow
from tests.support.corpus import corpus_files, needs_corpus
from tests.support.facts import EXCHANGE, PATHS, captured, folded
from tests.support.tables import table

RESPONSES, CHAT, ANTHROPIC, GEMINI = "openai-responses", "openai-chat", "anthropic", "gemini"
WELL = ("completed", "incomplete")


def stream(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)


def row(body: bytes, api: str, **how: Any) -> ExchangeRow:
    found: list[ExchangeRow] = folded(*captured(body, api, **how))["exchanges"]
    return found[0]


def chunk(choice: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": {"content": "a"}, **(choice or {})}]
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": choices, **more}


def response(step: str, status: str | None, **more: Any) -> dict[str, Any]:
    return {
        "type": f"response.{step}",
        "response": {"id": "r", "output": [], "status": status, **more},
    }


STOP = chunk({"finish_reason": "stop"})
HI = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
DOCUMENT = {"content_type": "application/json"}
BUSY = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}

WORD = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
MINIMAX = {"base_resp": {"status_code": 1004, "status_msg": "no login"}}

FAILED: dict[str, tuple[str, bytes, dict[str, Any], str | None]] = {
    "choice": (
        CHAT,
        stream(chunk(), chunk({"error": {"code": 502, "message": "cut off"}})),
        {},
        "cut off",
    ),
    "vendor's fields in a choice": (
        CHAT,
        stream(chunk({"error_msg": "cut off"}), STOP),
        {},
        "cut off",
    ),
    "reason": (CHAT, stream(chunk(), chunk({"finish_reason": "error"})), {}, None),
    "after the end": (
        CHAT,
        stream(chunk(), STOP, {"error": "late"}) + b"data: [DONE]\n\n",
        {},
        "late",
    ),
    "vendor's fields": (
        CHAT,
        stream(chunk(choices=None, error_message="too long", error_code=400)),
        {},
        "too long",
    ),
    "beside a usual text": (
        CHAT,
        stream(chunk(), chunk({"error_msg": "cut off"}), STOP),
        {},
        "cut off",
    ),
    "beside a usual text of another API": (ANTHROPIC, stream({**WORD, **MINIMAX}), {}, "no login"),
    "envelope as a document": (
        ANTHROPIC,
        b'{"code":"InvalidApiKey","message":"bad key"}',
        DOCUMENT,
        "bad key",
    ),
    "beside a text": (CHAT, stream(chunk(), chunk(error_message="too long"), STOP), {}, "too long"),
    "MiniMax": (CHAT, stream(MINIMAX), {}, "no login"),
    "envelope": (
        CHAT,
        stream({"code": "BadKey", "message": "Invalid key", "request_id": "1"}),
        {},
        "Invalid key",
    ),
    "no success": (CHAT, stream({"success": False, "msg": "gone", "code": 0}), {}, "gone"),
    "errors": (CHAT, stream({"errors": [{"message": "first"}]}), {}, "first"),
    "errors of another API": (ANTHROPIC, stream({"errors": [{"message": "first"}]}), {}, "first"),
    "array": (CHAT, json.dumps([BUSY]).encode(), DOCUMENT, "overloaded"),
    "array in a stream": (RESPONSES, stream([BUSY]), {}, "overloaded"),
    "array of answers": (GEMINI, json.dumps([HI, BUSY]).encode(), DOCUMENT, "overloaded"),
    "no message": (CHAT, stream({"error": {"kind": "x"}}), {}, '{"kind":"x"}'),
    "completed, and failed": (
        RESPONSES,
        stream(response("completed", "failed", error={"message": "m"})),
        {},
        "m",
    ),
    "document": (
        RESPONSES,
        b'{"id":"r","output":[],"status":"failed","error":{"message":"m"}}',
        DOCUMENT,
        "m",
    ),
    "the client left": (
        CHAT,
        stream(chunk({"error": {"message": "m"}})),
        {"outcome": "client_disconnect"},
        "m",
    ),
}


@table("case", FAILED)
def test_an_error_wherever_it_stands_is_a_failure(case: str) -> None:
    api, body, how, error = FAILED[case]
    found = row(body, api, **how)
    assert (found.status, found.error) == ("failed", error)


@table(
    ("step", "said", "status"),
    [
        ("completed", "incomplete", "incomplete"),
        ("incomplete", "completed", "incomplete"),
        ("completed", "cancelled", "incomplete"),
        ("failed", "completed", "failed"),
        ("completed", "completed", "completed"),
        ("completed", None, "completed"),
    ],
)
def test_the_status_is_the_worse_of_event_and_response(
    step: str, said: str | None, status: str
) -> None:
    assert row(stream(response(step, said)), RESPONSES).status == status


PAGE = b"<html><head><title>502 Bad &amp; Gateway</title><style>p{}</style></head><body><p>nginx</p></body></html>"
EVENTS = "text/event-stream"
REFUSED: dict[str, tuple[str, bytes, str, str]] = {
    "text": (CHAT, b"Too many requests\r\n", "text/plain", "Too many requests"),
    "text of no type": (ANTHROPIC, b"Too many requests", "", "Too many requests"),
    "after a time to wait": (
        CHAT,
        b'retry: 3000\n\ndata: {"error":{"message":"Busy"}}\n\n',
        EVENTS,
        "Busy",
    ),
    "text as a stream": (RESPONSES, b"Too many requests", EVENTS, "Too many requests"),
    "lines as a stream": (GEMINI, b"Too many\nrequests\n\n", EVENTS, "Too many requests"),
    "page": (GEMINI, PAGE, "text/html", "502 Bad & Gateway"),
    "page without a title": (
        CHAT,
        b"<!doctype html><body><h1>Bad</h1>gateway</body>",
        "text/html",
        "Bad gateway",
    ),
    "JSON of another API": (ANTHROPIC, b'{"detail":"Not Found"}', "application/json", "Not Found"),
    "JSON of nobody": (GEMINI, b'{"x":1}', "application/json", '{"x":1}'),
    "JSON text": (RESPONSES, b'"no"', "application/json", "no"),
    "details": (CHAT, b'{"detail":[{"loc":["body"]}]}', "application/json", '[{"loc":["body"]}]'),
    "no API": ("other", b"no such place", "text/plain", "no such place"),
}


@table("case", REFUSED)
def test_whatever_stands_under_the_status_of_an_error_is_the_error(case: str) -> None:
    api, body, content_type, error = REFUSED[case]
    found = folded(*captured(body, api, content_type=content_type, status=429))
    [one] = found["exchanges"]
    assert (one.status, one.error) == ("error_status", error)
    assert "malformed" not in [anomaly.kind for anomaly in found["anomalies"]]


def test_a_connection_that_breaks_behind_the_last_event_is_no_error_of_the_response() -> None:
    exchange, events = captured(
        stream(response("completed", "completed")), RESPONSES, outcome="upstream_reset"
    )
    end = msgspec.structs.replace(
        msgspec.json.decode(events[-1].raw, type=EndRecord), error="reset by peer"
    )
    events[-1] = msgspec.structs.replace(events[-1], raw=msgspec.json.encode(end))
    [found] = folded(exchange, events)["exchanges"]
    assert (found.status, found.error) == ("completed", None)


# what cannot be read

ID = b'data: {"id":"c1","object":"chat.completion.chunk","choices":[]}\n\n'
UNREAD: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "no event": (CHAT, b"", {}, "unreadable"),
    "comments": (CHAT, b": ping\n\n", {}, "unreadable"),
    "the mark of the end": (CHAT, b"data: [DONE]\n\n", {}, "unreadable"),
    "half an event": (GEMINI, b'data: {"candid', {}, "unreadable"),
    "events of nobody": (GEMINI, b"data: {}\n\n", {}, "unreadable"),
    "no body": (ANTHROPIC, b"", DOCUMENT, "unreadable"),
    "left at the mark": (CHAT, b"data: [DONE]\n\n", {"outcome": "client_disconnect"}, "unreadable"),
    "null": (RESPONSES, b"null", DOCUMENT, "malformed"),
    "a page": (CHAT, b"<html>Log in</html>", {"content_type": "text/html"}, "malformed"),
    "half a document": (ANTHROPIC, b'{"content":[{"type":"te', DOCUMENT, "malformed"),
    "half an array": (GEMINI, json.dumps([HI, HI]).encode()[:-4], DOCUMENT, "malformed"),
    "not in its coding": (CHAT, b"\xff" * 9, {"coding": "br"}, "unreadable"),
    "half of its coding": (CHAT, gzip.compress(ID * 9)[:-12], {"coding": "gzip"}, "unreadable"),
}


@table("case", UNREAD)
def test_what_cannot_be_read_is_not_completed_and_not_without_an_anomaly(case: str) -> None:
    api, body, how, kind = UNREAD[case]
    found = folded(*captured(body, api, **how))
    assert found["exchanges"][0].status == "incomplete"
    assert kind in [anomaly.kind for anomaly in found["anomalies"]]


READ: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "no choice": (CHAT, b'{"object":"chat.completion","choices":[]}', DOCUMENT),
    "no content": (ANTHROPIC, b'{"id":"m","content":[],"stop_reason":"end_turn"}', DOCUMENT),
    "in the background": (
        RESPONSES,
        b'{"id":"r","object":"response","status":"queued","output":[]}',
        DOCUMENT,
    ),
    "only usage": (GEMINI, b'{"usageMetadata":{"totalTokenCount":1}}', DOCUMENT),
    "moved": (CHAT, b"", {"status": 307}),
    "of nobody": ("other", b"", DOCUMENT),
    "no errors": (
        "other",
        b'{"object":"batch","status":"completed","errors":{"object":"list","data":[]}}',
        DOCUMENT,
    ),
    "a blank error": (
        "other",
        b'{"status":"running","error":{"code":null,"param":null,"message":null}}',
        DOCUMENT,
    ),
}


@table("case", READ)
def test_an_answer_without_words_is_an_answer(case: str) -> None:
    api, body, how = READ[case]
    found = folded(*captured(body, api, **how))
    assert found["exchanges"][0].status == "completed"
    assert found["anomalies"] == []


def test_a_coding_that_is_cut_behind_the_last_event_leaves_a_response_complete() -> None:
    body = gzip.compress(stream(STOP) + b"data: [DONE]\n\n", 0)
    found = folded(*captured(body[:-3], CHAT, coding="gzip"))
    assert found["exchanges"][0].status == "completed"
    assert [anomaly.kind for anomaly in found["anomalies"]] == ["unreadable"]


def test_usage_is_whole_where_a_mark_of_the_end_came() -> None:
    body = stream(chunk(), chunk(choices=[], usage={"total_tokens": 3}))
    for end, is_partial in ((b"data: [DONE]\n\n", False), (b"", True)):
        assert folded(*captured(body + end, CHAT))["usage"][0].partial == is_partial


# whatever the stream

STREAMS: dict[str, list[Any]] = {
    CHAT: [
        chunk(),
        chunk(choices=[], usage={"total_tokens": 3}),
        STOP,
        {"error": {"message": "m"}},
    ],
    RESPONSES: [
        response("created", "in_progress"),
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "delta": "Hi",
        },
        {"type": "error", "message": "m", "code": "c"},
        response("failed", "failed", error={"message": "m"}),
        response("completed", "completed"),
    ],
    ANTHROPIC: [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        WORD,
        {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
        {"type": "message_stop"},
    ],
    GEMINI: [HI, {**HI, "usageMetadata": {"totalTokenCount": 3}}, BUSY, [BUSY], {"response": HI}],
    "other": [{"type": "done"}, {"error": "x"}, {"message": "hello"}],
}
MEMBERS = (
    "error",
    "errors",
    "error_message",
    "base_resp",
    "status",
    "type",
    "message",
    "code",
    "choices",
    "response",
)
TEXTS = ("x", "failed", "completed")
OTHERS: tuple[Any, ...] = (None, 7, True, [], {})
VALUES: tuple[Any, ...] = (*TEXTS, *OTHERS, [{"error": "x"}], {"message": "m"}, {"status_code": 1})
OUTCOMES = ("eof", "client_disconnect", "truncated", "upstream_reset")
TYPES = ("text/event-stream", "application/json", "text/plain")


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in JSON, itself included."""
    if isinstance(value, dict):
        yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from objects(each)


def mutated(blocks: Sequence[bytes], dice: random.Random) -> bytes:
    """A stream of which one payload has another member, and which is perhaps shortened or shuffled."""
    changed = list(blocks)
    at = dice.randrange(len(changed))
    data = changed[at].partition(b"data:")[2]
    try:
        payload = json.loads(data)
    except ValueError:
        payload = {}
    places = [*objects(payload)] or [{}]
    dice.choice(places)[dice.choice(MEMBERS)] = dice.choice(VALUES)
    changed[at] = b"data: " + json.dumps(payload).encode() + b"\n\n"
    if dice.random() < 0.3:
        dice.shuffle(changed)
    body = b"".join(changed)
    return body[: dice.randrange(len(body) + 1)] if dice.random() < 0.3 else body


def assert_fits(body: bytes, api: str, dice: random.Random) -> None:
    status, outcome, content_type = (
        dice.choice((200, 200, 429)),
        dice.choice(OUTCOMES),
        dice.choice(TYPES),
    )
    found = row(body, api, status=status, outcome=outcome, content_type=content_type)
    assert found.error is None or found.status not in WELL, (found.status, found.error, body)


@pytest.mark.long
@table("api", STREAMS)
def test_no_error_stands_beside_a_status_that_is_well(api: str) -> None:
    dice = random.Random(api)
    blocks = [stream(payload) for payload in STREAMS[api]]
    for _ in range(400):
        assert_fits(mutated(blocks, dice), api, dice)


@pytest.mark.long
@needs_corpus
@table("path", corpus_files())
def test_no_error_stands_beside_a_status_that_is_well_in_real_streams(path: Path) -> None:
    dice = random.Random(path.name)
    api = {"openai-completions": "openai-chat"}.get(path.parent.name, path.parent.name)
    api = api if api in PATHS else "other"
    body = path.read_bytes()
    assert_fits(body, api, dice)
    blocks = [block + b"\n\n" for block in body.replace(b"\r\n", b"\n").split(b"\n\n") if block]
    for _ in range(8 if len(body) < 100_000 else 1):
        assert_fits(mutated(blocks, dice), api, dice)


def test_the_exchange_that_resumes_a_response_has_a_status_of_its_own() -> None:
    _, before = captured(
        stream(response("created", "in_progress"), {"type": "error", "message": "m"}), RESPONSES
    )
    exchange = msgspec.structs.replace(EXCHANGE, resumes_response_id="r", resumes_after=1)
    _, events = captured(stream(response("completed", "completed")), exchange=exchange)
    folding = Folding(exchange)
    for event in before:
        folding.recall(event)
    for event in events:
        folding.apply(event)
    [found] = folding.rows()["exchanges"]
    assert (found.status, found.error) == ("completed", None)
