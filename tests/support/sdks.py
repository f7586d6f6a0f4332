"""The real SDKs: asked one question in every way it can be, and what they make of the bytes of a
stream.

`ASKS["openai-responses stream async"](url, "weather")` gives a `Got`, in words common to all; `url`
is scheme, host and port, with a path prefix if there is one. `reading("openai-chat", body)` gives
what an SDK hands on at the end of a stream, and `streamed("anthropic", httpx2.Client(transport=…))`
the events that it yields over an HTTP client that is given. Errors are the SDK's own. Every client
is closed, and none retries.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import msgspec
import openai
from google import genai

from recorder.model.events import Recording
from recorder.wire.recording import recording_of
from tests.support.facts import captured

BASE = "http://127.0.0.1:9"  # where nobody listens
TOOL: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
}


class Got(NamedTuple):
    """What an SDK made of an answer; `usage` is input, cached, output and reasoning tokens, as the
    vendor counts.
    """

    text: str
    refused: bool
    calls: list[tuple[str, Any]]
    usage: tuple[int | None, ...] | None


Ask = Callable[[str, str], Awaitable[Got]]


def _detail(usage: Any, details: str, name: str) -> Any:
    """Return a count within the usage, which servers of others leave out."""
    return getattr(getattr(usage, details, None), name, None)


def _of_response(response: Any) -> Got:
    items = response.output
    parts = [part for item in items if item.type == "message" for part in item.content]
    calls = [
        (item.name, json.loads(item.arguments)) for item in items if item.type == "function_call"
    ]
    refusal = "".join(part.refusal for part in parts if part.type == "refusal")
    usage = response.usage
    cached = _detail(usage, "input_tokens_details", "cached_tokens")
    counts = (usage.input_tokens, cached, usage.output_tokens)
    reasoning = _detail(usage, "output_tokens_details", "reasoning_tokens")
    return Got(response.output_text or refusal, bool(refusal), calls, (*counts, reasoning))


def _of_completion(completion: Any) -> Got:
    message, usage = completion.choices[0].message, completion.usage
    calls = [
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or ()
    ]
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    counts = (usage.prompt_tokens, cached, usage.completion_tokens, reasoning)
    return Got(message.content or message.refusal or "", bool(message.refusal), calls, counts)


def _of_message(message: Any) -> Got:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    usage = message.usage
    read = usage.cache_read_input_tokens
    counts = (
        usage.input_tokens + read,
        read,
        usage.output_tokens,
        _detail(usage, "output_tokens_details", "thinking_tokens"),
    )
    return Got(text, message.stop_reason == "refusal", calls, counts)


def of_chunks(chunks: list[Any]) -> Got:
    contents = [candidate.content for chunk in chunks for candidate in chunk.candidates or ()]
    parts = [part for content in contents for part in content.parts]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [
        (part.function_call.name, part.function_call.args) for part in parts if part.function_call
    ]
    usage = chunks[-1].usage_metadata
    thoughts = usage.thoughts_token_count or 0
    written = usage.candidates_token_count or 0
    counts = (
        usage.prompt_token_count,
        usage.cached_content_token_count,
        written + thoughts,
        thoughts,
    )
    return Got(text, bool(chunks[-1].prompt_feedback), calls, counts)


def _responses(prompt: str) -> dict[str, Any]:
    tool = {
        "type": "function",
        "name": "get_weather",
        "parameters": {**TOOL, "additionalProperties": False},
    }
    return {
        "model": "gpt-5.5",
        "input": prompt,
        "tools": [tool],
        "include": ["reasoning.encrypted_content"],
    }


def _chat(prompt: str) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}
    return {"model": "gpt-5.5", "messages": [{"role": "user", "content": prompt}], "tools": [tool]}


def _messages(prompt: str) -> dict[str, Any]:
    tool = {"name": "get_weather", "input_schema": TOOL}
    messages = [{"role": "user", "content": prompt}]
    return {"model": "claude-opus-5", "max_tokens": 4_096, "messages": messages, "tools": [tool]}


def _contents(prompt: str) -> dict[str, Any]:
    return {"model": "gemini-3.5-flash", "contents": prompt}


def openai_client(url: str, **how: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="sk-none", max_retries=0, **how)


def openai_client_async(url: str, **how: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-none", max_retries=0, **how)


def anthropic_client(url: str, **how: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="sk-none", max_retries=0, **how)


def anthropic_client_async(url: str, **how: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="sk-none", max_retries=0, **how)


def gemini_client(url: str, version: str = "v1", **http: Any) -> genai.Client:
    options: Any = {"base_url": url, "api_version": version, **http}
    return genai.Client(api_key="none", http_options=options)


class Way(NamedTuple):
    """How an SDK is asked whose streams and documents come from one resource."""

    client: Callable[..., Any]
    client_async: Callable[..., Any]
    resource: Callable[[Any], Any]
    asked: Callable[[str], dict[str, Any]]
    options: dict[str, Any]  # more, of a stream
    final: str  # the method of a stream that gives the whole
    of: Callable[[Any], Got]

    async def stream(self, url: str, prompt: str) -> Got:
        def ask() -> Got:
            with self.client(url) as client:
                with self.resource(client).stream(**self.asked(prompt), **self.options) as stream:
                    return self.of(getattr(stream, self.final)())

        return await asyncio.to_thread(ask)

    async def whole(self, url: str, prompt: str) -> Got:
        def ask() -> Got:
            with self.client(url) as client:
                return self.of(self.resource(client).create(**self.asked(prompt)))

        return await asyncio.to_thread(ask)

    async def stream_async(self, url: str, prompt: str) -> Got:
        async with self.client_async(url) as client:
            async with self.resource(client).stream(**self.asked(prompt), **self.options) as stream:
                return self.of(await getattr(stream, self.final)())

    async def whole_async(self, url: str, prompt: str) -> Got:
        async with self.client_async(url) as client:
            return self.of(await self.resource(client).create(**self.asked(prompt)))


_OPENAI = (openai_client, openai_client_async)
_ANTHROPIC = (anthropic_client, anthropic_client_async)
_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}
WAYS = {
    "openai-responses": Way(
        *_OPENAI, lambda it: it.responses, _responses, {}, "get_final_response", _of_response
    ),
    "openai-chat": Way(
        *_OPENAI,
        lambda it: it.chat.completions,
        _chat,
        _USAGE,
        "get_final_completion",
        _of_completion,
    ),
    "anthropic": Way(
        *_ANTHROPIC, lambda it: it.messages, _messages, {}, "get_final_message", _of_message
    ),
}


def _gemini_stream(url: str, prompt: str) -> Got:
    with gemini_client(url) as client:
        return of_chunks(list(client.models.generate_content_stream(**_contents(prompt))))


def _gemini_whole(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        return of_chunks([client.models.generate_content(**_contents(prompt))])


async def _gemini_stream_async(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        async with client.aio as aio:
            chunks = await aio.models.generate_content_stream(**_contents(prompt))
            return of_chunks([chunk async for chunk in chunks])


async def _gemini_whole_async(url: str, prompt: str) -> Got:
    with gemini_client(url) as client:
        async with client.aio as aio:
            return of_chunks([await aio.models.generate_content(**_contents(prompt))])


class InteractionReading(NamedTuple):
    """What a program puts together from the events of an interaction; the SDK itself keeps nothing
    of them.
    """

    text: str
    summaries: str
    calls: list[tuple[str, Any]]
    outputs: list[Any]
    usage: tuple[int | None, ...] | None
    status: str | None


class InteractionError(Exception):
    """An error in the stream of an interaction, which the SDK hands on as an event."""


class _Interaction:
    """An interaction, event by event, as Google's page "Streaming interactions" puts it together."""

    def __init__(self) -> None:
        self.text, self.summaries = "", ""
        self.names: dict[int, str] = {}
        self.arguments: dict[int, str] = {}
        self.outputs: list[Any] = []
        self.usage: tuple[int | None, ...] | None = None
        self.status: str | None = None

    def add(self, event: Any) -> None:
        if event.event_type == "error":
            raise InteractionError(event.error.message)
        if event.event_type == "step.start":
            self._start(event.index, event.step)
        elif event.event_type == "step.delta":
            self._delta(event.index, event.delta)
        elif event.event_type == "interaction.completed":
            self.status, self.usage = (
                event.interaction.status,
                _interaction_usage(event.interaction.usage),
            )

    def _start(self, index: int, step: Any) -> None:
        if step.type.endswith("_call"):
            self.names[index] = getattr(step, "name", None) or step.type.removesuffix("_call")
            self.arguments[index] = (
                json.dumps(step.arguments) if isinstance(step.arguments, dict) else ""
            )
            self.arguments[index] = self.arguments[index].removeprefix("{}")
        self.text += "".join(part.text for part in getattr(step, "content", None) or ())
        self.summaries += "".join(part.text for part in getattr(step, "summary", None) or ())

    def _delta(self, index: int, delta: Any) -> None:
        if delta.type == "text":
            self.text += delta.text
        elif delta.type == "thought_summary":
            self.summaries += delta.content.text
        elif delta.type == "arguments_delta":
            self.arguments[index] += delta.arguments
        elif delta.type.endswith("_call"):
            self.arguments[index] = delta.arguments.model_dump_json(exclude_none=True)
        elif delta.type.endswith("_result"):
            self.outputs.append(delta.result)


