"""What the real SDKs make of the bytes of a stream: what they hand on at its end, or what they raise.

`reading("openai-chat", body)` gives both; the bytes come through the SDK's own HTTP client, without a socket.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import httpx2
from anthropic import Anthropic
from google import genai
from google.genai.types import HttpOptions
from openai import OpenAI

from tests.support.sdks import TOOL


class Reading(NamedTuple):
    """What an SDK made of a stream."""

    said: Any  # plain data; None if it raised
    error: Exception | None = None


class _Body:
    """The body that every request is answered with."""

    def __init__(self) -> None:
        self.raw = b""

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=[("content-type", "text/event-stream")], content=self.raw)


def reading(api: str, raw: bytes) -> Reading:
    """Return what the SDK of an API hands on at the end of a stream, or what it raises."""
    body, read = _reader(api)
    body.raw = raw
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Reading(read())
        except Exception as error:
            return Reading(None, error)


@cache
def _reader(api: str) -> tuple[_Body, Callable[[], Any]]:
    body = _Body()
    http = httpx2.Client(transport=httpx2.MockTransport(body.answer))
    return body, _READERS[api](http)


def _responses(http: httpx2.Client) -> Callable[[], Any]:
    client = OpenAI(api_key="none", base_url="http://localhost/v1", http_client=http, max_retries=0)

    def read() -> Any:
        handed: list[tuple[str, str]] = []
        with client.responses.stream(model="m", input="x") as stream:
            for event in stream:
                if event.type in ("response.output_text.delta", "response.function_call_arguments.delta"):
                    handed.append((event.type, event.snapshot))
                elif event.type in ("response.incomplete", "response.failed", "error"):
                    handed.append((event.type, repr(event.to_dict())))
            whole = None if _has_ended_badly(handed) else stream.get_final_response()
        return [handed, whole and _plain(whole.to_dict())]

    return read


def _has_ended_badly(handed: list[tuple[str, str]]) -> bool:
    return any(type in ("response.incomplete", "response.failed", "error") for type, _ in handed)


def _chat(http: httpx2.Client) -> Callable[[], Any]:
    client = OpenAI(api_key="none", base_url="http://localhost/v1", http_client=http, max_retries=0)

    def read() -> Any:
        handed: list[str] = []
        with client.chat.completions.stream(
            model="m",
            messages=[{"role": "user", "content": "x"}],
            tools=[{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}],
        ) as stream:
            handed.extend(event.type for event in stream if event.type != "chunk")
            return [handed, _plain(stream.get_final_completion().to_dict())]

    return read


def _messages(http: httpx2.Client) -> Callable[[], Any]:
    client = Anthropic(api_key="none", base_url="http://localhost", http_client=http, max_retries=0)

    def read() -> Any:
        with client.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]) as stream:
            handed = [event.type for event in stream]
            return [handed, _plain(stream.get_final_message().to_dict())]

    return read


def _gemini(http: httpx2.Client) -> Callable[[], Any]:
    client = genai.Client(api_key="none", http_options=HttpOptions(base_url="http://localhost", httpx_client=http))

    def read() -> Any:
        chunks = client.models.generate_content_stream(model="m", contents="x")
        return [_plain(chunk.model_dump(exclude={"sdk_http_response"}, exclude_none=True)) for chunk in chunks]

    return read


_READERS: Mapping[str, Callable[[httpx2.Client], Callable[[], Any]]] = {
    "openai-responses": _responses,
    "openai-chat": _chat,
    "anthropic": _messages,
    "gemini": _gemini,
}


def _plain(value: Any) -> Any:
    """Data that compares by type as well: to an agent, `1` and `true` are not the same."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return (type(value).__name__, value)
