"""A recorded stream of lines, as `recorder mock` serves it over a real socket to the package
`ollama`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from ollama import Client, ResponseError

from recorder.proxy.app import Proxy
from recorder.proxy.routing import Routes
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher
from recorder.replay.transport import ReplayTransport
from recorder.wire.recording import recording_of
from tests.support.facts import captured
from tests.support.ollama_sdk import CHAT, ollama_answering, ollama_question, ollama_reading
from tests.support.proxy import served

KIND = "application/x-ndjson"
SAID = [
    {"model": "qwen3", "message": {"role": "assistant", "content": "Zür"}, "done": False},
    {"model": "qwen3", "message": {"role": "assistant", "content": "ich ✓"}, "done": False},
    {
        "model": "qwen3",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 3,
        "eval_count": 2,
    },
]
BODY = b"".join(json.dumps(line).encode() + b"\n" for line in SAID)


@asynccontextmanager
async def mocked(*faults: str) -> AsyncIterator[Client]:
    asked = ollama_question(BODY, KIND)
    recorded = recording_of(
        *captured(BODY, "ollama", request=asked, content_type=KIND, cuts=[40, 100])
    )
    replay = ReplayTransport(Matcher([recorded]), speed=None)
    transport = FaultTransport(replay, [parse_fault(each) for each in faults]) if faults else replay
    proxy = Proxy(transport, Routes(any_path=True))
    async with served(proxy, proxy.shutdown) as server:
        with Client(f"http://127.0.0.1:{server.port}", trust_env=False) as client:
            yield client


async def test_the_sdk_reads_a_replay_as_it_reads_the_recording() -> None:
    async with mocked() as client:
        assert await asyncio.to_thread(ollama_reading, client, CHAT) == ollama_reading(
            ollama_answering(BODY, KIND), CHAT
        )


async def test_an_error_in_the_lines_is_raised_by_the_sdk() -> None:
    async with mocked("error@1:500") as client:
        with pytest.raises(ResponseError, match="a fault reports 500"):
            await asyncio.to_thread(ollama_reading, client, CHAT)
