"""Realtime and Gemini Live through the recorder: an SDK and a raw client notice nothing, the log
has their turns.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from openai import OpenAI
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection

from tests.support.logbook import Entry, entries
from tests.support.server import Serving, serving, wait_until
from tools.real_clients.relay import listening

AUDIO = base64.b64encode(bytes(range(256)) * 64).decode()
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"

Script = Callable[[ServerConnection, dict[str, Any]], None]


def realtime(connection: ServerConnection, asked: dict[str, Any]) -> None:
    """Answer a `response.create` with a piece of audio, and nothing else with anything."""
    if asked["type"] == "response.create":
        delta = {
            "type": "response.output_audio.delta",
            "event_id": "event_2",
            "response_id": "resp_1",
            "delta": AUDIO,
        }
        done = {
            "type": "response.done",
            "event_id": "event_3",
            "response": {"id": "resp_1", "object": "realtime.response"},
        }
        for event in (
            {"type": "response.created", "event_id": "event_1", "response": {"id": "resp_1"}},
            delta,
            done,
        ):
            connection.send(json.dumps(event))


def live(connection: ServerConnection, asked: dict[str, Any]) -> None:
    """Answer as Gemini does: JSON in binary messages."""
    answer = (
        {"setupComplete": {}} if "setup" in asked else {"serverContent": {"turnComplete": True}}
    )
    connection.send(json.dumps(answer).encode())


def upstream(script: Script) -> AbstractContextManager[str]:
    """Listen on loopback; gives the address."""

    def handle(connection: ServerConnection) -> None:
        for message in connection:
            script(connection, json.loads(message))

    return listening(handle)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A recorder before both upstreams; each test has a session of its own."""
    db = tmp_path_factory.mktemp("realtime") / "recorder.db"
    with upstream(realtime) as openai, upstream(live) as gemini:
        with serving(
            db, "--upstream", f"openai={openai}", "--upstream", f"gemini={gemini}"
        ) as serve:
            yield serve


def ended(recorder: Serving, session: str) -> list[Entry]:
    """The connection of a session and its turns, when all have ended."""
    found: list[Entry] = []

    def have_ended() -> bool:
        found[:] = [entry for entry in entries(recorder.db) if entry.session == session]
        return bool(found) and all(entry.end for entry in found)

    wait_until(have_ended)
    return sorted(found, key=lambda entry: entry.exchange.method)


def payloads(entry: Entry, kind: str) -> list[Any]:
    return [json.loads(event.raw) for event in entry.events if event.kind == kind]


def expect_clean(entry: Entry) -> None:
    """Raise if the connection did not end as the client wanted, or if anything of it is damaged."""
    assert (entry.exchange.method, entry.exchange.api) == ("GET", "other")
    assert entry.end["outcome"] == "eof"
    assert entry.end["lossless"]
    assert entry.end["close"]["code"] == 1000
    assert not entry.end.get("undecoded")


def converse(base: str) -> list[str]:
    types = list[str]()
    with OpenAI(base_url=base, api_key="sk-secret", max_retries=0) as client:
        with client.realtime.connect(model="gpt-realtime") as connection:
            connection.session.update(session={"type": "realtime", "output_modalities": ["audio"]})
            connection.input_audio_buffer.append(audio=AUDIO)
            connection.response.create()
            for event in connection:
                types.append(event.type)
                if event.type == "response.done":
                    return types
    return types


ANSWERED = ["response.created", "response.output_audio.delta", "response.done"]


# by openai 3.52, to websockets 17
@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")
def test_realtime_of_openai_python_is_recorded_as_a_turn(recorder: Serving) -> None:
    assert converse(f"{recorder.base}/s/messages/v1") == ANSWERED
    connection, turn = ended(recorder, "messages")
    expect_clean(connection)
    assert connection.exchange.target == "/v1/realtime?model=gpt-realtime"
    assert (turn.exchange.method, turn.exchange.api) == ("WEBSOCKET", "openai-realtime")
    assert [each["type"] for each in payloads(turn, "frame")] == ANSWERED
    assert payloads(turn, "frame")[1]["delta"] == AUDIO
    assert [each["type"] for each in payloads(connection, "sent")] == ["session.update"]
    assert [each["type"] for each in payloads(turn, "sent")] == [
        "input_audio_buffer.append",
        "response.create",
    ]
    assert not any(
        b"sk-secret" in event.raw for entry in (connection, turn) for event in entry.events
    )


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_gemini_live_is_recorded_as_a_turn_of_binary_messages(
    recorder: Serving, compression: str | None
) -> None:
    session = f"live-{compression}"
    address = f"{recorder.base.replace('http', 'ws', 1)}/s/{session}{LIVE}?key=sk-secret"
    with connect(address, compression=compression) as connection:
        connection.send(json.dumps({"setup": {"model": "models/gemini-live"}}))
        assert json.loads(connection.recv()) == {"setupComplete": {}}
        connection.send(json.dumps({"clientContent": {"turnComplete": True}}).encode())
        assert json.loads(connection.recv()) == {"serverContent": {"turnComplete": True}}
    own, turn = ended(recorder, session)
    expect_clean(own)
    assert payloads(own, "frame") == [{"setupComplete": {}}]
    assert payloads(turn, "frame") == [{"serverContent": {"turnComplete": True}}]
    assert [list(*payloads(each, "sent")) for each in (own, turn)] == [["setup"], ["clientContent"]]
    assert "sk-secret" not in own.exchange.target
    assert not any(b"sk-secret" in event.raw for entry in (own, turn) for event in entry.events)
