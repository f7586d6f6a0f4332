"""The demo upstream against the real SDKs, the catalogue of events, and raw sockets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google.genai import errors as gemini_errors

from recorder.demo.app import App
from recorder.demo.reply import DemoRequest
from recorder.demo.scripts import FunctionCall, Prompt, Refuse, Say, choose
from recorder.demo.server import DemoServer, start
from tests.support.corpus import ROOT
from tests.support.sdks import ASKS, Got

CATALOG = Path(os.environ.get("RECORDER_WIRE", ROOT.parent / "shared" / "wire")) / "events-catalog.json"
PROMPTS = ("hello", "weather", "search", "refuse")
RESPONSES, CHAT, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"
GEMINI = "/v1beta/models/gemini-3.5-flash:streamGenerateContent"


@pytest.fixture
async def demo() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


@pytest.fixture
async def client(demo: DemoServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=demo.base_url) as client:
        yield client


def user(prompt: str, **more: Any) -> dict[str, Any]:
    """A body that Chat Completions, Messages and, for its `input`, Responses take."""
    return {"model": "m", "stream": True, "input": prompt, "messages": [{"role": "user", "content": prompt}], **more}


def events(body: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]


# -- the SDKs


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("ask", ASKS)
async def test_an_sdk_reads_what_the_script_says(demo: DemoServer, ask: str, prompt: str) -> None:
    got = await ASKS[ask](demo.base_url, prompt)
    parts = choose(Prompt(prompt)).parts
    refused = any(isinstance(part, Refuse) for part in parts)
    said = "".join(part.text for part in parts if isinstance(part, Say | Refuse))
    assert got.text == ("" if refused and ask.startswith("gemini") else said)
    assert got.refused == refused
    assert got.calls == [(part.name, part.arguments) for part in parts if isinstance(part, FunctionCall)]
    assert got.usage is not None
    asked, cached, *answered = got.usage
    assert not cached, "too short a prompt for the cache"
    assert None not in (asked, *answered)


def status_of(error: Exception) -> int:
    """The HTTP status in an SDK's exception."""
    return int(getattr(error, "status_code", 0) or getattr(error, "code", 0))


BREAKS: dict[str, type[Exception]] = {
    "openai": openai.APIError,
    "anthropic": anthropic.APIStatusError,
    "gemini": gemini_errors.ServerError,
}
REFUSES: dict[str, type[Exception]] = {
    "openai": openai.APIStatusError,
    "anthropic": anthropic.APIStatusError,
    "gemini": gemini_errors.ClientError,
}


@pytest.mark.parametrize("ask", ASKS)
async def test_an_sdk_raises_when_the_stream_fails(demo: DemoServer, ask: str) -> None:
    with pytest.raises(BREAKS[re.split("[ -]", ask)[0]]) as caught:
        await ASKS[ask](demo.base_url, "fail")
    if "whole" in ask:
        assert status_of(caught.value) >= 500


@pytest.mark.parametrize("ask", [name for name in ASKS if "async" not in name])
async def test_an_sdk_raises_when_the_request_is_refused(demo: DemoServer, ask: str) -> None:
    statuses = {}
    for prompt in ("rate limit", "unauthorized", "bad request"):
        with pytest.raises(REFUSES[re.split("[ -]", ask)[0]]) as caught:
            await ASKS[ask](demo.base_url, prompt)
        statuses[prompt] = status_of(caught.value)
    assert statuses == {"rate limit": 429, "unauthorized": 401, "bad request": 400}


async def test_equal_requests_get_equal_answers_from_a_fresh_server(demo: DemoServer) -> None:
    async def run(url: str) -> Got:
        return await ASKS["openai-responses stream async"](url, "hello")

    async with await start(pace=0) as other, httpx.AsyncClient() as client:
        assert await run(demo.base_url) == await run(other.base_url)
        bodies = [
            (await client.post(url + MESSAGES, json=user("hi"))).content for url in (demo.base_url, other.base_url)
        ]
    assert bodies[0] == bodies[1]


# -- the wire formats


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
async def test_an_answer_to_tool_results_uses_them(client: httpx.AsyncClient, path: str) -> None:
    path = path.replace("streamGenerate", "generate")
    reply = (
        await client.post(path, json={"model": "m", **TOOL_RESULTS[path.replace(":generate", ":streamGenerate")]})
    ).text
    assert "18 degrees" in reply
    assert "21 degrees" in reply
    assert "get_weather" not in reply


@pytest.mark.skipif(not CATALOG.exists(), reason="no catalogue of events: set RECORDER_WIRE to its folder")
@pytest.mark.parametrize("prompt", [*PROMPTS, "fail"])
async def test_every_responses_event_has_its_required_fields(client: httpx.AsyncClient, prompt: str) -> None:
    catalog = json.loads(CATALOG.read_text())
    body = (await client.post(RESPONSES, json=user(prompt, include=["reasoning.encrypted_content"]))).text
    for number, event in enumerate(events(body)):
        nested = {"message"} if event["type"] == "error" else set()
        assert set(catalog["openai-responses"][event["type"]]["required"]) - nested <= event.keys(), event
        assert event["sequence_number"] == number
        if "item" in event:
            assert set(catalog["_openai_output_items"][event["item"]["type"]]["required"]) <= event["item"].keys()
        if "response" in event:
            assert set(catalog["_openai_response_object"]["required"]) <= event["response"].keys()


