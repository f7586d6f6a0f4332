"""The package `ollama`: what it yields, put together, from bytes that are given or from a server at
a URL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import httpx
from ollama import Client

from tests.support.sdks import BASE, TOOL

CHAT, GENERATE = "/api/chat", "/api/generate"


class OllamaReading(NamedTuple):
    """What a program puts together from the parts of an answer, as Ollama's page "Streaming" does."""

    text: str
    thoughts: str
    calls: list[tuple[str, Any]]
    usage: tuple[int | None, int | None]
    reason: str | None


def ollama_answering(body: bytes, kind: str, status: int = 200) -> Client:
    """Return a client whose every request is answered with these bytes, without a socket."""
    answer = httpx.Response(status, headers={"content-type": kind}, content=body)
    return Client(BASE, transport=httpx.MockTransport(lambda request: answer))


def ollama_question(answer: bytes, kind: str) -> bytes:
    """Return the body of the request that `ollama_reading` sends."""
    sent: list[bytes] = []

    def answered(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(200, headers={"content-type": kind}, content=answer)

    ollama_reading(Client(BASE, transport=httpx.MockTransport(answered)), CHAT)
    return sent[0]


def ollama_reading(client: Client, path: str, *, is_streamed: bool = True) -> OllamaReading:
    """Ask for an answer, and read it."""
    asked: dict[str, Any] = {"model": "qwen3", "stream": is_streamed}
    if path == GENERATE:
        found = client.generate(prompt="Roll.", **asked)
    else:
        tool = {"type": "function", "function": {"name": "roll", "parameters": TOOL}}
        found = client.chat(messages=[{"role": "user", "content": "Roll."}], tools=[tool], **asked)
    return _read(found if is_streamed else [found])


def _read(parts: Iterable[Any]) -> OllamaReading:
    text = thoughts = ""
    calls: list[tuple[str, Any]] = []
    last: Any = None
    for last in parts:
        message = getattr(last, "message", None)
        text += (last.response if message is None else message.content) or ""
        thoughts += (last.thinking if message is None else message.thinking) or ""
        for call in (message and message.tool_calls) or ():
            calls.append((call.function.name, call.function.arguments))
    return OllamaReading(
        text, thoughts, calls, (last.prompt_eval_count, last.eval_count), last.done_reason
    )
