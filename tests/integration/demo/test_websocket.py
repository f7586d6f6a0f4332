"""The demo upstream over WebSocket, with the real SDK and a client that is not a SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import websockets

from recorder.demo.server import DemoServer, start
from recorder.demo.websocket import connected
from recorder.errors import RecorderError
from tests.support.event_loop import eventually

TOOLS: list[Any] = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]
WEATHER = "what is the weather in Paris?"


@pytest.fixture
async def demo() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


async def test_the_sdk_reads_a_turn_with_a_tool_and_its_continuation(demo: DemoServer) -> None:
    client = openai.AsyncOpenAI(base_url=f"{demo.base_url}/v1", api_key="none")
    async with client.responses.connect() as connection:
        call: Any = None
        event: Any
        await connection.response.create(model="gpt-demo", input=WEATHER, tools=TOOLS)
        async for event in connection:
            if event.type == "response.completed":
                call = next(item for item in event.response.output if item.type == "function_call")
                break
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
        await connection.response.create(model="gpt-demo", input=[result], previous_response_id=event.response.id)
        text = ""
        async for event in connection:
            text += event.delta if event.type == "response.output_text.delta" else ""
            if event.type == "response.completed":
                break
    assert "18 degrees" in text
    assert [each.method for each in demo.requests] == ["GET", "POST", "POST"]


async def test_a_prewarm_says_nothing_and_is_continued(demo: DemoServer) -> None:
    first = [{"role": "developer", "content": "be brief"}]
    async with connected("127.0.0.1", demo.port, "/v1/responses") as client:
        prewarm = [json.loads(each) for each in await client.ask({"model": "m", "input": first, "generate": False})]
        assert [each["type"] for each in prewarm][-1] == "response.completed"
        response = prewarm[-1]["response"]
        assert (response["output"], response["usage"]["total_tokens"]) == ([], 0)
        await client.ask({"model": "m", "input": "hello", "previous_response_id": response["id"]})
    asked = json.loads(demo.requests[-1].body)
    assert asked["input"] == [*first, {"role": "user", "content": "hello"}]


async def test_errors_are_messages(demo: DemoServer) -> None:
    async with connected("127.0.0.1", demo.port, "/v1/responses") as client:
        [limited] = [json.loads(each) for each in await client.ask({"model": "m", "input": "rate limit"})]
        assert (limited["type"], limited["status"]) == ("error", 429)
        [unknown] = [json.loads(each) for each in await client.ask({"model": "m", "previous_response_id": "resp_x"})]
        assert unknown["error"]["code"] == "previous_response_not_found"


async def test_requests_at_once_are_answered_one_after_another(demo: DemoServer) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{demo.port}/v1/responses", proxy=None) as client:
        for stream_id in ("a", "b"):
            await client.send(
                json.dumps({"type": "response.create", "model": "m", "input": "hi", "stream_id": stream_id})
            )
        ids: list[str] = []
        while ids.count("response.completed") < 2:
            event = json.loads(await client.recv())
            ids.append(event["type"] if event["type"] == "response.completed" else event["stream_id"])
    assert ids == [*["a"] * ids.index("response.completed"), "response.completed", *["b"] * ids.count("b"), ids[-1]]


async def test_other_paths_are_declined(demo: DemoServer) -> None:
    with pytest.raises(RecorderError, match="426"):
        async with connected("127.0.0.1", demo.port, "/v1/realtime"):
            pass


async def test_a_client_that_leaves_ends_its_connection(demo: DemoServer) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{demo.port}/v1/responses", proxy=None) as client:
        client.transport.abort()
    await eventually(lambda: not demo.open)