async def test_responses_deltas_add_up_and_are_obfuscated(client: httpx.AsyncClient) -> None:
    found = events((await client.post(RESPONSES, json=user("hello"))).text)
    deltas = [event for event in found if event["type"] == "response.output_text.delta"]
    done = next(event for event in found if event["type"] == "response.output_text.done")
    assert "".join(event["delta"] for event in deltas) == done["text"]
    assert all((len(event["delta"]) + len(event["obfuscation"])) % 16 == 0 for event in deltas)


async def test_an_error_stream_says_error_and_then_failed(client: httpx.AsyncClient) -> None:
    found = events((await client.post(RESPONSES, json=user("fail"))).text)
    assert [event["type"] for event in found[2:]] == ["error", "response.failed"]
    assert found[2]["error"]["code"] == "server_error"


async def test_chat_shows_reasoning_of_models_that_are_not_openais(client: httpx.AsyncClient) -> None:
    bodies = {name: (await client.post(CHAT, json=user("hello", model=name))).text for name in ("gpt-5.5", "deepseek")}
    assert "reasoning_content" in bodies["deepseek"]
    assert "reasoning_content" not in bodies["gpt-5.5"]
    assert all(body.endswith("data: [DONE]\n\n") for body in bodies.values())


async def test_anthropic_json_is_padded_and_pinged(client: httpx.AsyncClient) -> None:
    body = (await client.post(MESSAGES, json=user("hello"))).text
    assert re.search(r"\}  +\}\n\n", body)
    assert 'event: ping\ndata: {"type": "ping"}\n\n' in body
    assert "signature_delta" in body


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_gemini_ends_lines_with_crlf_and_streams_arrays(client: httpx.AsyncClient, version: str) -> None:
    body = {"contents": [{"parts": [{"text": "hello"}]}]}
    path = GEMINI.replace("v1beta", version)
    sse = (await client.post(f"{path}?alt=sse", json=body)).text
    assert all(block.startswith("data: {") for block in sse.removesuffix("\r\n\r\n").split("\r\n\r\n"))
    array = (await client.post(path, json=body)).json()
    assert array[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize(
    ("headers", "key"), [({}, "data"), ({"anthropic-version": "x"}, "first_id"), ({"x-goog-api-key": "k"}, "models")]
)
async def test_models_are_listed_in_the_shape_of_who_asks(
    client: httpx.AsyncClient, headers: dict[str, str], key: str
) -> None:
    assert key in (await client.get("/v1/models", headers=headers)).json()


BODIES = [
    *(b"", b"{", b"[]", b"{}", b"\xff", b'{"model": "m", "metadata": [1], "reasoning": 5, "stream_options": 7}'),
    *(b'{"model": 1, "input": {"a": [1]}, "messages": 3, "contents": {}}', b'{"model": "m", "thinking": 3}'),
]


async def test_no_body_breaks_the_server(client: httpx.AsyncClient) -> None:
    statuses = {}
    for path, body in product((RESPONSES, CHAT, MESSAGES, GEMINI), BODIES):
        statuses[path, body] = (await client.post(path, content=body)).status_code
    assert {case: status for case, status in statuses.items() if status not in (200, 400)} == {}


async def test_a_stream_takes_two_to_three_seconds_at_pace_one() -> None:
    app = App(lambda: 0.0, 1.0)
    body = json.dumps(user("hello")).encode()
    for path in (RESPONSES, CHAT, MESSAGES):
        times = [step.at_s for step in app.reply(DemoRequest("POST", path, (), body)).steps]
        assert 0.2 <= times[0] <= 0.4
        assert 1.7 <= times[-1] <= 3.3


# -- background responses


async def test_a_resumed_background_stream_has_the_same_bytes(client: httpx.AsyncClient) -> None:
    whole = (await client.post(RESPONSES, json=user("hello", background=True))).content
    response_id = events(whole.decode())[0]["response"]["id"]
    resumed = await client.get(f"{RESPONSES}/{response_id}", params={"stream": "true", "starting_after": "10"})
    assert whole.endswith(resumed.content)
    assert events(resumed.text)[0]["sequence_number"] == 11
    assert (await client.get(f"{RESPONSES}/{response_id}")).json()["status"] == "completed"


async def test_a_cancelled_background_stream_stops() -> None:
    async with await start(pace=1) as demo, httpx.AsyncClient(base_url=demo.base_url) as client:
        async with client.stream("POST", RESPONSES, json=user("hello", background=True)) as stream:
            lines = stream.aiter_lines()
            first = json.loads([await anext(lines), await anext(lines)][1][6:])["response"]
            cancelled = (await client.post(f"{RESPONSES}/{first['id']}/cancel")).json()
            rest = [line async for line in lines]
    assert (first["status"], cancelled["status"]) == ("queued", "cancelled")
    assert not any("response.completed" in line for line in rest)


async def test_an_unknown_response_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{RESPONSES}/resp_none")).status_code == 404
