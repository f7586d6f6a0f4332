"""`recorder.cassettes.ai_sdk`: a `.devtools/generations.json` that @ai-sdk/devtools 0.0.24 wrote,
with ai 6.0.326.

It was made against `python -m tests.support.provider` by `generations.mjs` in
`tests/data/cassettes`: a conversation with a tool, a stream, a document, a stream that the program
left, and a call that nobody answered.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from recorder.cassettes.ai_sdk import NO_REQUEST, Generations
from recorder.cassettes.content import formats
from recorder.errors import RecorderError
from recorder.model.events import Recording
from tests.support.corpus import DATA
from tests.support.tables import table
from tests.unit.cassettes.test_cassettes import imported, recordings

FILE = DATA / "cassettes" / "generations.json"
STEPS: list[dict[str, Any]] = json.loads(FILE.read_bytes())["steps"]


def read(data: bytes = FILE.read_bytes()) -> list[Recording]:
    return recordings(imported(Generations(io.BytesIO(data))))


def with_step(**fields: Any) -> bytes:
    """A file whose second step is changed."""
    return json.dumps({"runs": [], "steps": [STEPS[0], {**STEPS[1], **fields}]}).encode()


def test_it_is_recognized() -> None:
    assert formats(FILE.read_bytes()) == ("ai-sdk",)


def test_steps_are_exchanges_with_the_request_of_the_provider() -> None:
    made = read()
    assert [each.exchange.target for each in made] == [
        "/v1/chat/completions",
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/responses",
        "/v1/messages",
        "/v1/chat/completions",
    ]
    for each, step in zip(made[:5], STEPS, strict=False):
        assert json.loads(each.request_body) == json.loads(step["raw_request"])
    expected = [*4 * ["completed"], "client_disconnect", "upstream_unreachable"]
    assert [each.end and each.end.status for each in made] == expected


def test_payloads_of_events_are_framed_as_their_api_does() -> None:
    chat, _, messages, *_ = read()
    for each, step in ((chat, STEPS[0]), (messages, STEPS[2])):
        payloads = [json.loads(piece.raw.partition(b"data: ")[2]) for piece in each.pieces]
        assert payloads == json.loads(step["raw_chunks"])
    assert messages.pieces[0].raw.startswith(b"event: message_start\ndata: {")
    assert chat.pieces[0].raw.startswith(b"data: {")


def test_a_document_has_the_headers_that_were_stored() -> None:
    document = read()[3]
    assert json.loads(document.body) == json.loads(STEPS[3]["raw_response"])
    assert dict(document.headers)["openai-version"] == "2020-10-01"


def test_times_are_those_of_the_steps() -> None:
    for each, step in zip(read(), STEPS, strict=True):
        assert each.end_ns == step["duration_ms"] * 10**6
        assert {piece.t_ns for piece in each.pieces} <= {each.end_ns}
    assert read()[0].exchange.started_ns % 10**9 == int(STEPS[0]["started_at"][20:23]) * 10**6


def test_a_call_that_failed_has_no_request() -> None:
    failed = imported(Generations(io.BytesIO(FILE.read_bytes()))).events
    gaps = [json.loads(event.raw) for event in failed if event.kind == "gap"]
    assert [(gap["of"], gap["reason"]) for gap in gaps] == [("request", NO_REQUEST)]
    end = read()[5].end
    assert end is not None
    assert end.error == "Cannot connect to API: bad port"


def test_a_step_that_was_never_ended_broke_off() -> None:
    nothing = dict.fromkeys(
        ("duration_ms", "output", "error", "raw_request", "raw_response", "raw_chunks")
    )
    *_, each = read(with_step(**nothing))
    assert each.end is not None
    assert (each.end.outcome, each.has_gap) == ("recorder_crash", True)


@table(
    ("data", "reason"),
    [
        (FILE.read_bytes()[:-10], "^it is not a generations.json of @ai-sdk/devtools: "),
        (b'{"runs":[],"steps":[]}', "^there is no step in it"),
        (
            with_step(started_at="yesterday"),
            "^step 2 is none of @ai-sdk/devtools: yesterday is not an instant",
        ),
        (with_step(raw_request="{"), "^step 2 .*its raw_request is not JSON"),
        (with_step(raw_chunks="{}"), "^step 2 .*its raw_chunks are not an array"),
        (with_step(type="embed"), "^step 2 .*Invalid enum value 'embed'"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(RecorderError, match=reason):
        Generations(io.BytesIO(data))
