"""Streams and documents of which only errors and reports of tokens are understood."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.support.facts import captured, folded
from tests.support.tables import table

OPENAI = {"input_tokens": 14, "output_tokens": 4, "total_tokens": 18}
TRANSCRIPTION = {
    "type": "tokens",
    **OPENAI,
    "input_token_details": {"text_tokens": 0, "audio_tokens": 14},
}
IMAGE = {**OPENAI, "input_tokens_details": {"image_tokens": 9, "text_tokens": 5}}
COHERE = {
    "billed_units": {"input_tokens": 1},
    "tokens": {"input_tokens": 1698, "output_tokens": 66},
}
RUN = {
    "prompt_tokens": 381,
    "completion_tokens": 88,
    "total_tokens": 469,
    "prompt_token_details": {"cached_tokens": 7},
}


@table(
    ("event", "counts"),
    [
        (
            {"type": "transcript.text.done", "text": "Hello", "usage": TRANSCRIPTION},
            (14, 4, 18, None, None),
        ),
        ({"type": "image_generation.completed", "usage": IMAGE}, (14, 4, 18, None, None)),
        ({"type": "image_edit.completed", "usage": IMAGE}, (14, 4, 18, None, None)),
        ({"type": "message-end", "delta": {"usage": COHERE}}, (1698, 66, None, None, None)),
        ({"object": "thread.run", "model": "gpt-4o", "usage": RUN}, (381, 88, 469, None, 7)),
        ({"text": "Hello", "usage": {"type": "duration", "seconds": 3}}, None),
        ({"object": "thread.run", "usage": None}, None),
    ],
)
@table("is_stream", [True, False])
def test_tokens_that_are_reported_are_counted(
    event: dict[str, Any], counts: Any, is_stream: bool
) -> None:
    payload = json.dumps(event).encode()
    body, content_type = (b"data: %b\n\ndata: [DONE]\n\n" % payload, "text/event-stream")
    if not is_stream:
        body, content_type = payload, "application/json"
    rows = folded(*captured(body, "other", content_type=content_type))
    [usage] = rows["usage"]
    names = (
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "reasoning_output_tokens",
        "cache_read_input_tokens",
    )
    assert usage.reported == (counts is not None)
    assert tuple(getattr(usage, name) for name in names) == (counts or (None,) * 5)
    assert rows["anomalies"] == []


@table(
    ("data", "kinds"),
    [(b"Hello.", []), (b"50%", []), (b'{"a": ', ["malformed"]), (b"[1, 2", ["malformed"])],
)
def test_text_of_an_unknown_protocol_is_whole_and_half_json_is_not(
    data: bytes, kinds: list[str]
) -> None:
    rows = folded(*captured(b"data: %b\n\n" % data, "other"))
    assert [each.kind for each in rows["anomalies"]] == kinds


def test_an_embedding_has_its_model_and_its_tokens() -> None:
    document = {
        "object": "list",
        "model": "text-embedding-3-small",
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }
    rows = folded(
        *captured(json.dumps(document).encode(), "other", content_type="application/json")
    )
    assert (rows["usage"][0].model, rows["usage"][0].input_tokens) == ("text-embedding-3-small", 8)


@table("is_stream", [True, False])
def test_a_transcription_and_an_image_have_the_model_that_was_asked_for(is_stream: bool) -> None:
    """Their answers do not name it, and without it their tokens have no price."""
    form = httpx.Request(
        "POST", "http://a/b", data={"model": "gpt-4o-transcribe"}, files={"file": b"RIFF"}
    ).read()
    in_json = json.dumps({"prompt": "a cat", "model": "gpt-image-1", "stream": is_stream}).encode()
    answer = json.dumps({"type": "transcript.text.done", "usage": TRANSCRIPTION}).encode()
    body, content_type = answer, "application/json"
    if is_stream:
        body, content_type = b"data: %b\n\n" % answer, "text/event-stream"
    models = []
    for request in (form, in_json, b"--, no form", b"[]"):
        rows = folded(*captured(body, "other", content_type=content_type, request=request))
        models.append((rows["exchanges"][0].request_model, rows["usage"][0].model))
        assert (rows["requests"], rows["parameters"]) == ([], []), "it continues no conversation"
    assert models == [("gpt-4o-transcribe",) * 2, ("gpt-image-1",) * 2, (None, None), (None, None)]


def test_parts_of_the_tokens_have_columns_of_their_own() -> None:
    for report, name, count in (
        (TRANSCRIPTION, "input_audio_tokens", 14),
        (IMAGE, "input_image_tokens", 9),
    ):
        body = json.dumps({"usage": report}).encode()
        [usage] = folded(*captured(body, "other", content_type="application/json"))["usage"]
        assert getattr(usage, name) == count
