"""`recorder.replay.edit`: recorded answers with another text, a call or an error, as linters and
SDKs read them.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

import msgspec
import pytest

from recorder.demo.provider import bundled
from recorder.errors import UsageError
from recorder.lint.linter import lint
from recorder.model.events import WEBSOCKET, Recording, ResponseHead, header
from recorder.replay.edit import Edit, edited, parse_edit
from recorder.wire.recording import recording_of
from recorder.wire.turns import payload_of
from tests.support.aws_messages import aws_event
from tests.support.bedrock import EVENTS as INVOKED
from tests.support.bedrock import (
    KIND,
    anthropic_bedrock,
    aws_client,
    bedrock,
    chunk,
    converse_events,
    message_of,
)
from tests.support.facts import captured
from tests.support.ollama_sdk import CHAT, ollama_answering, ollama_reading
from tests.support.sdks import (
    BASE,
    INTERACTION,
    WAYS,
    answering,
    gemini_client,
    interaction_got,
    interaction_of,
)
from tests.unit.wire.dialects.test_bedrock_converse import EVENTS

TEXT = 'Paris is in „France“,\nand "Rome" is not. ✓'
CALL = {"name": "get_weather", "arguments": {"city": "Zürich", "unit": "celsius"}}
Json = dict[str, Any]
EDITS = {"text": parse_edit(f"2={TEXT}"), "call": parse_edit(f"2.call={json.dumps(CALL)}")}

STREAMS = [each for each in bundled() if len(each.pieces) > 9]  # documents are one piece
DEMO = {each.exchange.api: each for each in reversed(STREAMS)}  # the first of each format
LINES = "application/x-ndjson"


def lines(*texts: str, api: str = "ollama") -> Recording:
    """A stream of Ollama's `/api/chat`."""
    made = {"model": "qwen3", "created_at": "2026-11-28T08:52:19.385406455Z"}
    parts: list[Json] = [
        {**made, "message": {"role": "assistant", "content": text}, "done": False} for text in texts
    ]
    parts.append(
        {
            **made,
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
        }
    )
    parts[-1] |= {"prompt_eval_count": 26, "eval_count": len(texts)}
    body = b"".join(b"%b\n" % json.dumps(part).encode() for part in parts)
    cuts = [at + 1 for at, byte in enumerate(body) if byte == ord("\n")]
    return recording_of(*captured(body, api, content_type=LINES, cuts=cuts))


def of_messages(api: str, frames: list[bytes]) -> Recording:
    """A stream of messages of AWS, each in a read of its own."""
    cuts = [*accumulate(map(len, frames))]
    return recording_of(*captured(b"".join(frames), api, content_type=KIND, cuts=cuts))


DEMO["bedrock-converse"] = of_messages(
    "bedrock-converse", [aws_event(type, payload) for type, payload in EVENTS]
)
DEMO["bedrock-invoke"] = of_messages("bedrock-invoke", [chunk(each) for each in INVOKED])
DEMO["ollama"] = lines(*["It", "is", "not", "here."], *["It", "is", "there."], "✓")

MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": "max_tokens",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 1,
        "cache_read_input_tokens": 0,
        "output_tokens": 2,
        "output_tokens_details": {"thinking_tokens": 0},
    },
}
DOCUMENTS: dict[str, Any] = {
    "openai-responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "incomplete",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 3,
        },
    },
    "openai-chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi"},
                "finish_reason": "length",
            }
        ],
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 2,
            "total_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    },
    "anthropic": MESSAGE,
    "bedrock-invoke": MESSAGE,
    "bedrock-converse": {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
        "stopReason": "max_tokens",
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
        "metrics": {"latencyMs": 1},
    },
    "ollama": {
        "model": "qwen3",
        "created_at": "2026-11-28T08:52:19.385406455Z",
        "message": {"role": "assistant", "content": "Hi"},
        "done": True,
        "done_reason": "length",
        "prompt_eval_count": 1,
        "eval_count": 2,
    },
    "gemini-interactions": {
        "id": "v1_a",
        "object": "interaction",
        "model": "m",
        "status": "incomplete",
        "steps": [{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}],
        "usage": {"total_input_tokens": 1, "total_output_tokens": 2, "total_tokens": 3},
    },
    "gemini": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "Hi"}]},
                "finishReason": "MAX_TOKENS",
                "index": 0,
            }
        ],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
        "modelVersion": "m",
        "responseId": "r",
    },
}


