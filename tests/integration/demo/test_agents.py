"""The demo upstream as agents meet it: their own tools, sub-agents, titles, schemas, probes, and a slow story."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from recorder.demo.scripts import DEPTH, NUMBER, TEXT, fill
from recorder.demo.server import DemoServer, start

RESPONSES, CHAT, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"
GEMINI = "/v1beta/models/gemini-3.5-flash:generateContent"
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}
FITS = json.dumps({"title": TEXT})


@pytest.fixture
async def demo() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


@pytest.fixture
async def client(demo: DemoServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=demo.base_url) as client:
        yield client


def codex(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request of Codex whose tools are in its input, as its default model has them."""
    agents = {"type": "namespace", "name": "collaboration", "tools": [{"type": "function", "name": "spawn_agent"}]}
    shell = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    tools = {"type": "additional_tools", "role": "developer", "tools": [shell, agents]}
    return {"model": "m", "input": [tools, *items], **more}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def output(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """The last output item of a response."""
    item: dict[str, Any] = (await client.post(RESPONSES, json=body)).json()["output"][-1]
    return item


# -- tools


async def test_codex_is_given_text_for_its_custom_tool(client: httpx.AsyncClient) -> None:
    call = await output(client, codex(user("Use the shell.")))
    assert (call["type"], call["name"], call["status"]) == ("custom_tool_call", "exec", "completed")
    assert "tools.exec_command" in call["input"]


async def test_a_custom_call_streams_its_input(client: httpx.AsyncClient) -> None:
    body = (await client.post(RESPONSES, json=codex(user("Use the shell."), stream=True))).text
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
    family = "response.custom_tool_call_input"
    deltas = "".join(event["delta"] for event in events if event["type"] == f"{family}.delta")
    assert [event["input"] for event in events if event["type"] == f"{family}.done"] == [deltas]


ASKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "Codex": (RESPONSES, {"input": "the shell", "tools": [{"type": "function", "name": "exec_command"}]}, "cmd"),
    "opencode": (CHAT, {"messages": [{"role": "user", "content": "the shell"}],
                        "tools": [{"type": "function", "function": {"name": "bash"}}]}, "command"),
    "Claude Code": (MESSAGES, {"messages": [{"role": "user", "content": "the shell"},
                                            {"role": "system", "content": "more"}],
                               "tools": [{"name": "Bash"}]}, "command"),
    "Gemini CLI": (GEMINI, {"contents": [{"parts": [{"text": "the shell"}]}],
                            "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]}, "command"),
}  # fmt: skip


@pytest.mark.parametrize("agent", ASKS)
async def test_an_agent_is_asked_to_run_its_own_shell(client: httpx.AsyncClient, agent: str) -> None:
    path, body, argument = ASKS[agent]
    reply = (await client.post(path, json={"model": "m", **body})).text.replace('\\"', '"')
    assert f'"{argument}":"echo ' in reply.replace(": ", ":")


async def test_a_client_without_a_shell_is_not_asked_for_one(client: httpx.AsyncClient) -> None:
    item = await output(client, {"model": "m", "input": "Use the shell."})
    assert item["type"] == "message"


async def test_a_sub_agent_is_waited_for(client: httpx.AsyncClient) -> None:
    items: list[dict[str, Any]] = [user("delegate it")]
    spawn = await output(client, codex(*items))
    assert (spawn["name"], spawn["namespace"]) == ("spawn_agent", "collaboration")
    items += [spawn, {"type": "function_call_output", "call_id": spawn["call_id"], "output": "{}"}]
    wait = await output(client, codex(*items))
    assert wait["name"] == "wait_agent"
    items += [wait, {"type": "function_call_output", "call_id": wait["call_id"], "output": "done"}]
    assert (await output(client, codex(*items)))["type"] == "message"


async def test_the_task_of_a_sub_agent_is_answered(client: httpx.AsyncClient) -> None:
    task = {"type": "agent_message", "content": [{"type": "input_text", "text": "What is a stream?"}]}
    assert (await output(client, codex(user("delegate it"), task)))["type"] == "message"


# -- helpers


WANTED: dict[str, dict[str, Any]] = {
    RESPONSES: {"input": "hi", "text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    CHAT: {"messages": [], "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    MESSAGES: {"messages": [], "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    GEMINI: {"contents": [], "generationConfig": {"responseJsonSchema": SCHEMA}},
}


@pytest.mark.parametrize("path", WANTED)
async def test_an_answer_fits_the_schema(client: httpx.AsyncClient, path: str) -> None:
    reply = (await client.post(path, json={"model": "m", **WANTED[path]})).text
    assert json.dumps(FITS)[1:-1] in reply


async def test_an_answer_fits_the_schema_where_older_clients_have_it(client: httpx.AsyncClient) -> None:
    asked = {"model": "m", "messages": [], "output_format": {"type": "json_schema", "schema": SCHEMA}}
    assert json.loads((await client.post(MESSAGES, json=asked)).json()["content"][-1]["text"]) == json.loads(FITS)


def test_a_schema_is_filled() -> None:
    inner = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}, "e": {"enum": ["a", "b"]}}}
    assert fill({"type": "array", "items": inner}) == [{"n": NUMBER, "e": "a"}]
    assert fill({"anyOf": [{"const": 3}, {"type": "null"}]}) == 3
    assert fill({"type": ["boolean", "null"]}) is True
    assert fill(True) == fill({}) == TEXT


def test_a_schema_in_itself_has_an_end() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"child": schema}
    assert json.dumps(fill(schema)).count("child") == DEPTH


async def test_a_conversation_gets_a_title(client: httpx.AsyncClient) -> None:
    developer = {"role": "developer", "content": "You are a title generator."}
    item = await output(client, {"model": "m", "input": [developer, user("hello")]})
    assert item["content"][0]["text"] == "Words about a stream"


async def test_probes_are_answered_as_the_services_do(client: httpx.AsyncClient) -> None:
    hello = await client.head("/api/hello")
    assert (hello.status_code, hello.content) == (200, b"")
    counted = await client.post(GEMINI.replace("generateContent", "countTokens"), json={"contents": []})
    assert counted.json()["totalTokens"] > 0


# -- endings


async def test_a_slow_story_comes_slowly_from_a_fast_server(demo: DemoServer) -> None:
    body = {"model": "m", "input": "a slow story", "stream": True}
    async with (
        httpx.AsyncClient(base_url=demo.base_url) as client,
        client.stream("POST", RESPONSES, json=body) as stream,
    ):
        began = time.monotonic()
        async for line in stream.aiter_lines():
            if "output_text.delta" in line:
                break
    assert time.monotonic() - began > 1


async def test_a_body_ends_a_while_behind_its_last_event() -> None:
    async with await start(pace=0, linger_s=0.2) as demo:
        reader, writer = await asyncio.open_connection("127.0.0.1", demo.port)
        body = b'{"model":"m","input":"hi","stream":true}'
        writer.write(b"POST /v1/responses HTTP/1.1\r\nhost: demo\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await reader.readuntil(b"event: response.completed")
        await reader.readuntil(b"\n\n")
        came = time.monotonic()
        assert await reader.readuntil(b"0\r\n\r\n")
        assert time.monotonic() - came > 0.1
        writer.close()
