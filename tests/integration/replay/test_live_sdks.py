"""The SDKs of live sessions against a replay: each yields what it did, from the same messages over
a real socket.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from google import genai
from openai import AsyncOpenAI

from recorder.model.events import Recording
from tests.integration.replay.test_websocket import Mock, mocked
from tests.support.event_loop import DEADLINE_S
from tests.support.live import (
    COMPLETE,
    CONNECT,
    ENDED,
    GEMINI,
    INTERACTIONS,
    REALTIME,
    SESSION,
    SETUP,
    SETUP_COMPLETE,
    SOUND,
    Live,
    audio_deltas,
    called,
    coded,
    content,
    live_step,
    microphone,
    pieces,
    response,
    said_live,
    sounding,
    spoken,
    spoken_live,
    text_deltas,
    transcript,
)
from tests.support.websocket import Connection

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")


def recorded(made: Connection) -> tuple[Live, list[Recording]]:
    live = Live(made)
    return live, [live.recording(each) for each in (live.connection, *live.turns)]


# -- Realtime


def realtime() -> Connection:
    """Speech that is answered with a call, and the answer to its result."""
    made = Connection(REALTIME).server(
        {"type": "session.created", "session": {"model": "gpt-realtime"}}
    )
    made.client({"type": "session.update", "session": SESSION}).server(
        {"type": "session.updated", "session": SESSION}
    )
    for piece in pieces():
        made.client({"type": "input_audio_buffer.append", "audio": piece})
    made.server({"type": "input_audio_buffer.committed", "item_id": "item_u"})
    made.server(*response("resp_1", *called("weather", '{"city":', '"Oslo"}')))
    output = {"id": "item_old", "type": "function_call_output", "call_id": "call_1", "output": "7"}
    made.client({"type": "conversation.item.create", "item": output}).client(
        {"type": "response.create"}
    )
    made.server({"type": "conversation.item.added", "item": output, "previous_item_id": "item_0"})
    return made.server(*response("resp_2", *spoken("Seven ", "degrees."))).close()


async def converse(mock: Mock) -> list[Any]:
    """Speak in other pieces than were recorded, and give the result an id of its own."""
    events: list[Any] = []
    url = f"http://127.0.0.1:{mock.port}/v1"
    async with AsyncOpenAI(
        base_url=url, websocket_base_url=url.replace("http", "ws"), api_key="k"
    ) as client:
        async with client.realtime.connect(model="gpt-realtime") as connected:
            # its types are unions, of which a test knows the one that comes
            connection: Any = connected
            await connection.session.update(session={"type": "realtime"})
            for start in range(0, len(SOUND), 9000):
                await connection.input_audio_buffer.append(audio=coded(SOUND[start : start + 9000]))
            async for event in connection:
                events.append(event)
                if event.type == "response.done" and event.response.id == "resp_2":
                    return events
                if event.type == "response.done":
                    [call] = event.response.output
                    result = {
                        "id": "item_new",
                        "type": "function_call_output",
                        "call_id": call.call_id,
                        "output": "7",
                    }
                    await connection.conversation.item.create(item=result)
                    await connection.response.create()
    return events


async def test_openai_python_gets_a_session_again_that_speaks_in_other_pieces() -> None:
    live, recordings = recorded(realtime())
    async with mocked(*recordings) as mock, asyncio.timeout(DEADLINE_S):
        events = await converse(mock)
        assert (mock.hows, mock.unused) == (["exact"], [])
    types = [json.loads(each.raw)["type"] for recording in recordings for each in recording.pieces]
    assert sorted(event.type for event in events) == sorted(types)
    [added] = [event for event in events if event.type == "conversation.item.added"]
    assert added.item.id == "item_new"
    said = "".join(
        event.delta for event in events if event.type == "response.output_audio_transcript.delta"
    )
    [message] = [item for item in live.rows[1]["items"] if item.kind == "message"]
    assert said == message.text == "Seven degrees."


# -- Gemini Live


def gemini() -> Connection:
    """A text that leads to a call, and speech that is answered in sound."""
    asked = {
        "client_content": {
            "turns": [{"role": "user", "parts": [{"text": "Weather?"}]}],
            "turn_complete": True,
        }
    }
    called_once = {
        "toolCall": {"functionCalls": [{"id": "fc_1", "name": "weather", "args": {"city": "Oslo"}}]}
    }
    returned = {
        "tool_response": {
            "functionResponses": [{"id": "fc_1", "name": "weather", "response": {"t": 7}}]
        }
    }
    made = Connection(GEMINI, upstream="gemini").client(SETUP).server(SETUP_COMPLETE)
    made.client(asked).server(called_once).client(returned)
    made.server(*transcript("Seven ", "degrees."), *sounding(), *COMPLETE)
    for each in microphone():
        made.client(each)
    made.server(*transcript("Thanks", of="inputTranscription"), *sounding(SOUND[:9600]))
    return made.server(content(interrupted=True), content(turnComplete=True)).close()


def client_of(mock: Mock, prefix: str = "") -> genai.Client:
    """A client whose sockets are plain: it speaks TLS, whatever its base URL says, and the mock
    does not.
    """
    options = genai.types.HttpOptions(
        base_url=f"http://127.0.0.1:{mock.port}", api_version="v1beta"
    )
    client = genai.Client(api_key="k", http_options=options)
    internals: Any = client._api_client
    internals._websocket_base_url = lambda options=None: f"ws://127.0.0.1:{mock.port}{prefix}"
    internals._websocket_ssl_ctx = {}
    return client


async def heard(session: Any, messages: list[Any]) -> None:
    """Receive a turn, and answer its calls."""
    async for message in session.receive():
        messages.append(message)
        for call in message.tool_call.function_calls if message.tool_call else ():
            answer = genai.types.FunctionResponse(id=call.id, name=call.name, response={"t": 7})
            await session.send_tool_response(function_responses=[answer])


async def test_google_genai_gets_a_session_again_that_speaks_in_other_pieces() -> None:
    live, recordings = recorded(gemini())
    first, second = list[Any](), list[Any]()
    async with mocked(*recordings) as mock, asyncio.timeout(DEADLINE_S):
        async with client_of(mock).aio.live.connect(model="gemini-live-2.5", config={}) as session:
            asked = genai.types.Content(role="user", parts=[genai.types.Part(text="Weather?")])
            await session.send_client_content(turns=asked)
            await heard(session, first)
            for start in range(0, len(SOUND), 9000):
                blob = genai.types.Blob(
                    data=SOUND[start : start + 9000], mime_type="audio/pcm;rate=16000"
                )
                await session.send_realtime_input(audio=blob)
            await heard(session, second)
        assert (mock.hows, mock.unused) == (["exact"], [])
    [answer, _] = live.rows
    assert texts_of(first) == "".join(
        item.text for item in answer["items"] if item.kind == "message"
    )
    assert b"".join(message.data or b"" for message in first) == SOUND
    assert second[-2].server_content.interrupted
    usage = first[-1].usage_metadata
    [counts] = answer["usage"]
    assert counts.input_tokens == usage.prompt_token_count
    assert counts.output_tokens == usage.response_token_count + usage.thoughts_token_count
    assert [message.server_content.input_transcription.text for message in second[:1]] == ["Thanks"]


def texts_of(messages: list[Any]) -> str:
    contents = [message.server_content for message in messages if message.server_content]
    return "".join(each.output_transcription.text for each in contents if each.output_transcription)


# -- Gemini's Interactions


def interaction() -> Connection:
    """A text that is answered, and speech that is answered in sound."""
    made = (
        Connection(INTERACTIONS, upstream="gemini")
        .client(CONNECT)
        .server({"event_type": "interaction.connected"})
    )
    made.client(said_live("Hi.")).server(*live_step(0, "model_output", *text_deltas("Hel", "lo.")))
    for each in spoken_live():
        made.client(each)
    made.server(*live_step(1, "model_output", *audio_deltas()))
    return made.client({"event_type": "interaction.complete"}).server(ENDED).close()


@pytest.mark.filterwarnings("ignore:Live Interactions usage")
async def test_google_genai_gets_an_interaction_again_that_speaks_in_other_pieces() -> None:
    live, recordings = recorded(interaction())
    events = list[Any]()
    async with mocked(*recordings) as mock, asyncio.timeout(DEADLINE_S):
        async with client_of(mock).aio.interactions.connect("int_1") as session:
            await session.send("Hi.")
            async for event in session.receive():
                events.append(event)
                if event.event_type == "step.stop" and event.index == 0:
                    for each in spoken_live(size=9000):
                        await session.send(each)
                elif event.event_type == "step.stop":
                    await session.complete()
        assert (mock.hows, mock.unused) == (["exact"], [])
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    [rows] = live.rows
    [text] = [item.text for item in rows["items"] if item.kind == "message" and item.text]
    assert "".join(delta.text for delta in deltas if delta.type == "text") == text
    assert (
        b"".join(base64.b64decode(delta.data) for delta in deltas if delta.type == "audio") == SOUND
    )
    [counts] = rows["usage"]
    assert counts.input_tokens == events[-1].usage.total_input_tokens
    assert (
        counts.output_tokens
        == events[-1].usage.total_output_tokens + counts.reasoning_output_tokens
    )
