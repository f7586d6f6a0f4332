"""Streams of servers that others have written, as recorded: our rows are what the official client
makes of them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import anthropic
import pytest

from recorder.model.events import Recording
from recorder.projections.fold import Rows
from recorder.proxy.routing import Upstream
from recorder.recordings.files import load_file
from recorder.recordings.session import projected
from tests.integration.replay.test_live_sdks import client_of
from tests.integration.replay.test_websocket import Mock, mocked
from tests.support.bedrock import bedrock, converse_events, message_of
from tests.support.corpus import DATA
from tests.support.event_loop import DEADLINE_S
from tests.support.ollama_sdk import CHAT, ollama_answering, ollama_reading
from tests.support.sdks import (
    BASE,
    INTERACTION,
    WAYS,
    answering,
    gemini_client,
    interaction_of,
    of_chunks,
    openai_client_async,
)
from tests.support.server import run

AIMOCK, AIMOCK_LIVE, LITELLM = (
    DATA / "cassettes" / f"{name}.sse.jsonl"
    for name in ("aimock", "aimock-live", "litellm-streams")
)


def recorded(path: Any, number: int) -> Recording:
    return load_file(path).recordings[number - 1]


def rows_of(recording: Recording) -> Rows:
    return projected(recording.exchange, recording.events)


def calls_in(rows: Rows) -> list[tuple[str, Any]]:
    return [
        (item.name, json.loads(item.arguments))
        for item in rows["items"]
        if item.kind == "tool_call"
    ]


def text_in(rows: Rows) -> str:
    return "".join(item.text for item in rows["items"] if item.kind == "message")


def rules_of(path: Any) -> list[tuple[int, str]]:
    found = json.loads(run(DATA / "none.db", "lint", path, "--json").out)
    return [(each["exchange"], each["rule"]) for each in found]


def got_of(recording: Recording) -> Any:
    """What the official SDK makes of a recorded stream."""
    api, http = recording.exchange.api, answering(recording.body)
    if api == "gemini":
        models = gemini_client(BASE, "v1beta", httpx_client=http).models
        return of_chunks(list(models.generate_content_stream(model="m", contents="x")))
    if api == "gemini-interactions":
        interactions = gemini_client(BASE, "v1beta", httpx_client=http).interactions
        events = interactions.create(**INTERACTION, input="x", stream=True)
        return interaction_of(events)
    way = WAYS[api]
    resource = way.resource(way.client(BASE, http_client=http))
    with resource.stream(**way.asked("x"), **way.options) as stream:
        return way.of(getattr(stream, way.final)())


@pytest.mark.parametrize(
    ("path", "number", "api"),
    [
        (LITELLM, 1, "openai-chat"),
        (LITELLM, 2, "openai-chat"),
        (LITELLM, 3, "openai-responses"),
        (LITELLM, 4, "anthropic"),
        (LITELLM, 5, "gemini"),
        (AIMOCK_LIVE, 2, "gemini-interactions"),
    ],
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_stream_is_what_the_sdk_reads(path: Any, number: int, api: str) -> None:
    recording = recorded(path, number)
    rows, got = rows_of(recording), got_of(recording)
    [exchange], [usage] = rows["exchanges"], rows["usage"]
    assert (recording.exchange.api, exchange.status) == (api, "completed")
    assert (text_in(rows), calls_in(rows)) == (got.text, got.calls)
    assert (usage.input_tokens, usage.output_tokens) == (got.usage[0], got.usage[2])


def test_a_stream_that_litellm_gives_up_fails_as_the_sdk_says() -> None:
    recording = recorded(LITELLM, 6)
    with pytest.raises(anthropic.APIStatusError, match="before emitting a message_stop") as raised:
        got_of(recording)
    [exchange] = rows_of(recording)["exchanges"]
    assert exchange.status == "failed"
    assert exchange.error in str(raised.value)


def test_lint_finds_what_hides_the_events_of_a_message_from_anthropics_sdk() -> None:
    recording = recorded(AIMOCK_LIVE, 1)
    with bedrock(recording.body) as url, pytest.raises(AssertionError):
        message_of(url)
    rows = rows_of(recording)
    assert (rows["exchanges"][0].status, rows["items"]) == ("incomplete", [])
    assert (1, "BI001") in rules_of(AIMOCK_LIVE)


# -- live sessions, played to the SDK by a mock


async def realtime(mock: Mock) -> tuple[str, list[tuple[str, Any]]]:
    """What openai-python has of a response."""
    asked = {"type": "input_text", "text": "Please roll a die."}
    url = f"http://127.0.0.1:{mock.port}/aimock"
    base = url.replace("http", "ws") + "/v1"
    async with openai_client_async(url, websocket_base_url=base) as client:
        async with client.realtime.connect(model="gpt-realtime") as connected:
            connection: Any = connected
            item = {"type": "message", "role": "user", "content": [asked]}
            await connection.session.update(
                session={"type": "realtime", "output_modalities": ["text"]}
            )
            await connection.conversation.item.create(item=item)
            await connection.response.create()
            async for event in connection:
                if event.type == "response.done":
                    break
    message, call = event.response.output
    return message.content[0].text, [(call.name, json.loads(call.arguments))]


async def gemini_live(mock: Mock) -> tuple[str, list[tuple[str, Any]]]:
    """What google-genai has of a turn."""
    text, calls = "", list[Any]()
    asked: Any = {"role": "user", "parts": [{"text": "Please roll a die."}]}
    options: Any = {"response_modalities": ["TEXT"]}
    live = client_of(mock, "/aimock").aio.live
    async with live.connect(model="gemini-live-2.5-flash", config=options) as session:
        await session.send_client_content(turns=asked, turn_complete=True)
        async for message in session.receive():
            text += message.text or ""
            said: Any = message.tool_call
            calls += [(call.name, call.args) for call in said.function_calls] if said else []
    return text, calls


@pytest.mark.parametrize(("number", "read"), [(4, realtime), (6, gemini_live)])
@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")
async def test_a_live_turn_is_what_the_sdk_hears(number: int, read: Any) -> None:
    connection, turn = recorded(AIMOCK_LIVE, number - 1), recorded(AIMOCK_LIVE, number)
    upstream = Upstream("aimock", "http://127.0.0.1:1")  # which nobody asks
    async with mocked(connection, turn, upstreams=[upstream]) as mock:
        async with asyncio.timeout(DEADLINE_S):
            heard = await read(mock)
    rows = rows_of(turn)
    assert (text_in(rows), calls_in(rows)) == heard
    assert rows["exchanges"][0].status == "completed"


# -- Ollama and Converse


def test_an_answer_in_lines_is_what_ollamas_package_reads() -> None:
    """Reasoning is under a name there that the package does not know: an anomaly says that no view
    has it.
    """
    recording = recorded(AIMOCK, 1)
    read = ollama_reading(ollama_answering(recording.body, "application/x-ndjson"), CHAT)
    rows = rows_of(recording)
    [exchange], [usage], [anomaly] = rows["exchanges"], rows["usage"], rows["anomalies"]
    assert (text_in(rows), calls_in(rows), exchange.finish_reason) == (
        read.text,
        read.calls,
        read.reason,
    )
    assert (usage.input_tokens, usage.output_tokens) == read.usage
    assert (anomaly.kind, read.thoughts) == ("unread", "")


def test_lint_finds_the_event_at_which_the_client_of_aws_gives_up() -> None:
    recording = recorded(AIMOCK, 2)
    with pytest.raises(
        importlib.import_module("botocore.parsers").ResponseParserError, match="ContentBlockStart"
    ):
        converse_events(recording.body)
    assert rules_of(AIMOCK) == [(2, "BR002")]
    thought, message, _ = rows_of(recording)["items"]
    assert (thought.text, message.text) == ("A tool knows it.", "I ask the cellar.")
    assert calls_in(rows_of(recording)) == [("cellar", {"shelf": "north-west ✓", "row": 3})]
