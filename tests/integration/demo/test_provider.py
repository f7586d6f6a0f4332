"""The provider of `recorder demo`: what real SDKs, agents and probes get from its bundled
cassettes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from google.genai import errors as gemini_errors
from google.genai._interactions import InternalServerError
from openai.types.beta.agent_session_requires_action_event import AgentSessionRequiresActionEvent

from recorder.commands.demo import connected
from recorder.commands.serving.listening import listening
from recorder.demo.provider import KEYWORDS, bundled, provider, question_of
from recorder.errors import RecorderError
from recorder.replay.matching import request_of
from recorder.wire import dialects
from tests.support.bedrock import aws_client
from tests.support.hosted import read_anthropic
from tests.support.ollama_sdk import CHAT, ollama_reading
from tests.support.probe.gateway import faults_in, probed
from tests.support.sdks import ASKS, InteractionError, anthropic_client, openai_client
from tests.support.server import run

WEATHER_TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {}},
}
CITIES = [
    ("get_weather", {"city": "Paris", "unit": "celsius"}),
    ("get_weather", {"city": "Zürich", "unit": "celsius"}),
]
BEGINNINGS = {
    "Hello!": "A stream is a letter that arrives word by word.",
    "weather": "",
    "search": "In a stream of server-sent events, events are separated by a blank line",
    "refuse": "I’m sorry, but I can’t help with that.",
}
DIALECTS = Path(dialects.__file__).parent
FORMATS = ("anthropic", "gemini", "gemini-interactions", "openai-chat", "openai-responses")
"""Those with a `demo.sse.jsonl` that agents speak, which a further format may do without."""
OF_MODELS = (*FORMATS, "bedrock-converse", "ollama")
"""Those with one that a single request asks: it has a line in `asked` too."""


@pytest.fixture
async def base_url() -> AsyncIterator[str]:
    async with listening(provider(speed=None)) as base_url:
        yield base_url


@pytest.fixture
async def client(base_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=base_url) as client:
        yield client


def test_nothing_is_odd_in_what_the_demo_plays(tmp_path: Path) -> None:
    """It is what providers would say: an anomaly in it is a mistake of ours."""
    db = tmp_path / "recorder.db"
    cassettes = DIALECTS.glob("*/demo.sse.jsonl")
    assert run(db, "import", *map(str, cassettes)).code == 0
    odd = (
        "SELECT api, target, kind, detail FROM anomalies JOIN exchange_summary USING (exchange_id)"
    )
    assert run(db, "query", odd, "--json").text.strip() == "[]"


@pytest.mark.long
@pytest.mark.parametrize("question", BEGINNINGS)
@pytest.mark.parametrize("ask", ASKS)
async def test_an_sdk_reads_the_answer_to_a_question_that_was_never_recorded(
    base_url: str, ask: str, question: str
) -> None:
    got = await ASKS[ask](base_url, question)
    is_silent = question == "refuse" and ask.startswith("gemini")
    assert got.text.startswith("" if is_silent else BEGINNINGS[question])
    assert got.refused == (question == "refuse")
    assert got.calls == (CITIES if question == "weather" else [])
    assert got.usage is not None


BREAKS: dict[str, type[Exception] | tuple[type[Exception], ...]] = {
    "gemini-interactions": (InteractionError, InternalServerError),
    "openai": openai.APIError,
    "anthropic": anthropic.APIStatusError,
    "gemini": gemini_errors.ServerError,
}


@pytest.mark.parametrize("ask", ASKS)
async def test_an_sdk_raises_when_the_stream_fails(base_url: str, ask: str) -> None:
    api = next(name for name in BREAKS if ask.startswith(name))
    with pytest.raises(BREAKS[api]):
        await ASKS[ask](base_url, "fail")


REFUSED = {"rate limit": 429, "unauthorized": 401, "bad request": 400}


def asked(api: str, text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """The path and the body of a question."""
    messages = [{"role": "user", "content": text}]
    return {
        "openai-responses": ("/v1/responses", {"model": "m", "input": text, **more}),
        "openai-chat": ("/v1/chat/completions", {"model": "m", "messages": messages, **more}),
        "anthropic": (
            "/v1/messages",
            {"model": "m", "max_tokens": 99, "messages": messages, **more},
        ),
        "gemini-interactions": ("/v1beta/interactions", {"model": "m", "input": text, **more}),
        "bedrock-converse": (
            "/model/m/converse",
            {"messages": [{"role": "user", "content": [{"text": text}]}], **more},
        ),
        "ollama": ("/api/chat", {"model": "m", "messages": messages, **more}),
        "gemini": (
            "/v1/models/m:generateContent",
            {"contents": [{"parts": [{"text": text}]}], **more},
        ),
    }[api]


@pytest.mark.parametrize("api", OF_MODELS)
async def test_a_refusal_has_the_status_that_the_question_names(
    client: httpx.AsyncClient, api: str
) -> None:
    statuses = {}
    for text in REFUSED:
        path, body = asked(api, text)
        statuses[text] = (await client.post(path, json=body)).status_code
    path, body = asked(api, "What is a stream?")
    wrong = await client.post(path, json=body, headers={"Authorization": "Bearer sk-wrong"})
    assert (statuses, wrong.status_code) == (REFUSED, 401)
    assert (await client.post(path, content=b"[")).status_code == 400


@pytest.mark.parametrize("api", FORMATS)
def test_each_wire_format_has_an_answer_for_each_keyword(api: str) -> None:
    questions = [question_of(request_of(each)) for each in bundled() if each.exchange.api == api]
    assert {question.keywords[0] for question in questions if question.keywords} == {*KEYWORDS}
    assert any(question.has_results for question in questions)


async def output_of(
    client: httpx.AsyncClient, tool: str, *results: dict[str, Any]
) -> list[dict[str, Any]]:
    """What an agent with that tool gets, as items, when a person says "Use the shell"."""
    given = [{"role": "user", "content": "Use the shell."}, *results]
    body = {
        "model": "m",
        "stream": True,
        "input": given,
        "tools": [{"type": "function", "name": tool}],
    }
    stream = (await client.post("/v1/responses", json=body)).text
    output: list[dict[str, Any]] = json.loads(stream.rstrip().rpartition("data: ")[2])["response"][
        "output"
    ]
    return output


async def test_an_agent_is_told_to_use_the_tool_that_it_has(client: httpx.AsyncClient) -> None:
    assert [item.get("name") for item in await output_of(client, "exec_command")] == [
        "exec_command"
    ]
    assert (await output_of(client, "get_weather"))[-1]["type"] == "message"
    result = {"type": "function_call_output", "call_id": "call_1", "output": "6"}
    [*_, message] = await output_of(client, "exec_command", result)
    assert "forty-two bottles" in message["content"][0]["text"]


async def test_an_answer_names_the_model_that_was_asked_for(client: httpx.AsyncClient) -> None:
    path, body = asked("openai-responses", "Hello!", stream=True)
    streamed = (await client.post(path, json={**body, "model": "gpt-5"})).text
    assert '"model":"gpt-5"' in streamed
    assert "gpt-demo" not in streamed


async def test_a_path_without_recordings_is_not_found(client: httpx.AsyncClient) -> None:
    missing = await client.post("/v1/embeddings", json={"input": "Hello!"})
    assert missing.status_code == 404
    assert "no answer for POST /v1/embeddings" in missing.json()["error"]["message"]


async def test_a_websocket_turn_is_answered_and_continued(client: httpx.AsyncClient) -> None:
    request = {"model": "gpt-demo", "tools": [WEATHER_TOOL]}
    async with connected(client, "/v1/responses") as connection:
        called = json.loads((await connection.ask({**request, "input": "weather in Rome?"}))[-1])[
            "response"
        ]
        [first, *_] = [item for item in called["output"] if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": first["call_id"], "output": "18 °C"}
        more = {"input": [result], "previous_response_id": called["id"]}
        concluded = json.loads((await connection.ask({**request, **more}))[-1])["response"]
    assert "Here is what the tools reported" in concluded["output"][-1]["content"][0]["text"]


async def test_a_websocket_elsewhere_is_declined(client: httpx.AsyncClient) -> None:
    with pytest.raises(RecorderError, match="status 404"):
        async with connected(client, "/v1/realtime"):
            pass


def ask_openai_agent(url: str) -> None:
    made: Any = {"agent": {"model": "gpt-5.5"}, "environment": {"type": "none"}}
    with openai_client(url) as client:
        sessions = client.beta.agents.sessions
        result = sessions.create(**made, input="What is a stream?", stream=True).get_final_result()
        assert result.output_text.startswith(BEGINNINGS["Hello!"])
        *_, last = sessions.create(**made, input="The weather?", stream=True)
        assert isinstance(last, AgentSessionRequiresActionEvent)
        called: Any = last.session.required_actions
        given: Any = {"type": "agent.session.input.tool_result", "success": True, "output": "18 °C"}
        results: Any = [
            {**given, "call_id": call.call_id, "turn_id": call.turn_id} for call in called
        ]
        sessions.events.create(last.session.id, events=results)
        answered = [*sessions.events.stream(last.session.id)]
    assert [(call.name, call.arguments) for call in called] == CITIES
    assert answered[-1].type == "agent.session.idle"


async def test_an_agent_of_openai_is_asked_and_waits_for_a_tool(base_url: str) -> None:
    await asyncio.to_thread(ask_openai_agent, base_url)


def ask_claude_agent(url: str) -> None:
    content: Any = [{"type": "text", "text": "Anything"}]
    with anthropic_client(url) as client:
        sessions = client.beta.sessions
        id = sessions.create(agent="agent_1", environment_id="env_1").id
        sessions.events.send(id, events=[{"type": "user.message", "content": content}])
        with sessions.events.stream(id, event_deltas=["agent.message"]) as events:
            reading = read_anthropic(events)
        listed = sessions.events.list(id).data
    assert reading.texts[0].startswith(BEGINNINGS["Hello!"])
    assert "agent.message" in [each.type for each in listed]


async def test_an_agent_of_claude_answers_a_session_that_is_asked_later(base_url: str) -> None:
    await asyncio.to_thread(ask_claude_agent, base_url)


async def test_ollamas_package_reads_lines_of_an_answer(base_url: str) -> None:
    with ollama.Client(base_url) as client:
        reading = await asyncio.to_thread(ollama_reading, client, CHAT)
    assert reading.text.startswith(BEGINNINGS["Hello!"])
    assert reading.thoughts
    assert reading.reason == "stop"


def converse(url: str) -> list[dict[str, Any]]:
    with aws_client(url) as client:
        asked = [{"role": "user", "content": [{"text": "Hello!"}]}]
        with closing(client.converse_stream(modelId="any", messages=asked)["stream"]) as stream:
            return list(stream)


async def test_botocore_reads_the_binary_messages_of_an_answer(base_url: str) -> None:
    events = await asyncio.to_thread(converse, base_url)
    deltas = [
        event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event
    ]
    assert "".join(delta.get("text", "") for delta in deltas).startswith(BEGINNINGS["Hello!"])
    assert [name for event in events[-2:] for name in event] == ["messageStop", "metadata"]


@pytest.mark.long
@pytest.mark.parametrize("api", [*OF_MODELS, "anthropic-sessions", "openai-agents"])
async def test_a_probe_finds_nothing(base_url: str, api: str) -> None:
    assert faults_in(await probed(base_url, api)) == {}