def interaction_of(events: Iterable[Any]) -> InteractionReading:
    """Read the events that the SDK yields."""
    made = _Interaction()
    for event in events:
        made.add(event)
    calls = [
        (name, json.loads(made.arguments[index] or "{}")) for index, name in made.names.items()
    ]
    return InteractionReading(
        made.text, made.summaries, calls, made.outputs, made.usage, made.status
    )


def _interaction_usage(usage: Any) -> tuple[int | None, ...] | None:
    if usage is None:
        return None
    thoughts = usage.total_thought_tokens or 0
    written = usage.total_output_tokens or 0
    return usage.total_input_tokens, usage.total_cached_tokens, written + thoughts, thoughts


def _interaction_got(reading: InteractionReading) -> Got:
    functions = [call for call in reading.calls if call[0] != "google_search"]
    return Got(reading.text, reading.status == "incomplete", functions, reading.usage)


def interaction_got(interaction: Any) -> Got:
    """Read an interaction that came whole."""
    calls = [
        (step.name, step.arguments) for step in interaction.steps if step.type == "function_call"
    ]
    is_cut = interaction.status == "incomplete"
    return Got(interaction.output_text or "", is_cut, calls, _interaction_usage(interaction.usage))


INTERACTION: dict[str, Any] = {"model": "gemini-3.5-flash"}


