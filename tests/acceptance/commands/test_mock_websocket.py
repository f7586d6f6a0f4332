"""What was recorded over WebSocket through `recorder serve` is answered again, over either
transport.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from tests.acceptance.commands.test_mock import mocking
from tests.support.empty_log import empty
from tests.support.provider.server import start
from tests.support.server import PROGRAM, everywhere, run, run_parent, serving

TURNS: list[dict[str, Any]] = [
    {"model": "m", "input": [{"role": "developer", "content": "be brief"}], "generate": False},
    {"model": "m", "input": "hello"},
    {"model": "m", "input": "search"},
]
ENDED_S = 60.0


async def conversation(base: str) -> list[list[str]]:
    """The messages that answer each turn, of which each continues the one before."""
    answers: list[list[str]] = []
    more: dict[str, Any] = {}
    async with asyncio.timeout(ENDED_S):
        async with websockets.connect(
            f"{base.replace('http', 'ws', 1)}/v1/responses", proxy=None
        ) as client:
            for turn in TURNS:
                await client.send(json.dumps({"type": "response.create", **turn, **more}))
                answers.append([])
                while not answers[-1] or json.loads(answers[-1][-1])["type"] not in (
                    "response.completed",
                    "error",
                ):
                    answers[-1].append(str(await client.recv()))
                if "response" not in (last := json.loads(answers[-1][-1])):
                    return answers
                more = {"previous_response_id": last["response"]["id"]}
    return answers


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """A database with a session, and what the client got."""
    db = empty(tmp_path_factory.mktemp("websocket") / "recorder.db")

    async def record() -> list[list[str]]:
        async with await start(pace=0) as demo:
            with serving(db, *everywhere(demo.base_url), program=PROGRAM) as serve:
                return await conversation(f"{serve.base}/s/talk")

    came = asyncio.run(record())
    run(db, "db", "recover")
    return db, came


Recorded = tuple[Path, list[list[str]]]


def test_the_same_client_gets_the_same_messages(recorded: Recorded) -> None:
    db, came = recorded
    with mocking(db, "talk", "--strict") as mock:
        assert asyncio.run(conversation(mock.base)) == came
        page = httpx.get(f"{mock.base}/_recorder/requests", trust_env=False).json()
    assert [each["how"] for each in page["requests"]] == ["exact"] * 3
    assert page["unused"] == []


def test_a_client_over_http_gets_them_as_a_stream(recorded: Recorded) -> None:
    db, came = recorded
    whole = [*TURNS[0]["input"], {"role": "user", "content": "hello"}]
    with mocking(db, "talk") as mock:
        asked = {"model": "m", "input": whole, "stream": True}
        body = httpx.post(f"{mock.base}/v1/responses", json=asked, trust_env=False).text
    assert [line[6:] for line in body.splitlines() if line.startswith("data: ")] == came[1]


def test_a_cassette_answers_as_the_database_does(recorded: Recorded, tmp_path: Path) -> None:
    db, came = recorded
    cassette = tmp_path / "talk.sse.jsonl"
    cassette.write_bytes(run(db, "export", "talk", "--format", "cassette").out)
    with mocking(db, "--cassette", cassette, "--strict") as mock:
        assert asyncio.run(conversation(mock.base)) == came


def test_a_command_is_answered_over_websocket(recorded: Recorded) -> None:
    db, came = recorded
    ask = "import os; from websockets.sync.client import connect; import json\n"
    ask += "base = os.environ['OPENAI_BASE_URL'].replace('http', 'ws', 1)\n"
    ask += "with connect(base + '/responses', proxy=None) as client:\n"
    ask += f"    client.send({json.dumps({'type': 'response.create', **TURNS[0]})!r})\n"
    ask += "    print(client.recv())"
    done = run_parent(
        db, "run", "--replay", "talk", "--speed", "max", "--", sys.executable, "-c", ask
    )
    assert (done.code, done.out.decode().strip()) == (0, came[0][0]), done.err


def test_what_a_mock_has_no_recording_of_is_named(recorded: Recorded) -> None:
    db, _ = recorded
    with mocking(db, "talk", "--fault", "close@1:1011") as mock:
        with pytest.raises(websockets.exceptions.ConnectionClosedError) as closed:
            asyncio.run(conversation(mock.base))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011


@pytest.mark.parametrize("format", ["sse", "payloads"])
def test_exports_have_each_message(recorded: Recorded, format: str) -> None:
    db, came = recorded
    out = run(db, "export", "talk", "--format", format).out.decode()
    lines = [
        line.removeprefix("data: ")
        for line in out.splitlines()
        if not line.startswith("event: ") and line
    ]
    assert lines == [payload for messages in came for payload in messages]
