"""The real SDKs over an HTTP client that is given: what events they yield, and what they raise.

events, error = streamed("anthropic", httpx2.Client(transport=…))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import msgspec
import openai
from google import genai

from recorder.model.recording import Recording
from recorder.wire.recording import recording_of
from tests.support.facts import captured

BASE = "http://127.0.0.1:9"  # where nobody listens
UPSTREAMS = {"anthropic": "anthropic", "gemini": "gemini"}
_ASKED: dict[str, Any] = {
    "openai-responses": {"model": "m", "input": "hi", "stream": True},
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True},
    "gemini": {"model": "gemini-2.5-flash", "contents": "hi"},
}
APIS = tuple(_ASKED)
PAIRS = [(api, library) for api in APIS for library in (httpx2, httpx) if (api, library) != ("anthropic", httpx)]
"""Which SDK takes a client of which library."""


class Streamed(NamedTuple):
    """The events as data, and the exception that ended them: the SDK's own, and the library's behind it."""

    events: list[Any]
    error: BaseException | None = None

    @property
    def failure(self) -> tuple[str, str] | None:
        """What a program can tell failures by."""
        if self.error is None:
            return None
        cause = self.error.__cause__
        return _name(self.error), _name(cause) if isinstance(cause, httpx.HTTPError | httpx2.HTTPError) else ""


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


_OPENAI: dict[str, Any] = {"api_key": "sk-none", "max_retries": 0}
_RESOURCE: dict[str, Callable[[Any], Any]] = {
    "openai-responses": lambda client: client.responses.create,
    "openai-chat": lambda client: client.chat.completions.create,
    "anthropic": lambda client: client.messages.create,
}


def _create(api: str, http: Any, base: str, kind: str) -> Any:
    if api == "anthropic":
        client: Any = getattr(anthropic, f"{kind}Anthropic")(base_url=base, http_client=http, **_OPENAI)
    else:
        client = getattr(openai, f"{kind}OpenAI")(base_url=f"{base}/v1", http_client=http, **_OPENAI)
    return _RESOURCE[api](client)


def _genai(base: str, **http: Any) -> genai.Client:
    options: Any = {"base_url": base, "api_version": "v1beta", **http}
    return genai.Client(api_key="none", http_options=options)


def streamed(api: str, http: Any, base: str = BASE) -> Streamed:
    events: list[Any] = []
    try:
        if api == "gemini":
            with _genai(base, httpx_client=http) as client:
                for event in client.models.generate_content_stream(**_ASKED[api]):
                    events.append(_data(event))
        else:
            with _create(api, http, base, "")(**_ASKED[api]) as stream:
                for event in stream:
                    events.append(_data(event))
    except Exception as error:
        return Streamed(events, error)
    return Streamed(events)


async def streamed_async(api: str, http: Any, base: str = BASE) -> Streamed:
    events: list[Any] = []
    try:
        if api == "gemini":
            with _genai(base, httpx_async_client=http) as client:
                async for event in await client.aio.models.generate_content_stream(**_ASKED[api]):
                    events.append(_data(event))
        else:
            async with await _create(api, http, base, "Async")(**_ASKED[api]) as stream:
                async for event in stream:
                    events.append(_data(event))
    except Exception as error:
        return Streamed(events, error)
    return Streamed(events)


def _data(event: Any) -> Any:
    return event.model_dump(mode="json", warnings=False, exclude={"sdk_http_response"})


@cache
def asked(api: str) -> bytes:
    """The request body that the SDK sends."""
    sent: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.content)
        return httpx2.Response(400, json={"error": {"message": "no"}})

    streamed(api, httpx2.Client(transport=httpx2.MockTransport(answer)))
    return sent[0]


def of(api: str, body: bytes, **how: Any) -> Recording:
    """The recording of a response to what the SDK asks."""
    exchange, events = captured(body, api, request=asked(api), **how)
    made = recording_of(exchange, events)
    return msgspec.structs.replace(
        made, request=msgspec.structs.replace(made.request, upstream=UPSTREAMS.get(api, "openai"))
    )