def recorded_again(played: Recording) -> Recording:
    """What is recorded of an edited answer that is played."""
    assert played.response is not None
    kind = header(played.response.headers, "content-type")
    api, request = played.exchange.api, played.request_body
    exchange, events = captured(
        played.body, api, request=request, content_type=kind, status=played.response.status
    )
    return recording_of(exchange, events)


def document(api: str) -> Recording:
    """A recorded document."""
    body = json.dumps(DOCUMENTS[api]).encode()
    return recording_of(*captured(body, api, content_type="application/json"))


def read_whole(api: str, body: bytes) -> tuple[str, list[tuple[str, Any]]]:
    """The text and the calls that the SDK of an API reads in a document."""
    if api == "ollama":
        answer = ollama_reading(ollama_answering(body, "application/json"), CHAT, is_streamed=False)
        return answer.text, answer.calls
    if api == "bedrock-converse":
        with bedrock(document=body) as url, aws_client(url) as client:
            asked = [{"role": "user", "content": [{"text": "x"}]}]
            blocks = client.converse(modelId="m", messages=asked)["output"]["message"]["content"]
        calls = [
            (each["toolUse"]["name"], each["toolUse"]["input"])
            for each in blocks
            if "toolUse" in each
        ]
        return "".join(each.get("text", "") for each in blocks), calls
    if api == "bedrock-invoke":
        way = WAYS["anthropic"]
        with bedrock(document=body) as url, anthropic_bedrock(url) as client:
            got = way.of(way.resource(client).create(**way.asked("x")))
        return got.text, got.calls
    http = answering(body, kind="application/json")
    if api == "gemini":
        said = gemini_client(BASE, "v1beta", httpx_client=http).models.generate_content(
            model="m", contents="x"
        )
        return said.text or "", [(call.name or "", call.args) for call in said.function_calls or ()]
    if api == "gemini-interactions":
        client = gemini_client(BASE, "v1beta", httpx_client=http)
        found = interaction_got(client.interactions.create(**INTERACTION, input="x"))
        return found.text, found.calls
    way = WAYS[api]
    got = way.of(way.resource(way.client(BASE, http_client=http)).create(**way.asked("x")))
    return got.text, got.calls


def read_stream(api: str, body: bytes) -> tuple[str, list[tuple[str, Any]]]:
    """The text and the calls that the SDK of an API reads in a stream."""
    if api == "ollama":
        answer = ollama_reading(ollama_answering(body, LINES), CHAT)
        return answer.text, answer.calls
    if api == "bedrock-converse":
        return of_converse_events(converse_events(body))
    if api == "bedrock-invoke":
        with bedrock(body) as url:
            blocks = message_of(url)["content"]
        used = [(each["name"], each["input"]) for each in blocks if each["type"] == "tool_use"]
        return "".join(each.get("text", "") for each in blocks), used
    http = answering(body)
    if api == "gemini":
        client = gemini_client(BASE, "v1beta", httpx_client=http)
        chunks = list(client.models.generate_content_stream(model="m", contents="x"))
        calls = [call for chunk in chunks for call in chunk.function_calls or ()]
        return "".join(chunk.text or "" for chunk in chunks), [
            (call.name or "", call.args) for call in calls
        ]
    if api == "gemini-interactions":
        client = gemini_client(BASE, "v1beta", httpx_client=http)
        events = interaction_of(client.interactions.create(**INTERACTION, input="x", stream=True))
        return events.text, events.calls
    way = WAYS[api]
    with way.resource(way.client(BASE, http_client=http)).stream(
        **way.asked("x"), **way.options
    ) as stream:
        got = way.of(getattr(stream, way.final)())
    return got.text, got.calls


def of_converse_events(events: list[Any]) -> tuple[str, list[tuple[str, Any]]]:
    deltas = [
        event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event
    ]
    arguments = "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta)
    starts = [
        event["contentBlockStart"]["start"]["toolUse"]
        for event in events
        if "contentBlockStart" in event
    ]
    calls = [(start["name"], json.loads(arguments)) for start in starts]
    return "".join(delta.get("text", "") for delta in deltas), calls


