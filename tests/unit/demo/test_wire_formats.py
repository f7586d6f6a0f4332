"""What the demo answers in each wire format, against the catalogue of events and what the services do."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest

from recorder.demo.app import App
from recorder.demo.reply import DemoRequest
from tests.support.demo import Demo, events, user

RESPONSES, CHAT, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"
GEMINI = "/v1beta/models/gemini-3.5-flash:streamGenerateContent"


@pytest.fixture
def client() -> Demo:
    return Demo()


TOOL_RESULTS: dict[str, dict[str, Any]] = {
    RESPONSES: {"input": [{"role": "user", "content": "weather"}, {"type": "function_call", "call_id": "c"}]
                + [{"type": "function_call_output", "call_id": "c", "output": f"{n} degrees"} for n in (18, 21)]},
    CHAT: {"messages": [{"role": "user", "content": "weather"}, {"role": "assistant", "tool_calls": []}]
           + [{"role": "tool", "tool_call_id": "c", "content": f"{n} degrees"} for n in (18, 21)]},
    MESSAGES: {"messages": [{"role": "user", "content": "weather"}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c", "content": f"{n} degrees"} for n in (18, 21)]}]},
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": "weather"}]}, {"role": "user", "parts": [
        {"functionResponse": {"name": "get_weather", "response": {"result": f"{n} degrees"}}} for n in (18, 21)]}]},
}  # fmt: skip


@pytest.mark.parametrize("path", TOOL_RESULTS)
def test_an_answer_to_tool_results_uses_them(client: Demo, path: str) -> None:
    path = path.replace("streamGenerate", "generate")
    reply = (client.post(path, {"model": "m", **TOOL_RESULTS[path.replace(":generate", ":streamGenerate")]})).text
    assert "18 degrees" in reply
    assert "21 degrees" in reply
    assert "get_weather" not in reply


def test_responses_deltas_add_up_and_are_obfuscated(client: Demo) -> None:
    found = events(client.post(RESPONSES, user("hello")).text)
    deltas = [event for event in found if event["type"] == "response.output_text.delta"]
    done = next(event for event in found if event["type"] == "response.output_text.done")
    assert "".join(event["delta"] for event in deltas) == done["text"]
    assert all((len(event["delta"]) + len(event["obfuscation"])) % 16 == 0 for event in deltas)


def test_an_error_stream_says_error_and_then_failed(client: Demo) -> None:
    found = events(client.post(RESPONSES, user("fail")).text)
    assert [event["type"] for event in found[2:]] == ["error", "response.failed"]
    assert found[2]["error"]["code"] == "server_error"


def test_chat_shows_reasoning_of_models_that_are_not_openais(client: Demo) -> None:
    bodies = {name: client.post(CHAT, user("hello", model=name)).text for name in ("gpt-5.5", "deepseek")}
    assert "reasoning_content" in bodies["deepseek"]
    assert "reasoning_content" not in bodies["gpt-5.5"]
    assert all(body.endswith("data: [DONE]\n\n") for body in bodies.values())


def test_anthropic_json_is_padded_and_pinged(client: Demo) -> None:
    body = client.post(MESSAGES, user("hello")).text
    assert re.search(r"\}  +\}\n\n", body)
    assert 'event: ping\ndata: {"type": "ping"}\n\n' in body
    assert "signature_delta" in body


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_gemini_ends_lines_with_crlf_and_streams_arrays(client: Demo, version: str) -> None:
    body = {"contents": [{"parts": [{"text": "hello"}]}]}
    path = GEMINI.replace("v1beta", version)
    sse = client.post(f"{path}?alt=sse", body).text
    assert all(block.startswith("data: {") for block in sse.removesuffix("\r\n\r\n").split("\r\n\r\n"))
    array = client.post(path, body).json()
    assert array[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize(
    ("headers", "key"), [({}, "data"), ({"anthropic-version": "x"}, "first_id"), ({"x-goog-api-key": "k"}, "models")]
)
def test_models_are_listed_in_the_shape_of_who_asks(client: Demo, headers: dict[str, str], key: str) -> None:
    assert key in client.get("/v1/models", headers=headers).json()


BODIES = [
    *(b"", b"{", b"[]", b"{}", b"\xff", b'{"model": "m", "metadata": [1], "reasoning": 5, "stream_options": 7}'),
    *(b'{"model": 1, "input": {"a": [1]}, "messages": 3, "contents": {}}', b'{"model": "m", "thinking": 3}'),
]


def test_no_body_breaks_the_server(client: Demo) -> None:
    statuses = {}
    for path, body in product((RESPONSES, CHAT, MESSAGES, GEMINI), BODIES):
        statuses[path, body] = client.post(path, body).status_code
    assert {case: status for case, status in statuses.items() if status not in (200, 400)} == {}


def test_a_stream_takes_two_to_three_seconds_at_pace_one() -> None:
    app = App(lambda: 0.0, 1.0)
    body = json.dumps(user("hello")).encode()
    for path in (RESPONSES, CHAT, MESSAGES):
        times = [step.at_s for step in app.reply(DemoRequest("POST", path, (), body)).steps]
        assert 0.2 <= times[0] <= 0.4
        assert 1.7 <= times[-1] <= 3.3
