"""The demo upstream against the real SDKs, and its background responses."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import anthropic
import httpx
import openai
import pytest
from google.genai import errors as gemini_errors

from recorder.demo.scripts import FunctionCall, Prompt, Refuse, Say, choose
from recorder.demo.server import DemoServer, start
from tests.support.demo import events, user
from tests.support.sdks import ASKS, Got

PROMPTS = ("hello", "weather", "search", "refuse")
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"


@pytest.fixture
async def demo() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


@pytest.fixture
async def client(demo: DemoServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=demo.base_url) as client:
        yield client


# -- the SDKs


@pytest.mark.long
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