def _interaction_stream(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        return _interaction_got(
            interaction_of(client.interactions.create(**INTERACTION, input=prompt, stream=True))
        )


def _interaction_whole(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        return interaction_got(client.interactions.create(**INTERACTION, input=prompt))


async def _interaction_stream_async(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        async with client.aio as aio:
            stream = await aio.interactions.create(**INTERACTION, input=prompt, stream=True)
            return _interaction_got(interaction_of([event async for event in stream]))


async def _interaction_whole_async(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        async with client.aio as aio:
            return interaction_got(await aio.interactions.create(**INTERACTION, input=prompt))


def _threaded(ask: Callable[[str, str], Got]) -> Ask:
    return lambda url, prompt: asyncio.to_thread(ask, url, prompt)


ASKS: dict[str, Ask] = {
    **{f"{api} stream": way.stream for api, way in WAYS.items()},
    **{f"{api} whole": way.whole for api, way in WAYS.items()},
    **{f"{api} stream async": way.stream_async for api, way in WAYS.items()},
    **{f"{api} whole async": way.whole_async for api, way in WAYS.items()},
    "gemini stream": _threaded(_gemini_stream),
    "gemini whole": _threaded(_gemini_whole),
    "gemini stream async": _gemini_stream_async,
    "gemini whole async": _gemini_whole_async,
    "gemini-interactions stream": _threaded(_interaction_stream),
    "gemini-interactions whole": _threaded(_interaction_whole),
    "gemini-interactions stream async": _interaction_stream_async,
    "gemini-interactions whole async": _interaction_whole_async,
}


# -- What an SDK makes of the bytes of a stream, which come through its own HTTP client, without a
# socket


class Reading(NamedTuple):
    """What an SDK made of a stream."""

    said: Any  # plain data; None if it raised
    error: Exception | None = None


def answering(body: bytes, status: int = 200, kind: str = "text/event-stream") -> httpx2.Client:
    """An HTTP client for an SDK: every request is answered with these bytes, without a socket."""
    answer = httpx2.Response(status, headers={"content-type": kind}, content=body)
    return httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))


class _Body:
    """The body that every request is answered with."""

    def __init__(self) -> None:
        self.raw = b""

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            200, headers=[("content-type", "text/event-stream")], content=self.raw
        )


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


def _read_responses(http: httpx2.Client) -> Callable[[], Any]:
    client = openai_client(BASE, http_client=http)

    def read() -> Any:
        handed: list[tuple[str, str]] = []
        with client.responses.stream(model="m", input="x") as stream:
            for event in stream:
                if event.type in (
                    "response.output_text.delta",
                    "response.function_call_arguments.delta",
                ):
                    handed.append((event.type, event.snapshot))
                elif event.type in ("response.incomplete", "response.failed", "error"):
                    handed.append((event.type, repr(event.to_dict())))
            whole = None if _has_ended_badly(handed) else stream.get_final_response()
        return [handed, whole and _plain(whole.to_dict())]

    return read


def _has_ended_badly(handed: list[tuple[str, str]]) -> bool:
    return any(type in ("response.incomplete", "response.failed", "error") for type, _ in handed)


def _read_chat(http: httpx2.Client) -> Callable[[], Any]:
    client = openai_client(BASE, http_client=http)

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


def _read_messages(http: httpx2.Client) -> Callable[[], Any]:
    client = anthropic_client(BASE, http_client=http)

    def read() -> Any:
        with client.messages.stream(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        ) as stream:
            handed = [event.type for event in stream]
            return [handed, _plain(stream.get_final_message().to_dict())]

    return read


def _read_gemini(http: httpx2.Client) -> Callable[[], Any]:
    client = gemini_client(BASE, "v1beta", httpx_client=http)

    def read() -> Any:
        chunks = client.models.generate_content_stream(model="m", contents="x")
        return [
            _plain(chunk.model_dump(exclude={"sdk_http_response"}, exclude_none=True))
            for chunk in chunks
        ]

    return read


def _read_interactions(http: httpx2.Client) -> Callable[[], Any]:
    client = gemini_client(BASE, "v1beta", httpx_client=http)
    return lambda: interaction_of(client.interactions.create(**INTERACTION, input="x", stream=True))


_READERS: Mapping[str, Callable[[httpx2.Client], Callable[[], Any]]] = {
    "openai-responses": _read_responses,
    "openai-chat": _read_chat,
    "anthropic": _read_messages,
    "gemini": _read_gemini,
    "gemini-interactions": _read_interactions,
}


def _plain(value: Any) -> Any:
    """Data that compares by type as well: to an agent, `1` and `true` are not the same."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return (type(value).__name__, value)


# -- The events that an SDK yields over an HTTP client that is given, and what it raises


UPSTREAMS = {"anthropic": "anthropic", "gemini": "gemini"}
_ASKED: dict[str, Any] = {
    "openai-responses": {"model": "m", "input": "hi", "stream": True},
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True},
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    },
    "gemini": {"model": "gemini-2.5-flash", "contents": "hi"},
}
APIS = tuple(_ASKED)
PAIRS = [
    (api, library)
    for api in APIS
    for library in (httpx2, httpx)
    if (api, library) != ("anthropic", httpx)
]
"""Which SDK takes a client of which library."""


class Streamed(NamedTuple):
    """The events as data, and the exception that ended them: the SDK's own, and the library's
    behind it.
    """

    events: list[Any]
    error: BaseException | None = None

    @property
    def failure(self) -> tuple[str, str] | None:
        """What a program can tell failures by."""
        if self.error is None:
            return None
        cause = self.error.__cause__
        return _name(self.error), _name(cause) if isinstance(
            cause, httpx.HTTPError | httpx2.HTTPError
        ) else ""


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


def streamed(api: str, http: Any, base: str = BASE) -> Streamed:
    events: list[Any] = []
    try:
        if api == "gemini":
            with gemini_client(base, "v1beta", httpx_client=http) as client:
                for event in client.models.generate_content_stream(**_ASKED[api]):
                    events.append(_data(event))
        else:
            way = WAYS[api]
            with way.resource(way.client(base, http_client=http)).create(**_ASKED[api]) as stream:
                for event in stream:
                    events.append(_data(event))
    except Exception as error:
        return Streamed(events, error)
    return Streamed(events)


async def streamed_async(api: str, http: Any, base: str = BASE) -> Streamed:
    events: list[Any] = []
    try:
        if api == "gemini":
            with gemini_client(base, "v1beta", httpx_async_client=http) as client:
                async for event in await client.aio.models.generate_content_stream(**_ASKED[api]):
                    events.append(_data(event))
        else:
            way = WAYS[api]
            async with await way.resource(way.client_async(base, http_client=http)).create(
                **_ASKED[api]
            ) as stream:
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
