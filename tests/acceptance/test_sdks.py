"""The SDKs go through the recorder and do not notice it; the log has what the upstream sent."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path

from tests.support.logbook import assert_chained, entries
from tests.support.provider.reply import DemoRequest
from tests.support.provider.server import start
from tests.support.sdks import ASKS, Got
from tests.support.server import everywhere, serving

PROMPTS = ("hello", "weather")
APIS = {"openai-responses", "openai-chat", "anthropic", "gemini", "gemini-interactions"}


def session(name: str, prompt: str) -> str:
    return f"{name}-{prompt}".replace(" ", "-")


async def ask_all(base: str, prefix: str = "") -> dict[str, Got]:
    """Every SDK in every way, one after another: a fresh demo upstream then gives the same bytes
    each time.
    """
    answers = {}
    for name, ask in ASKS.items():
        for prompt in PROMPTS:
            key = session(name, prompt)
            answers[key] = await ask(base + prefix.format(key), prompt)
    return answers


def fetch(port: int, request: DemoRequest) -> bytes:
    """The same request again, without any SDK."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(request.method, request.target, request.body, dict(request.headers))
        return connection.getresponse().read()
    finally:
        connection.close()


async def test_sdks_get_what_they_get_without_it_and_the_log_has_every_byte(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    async with await start(pace=0) as demo:
        directly = await ask_all(demo.base_url)
        requests = demo.requests
    async with await start(pace=0) as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:
            through = await ask_all(serve.base, "/s/{}")
        forwarded = demo.requests
    assert through == directly
    assert [(request.method, request.target, request.body) for request in forwarded] == [
        (request.method, request.target, request.body) for request in requests
    ]
    async with await start(pace=0) as demo:
        sent = [await asyncio.to_thread(fetch, demo.port, request) for request in requests]
    found = entries(db)
    assert [entry.session for entry in found] == list(directly)
    assert [entry.body for entry in found] == sent
    assert [entry.request_body for entry in found] == [request.body for request in requests]
    assert all(entry.end["status"] == "completed" and entry.end["lossless"] for entry in found)
    assert all(entry.session.startswith(entry.exchange.api) for entry in found)
    assert {entry.exchange.api for entry in found} == APIS
    assert_chained(found)