def expected(edit: Edit) -> tuple[str, list[tuple[str, Any]]]:
    return (TEXT, []) if edit.call is None else ("", [(edit.call.name, edit.call.arguments)])


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("api", DOCUMENTS)
def test_an_edited_document_is_read_as_the_new_answer(api: str, edit: Edit) -> None:
    played = edited(document(api), edit)
    assert read_whole(api, played.body) == expected(edit)
    assert [each for each in lint(recorded_again(played)) if each.severity == "error"] == []


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("api", DOCUMENTS)
def test_an_edited_stream_is_clean_and_read_as_the_new_answer(api: str, edit: Edit) -> None:
    played = edited(DEMO[api], edit)
    assert lint(recorded_again(played)) == []
    assert read_stream(api, played.body) == expected(edit)


def test_an_edited_turn_over_websocket_is_a_stream_over_http() -> None:
    recorded = DEMO["openai-responses"]
    request = msgspec.structs.replace(recorded.request, method=WEBSOCKET)
    head = ResponseHead(101, "Switching Protocols", [("Upgrade", "websocket")])
    payloads = [each._replace(raw=payload_of(each.raw) or b"") for each in recorded.pieces]
    turn = msgspec.structs.replace(recorded, request=request, response=head, pieces=payloads)
    played = edited(turn, EDITS["text"])
    assert played.response is not None
    assert played.response.status == 200
    assert read_stream("openai-responses", played.body) == expected(EDITS["text"])


@pytest.mark.parametrize("api", DOCUMENTS)
def test_an_edited_stream_keeps_the_recorded_pace(api: str) -> None:
    recorded = DEMO[api]
    times = [piece.t_ns for piece in edited(recorded, EDITS["text"]).pieces]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (recorded.pieces[0].t_ns, recorded.pieces[-1].t_ns)
    assert len(times) > 5, "it comes in deltas"


@pytest.mark.parametrize("api", DOCUMENTS)
def test_an_edited_status_is_the_error_of_the_format(api: str) -> None:
    played = edited(DEMO[api], parse_edit("1.status=529"))
    assert played.response is not None
    assert played.response.status == 529
    assert "This answer was edited" in str(json.loads(played.body))
    assert [each for each in lint(recorded_again(played)) if each.severity == "error"] == []


def test_a_prompt_of_ollama_has_no_calls() -> None:
    body = b'{"model":"qwen3","created_at":"","response":"Hi","done":true,"done_reason":"stop"}\n'
    recorded = recording_of(*captured(body, "ollama", content_type=LINES))
    assert json.loads(edited(recorded, EDITS["text"]).body.splitlines()[0])["response"]
    with pytest.raises(UsageError, match="has no answer that can be edited"):
        edited(recorded, EDITS["call"])


def test_a_format_that_aws_does_not_speak_cannot_be_edited_in_its_framing() -> None:
    body = aws_event("chunk", {"type": "message_start", "message": {}})
    recorded = recording_of(*captured(body, "anthropic", content_type=KIND))
    with pytest.raises(UsageError, match="has no answer that can be edited"):
        edited(recorded, EDITS["text"])


def test_what_is_not_an_answer_cannot_be_edited() -> None:
    refused = edited(DEMO["anthropic"], parse_edit("1.status=529"))
    for recorded in (
        refused,
        msgspec.structs.replace(DEMO["anthropic"], pieces=()),
        document("openai-chat"),
    ):
        if recorded.exchange.api == "openai-chat":
            recorded = msgspec.structs.replace(recorded, pieces=())
        with pytest.raises(UsageError, match="has no answer that can be edited"):
            edited(recorded, EDITS["text"])


@pytest.mark.parametrize(
    "given",
    [
        "",
        "1",
        "1=",
        "0=x",
        "x=y",
        "1.status=200",
        "1.status=",
        "1.call={}",
        "1.call=no",
        '1.call={"name":"a"}',
        "1.tool=x",
    ],
)
def test_what_is_not_an_edit_is_one_sentence(given: str) -> None:
    with pytest.raises(ValueError, match=r"write N=TEXT, N\.call="):
        parse_edit(given)
