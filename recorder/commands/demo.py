"""`recorder demo`: the main job from end to end, against a built-in upstream, over real sockets."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click
import httpx
import msgspec
from click.core import ParameterSource
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url, database_name
from recorder.commands import recorder
from recorder.commands.env import DEFAULT_URL
from recorder.commands.ops.recover import recover_left
from recorder.commands.serving.listening import listening
from recorder.commands.serving.recording import Ending, recording
from recorder.commands.terminal.options import database_option, flag
from recorder.commands.terminal.output import echo, write_line
from recorder.demo.provider import provider
from recorder.errors import RecorderError, UsageError
from recorder.model.events import BODY_KINDS, SWITCHED
from recorder.proxy.http import server
from recorder.proxy.routing import Upstream
from recorder.store.queries.session_named import session_named
from recorder.wire.dialects.json_values import request_object
from recorder.wire.framing.websocket import Message, MessageParser, encode_close, encode_frame

HOST = "127.0.0.1"
PORT = 8900  # of the provider that stays up
UPSTREAMS = ("openai", "anthropic", "gemini", "ollama", "bedrock")  # that it stands for
EXAMPLE_BODY = '{"model": "gpt-demo", "input": "What is the weather in Paris?", "stream": true}'
DRAIN_S = 5.0  # for the ingester; what is left is ingested here

QUESTION = "What is the weather like in Paris and in Zürich?"

TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
]
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "What is a stream?"}]}]}
CHAT = {"model": "gpt-demo", "stream": True, "stream_options": {"include_usage": True}}
ANTHROPIC = {"model": "claude-demo", "stream": True, "max_tokens": 1024}

TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
KEY_BYTES, MASK_BYTES = 16, 4
READ_BYTES = 64 * 2**10
UPGRADE = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}


class DemoClient:
    """The client, connected."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._parser = MessageParser(from_client=False)

    async def ask(self, request: dict[str, Any]) -> list[bytes]:
        """Send a request; return the messages that answer it.

        Raises `RecorderError` if the server leaves before.
        """
        message = msgspec.json.encode({"type": "response.create", **request})
        await self._stream.write(encode_frame("text", message, mask=os.urandom(MASK_BYTES)))
        received: list[bytes] = []
        while not received or request_object(received[-1]).get("type") not in TERMINAL:
            data = await self._stream.read(READ_BYTES)
            if not data:
                raise RecorderError("The server has ended the WebSocket connection in mid-answer.")
            parts = self._parser.feed(data)
            received += [
                part.payload
                for part in parts
                if isinstance(part, Message) and part.opcode == "text"
            ]
        return received


@asynccontextmanager
async def connected(client: httpx.AsyncClient, path: str) -> AsyncIterator[DemoClient]:
    """Connect for the length of the block, and close properly.

    Raises `RecorderError` if the server refuses.
    """
    headers = {**UPGRADE, "sec-websocket-key": b64encode(os.urandom(KEY_BYTES)).decode()}
    async with client.stream("GET", path, headers=headers) as response:
        if response.status_code != SWITCHED:
            raise RecorderError(
                f"The server refuses the WebSocket connection: status {response.status_code}."
            )
        stream = response.extensions["network_stream"]
        yield DemoClient(stream)
        await stream.write(encode_close(1000, mask=os.urandom(MASK_BYTES)))
        while await stream.read(READ_BYTES):
            pass


@click.command()
@flag("--serve", help="Only serve the built-in upstream, until interrupted.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    help="With --serve: where it listens, on this machine only. 0 is any free one.",
)
@database_option
@click.pass_context
def command(ctx: click.Context, db: str | None, serve: bool, port: int) -> None:
    """Record, show, count and replay a session against a built-in upstream: no key, no network,
    under 15 seconds.

    With --serve the upstream stays up: a provider on this machine for OpenAI Responses, also over
    WebSocket, and Chat Completions, Anthropic Messages, Gemini, Ollama, Bedrock's Converse and
    hosted agents, which prints its URL on stdout. Its answers are bundled recordings. It accepts
    any key but those with the word wrong in them. Words in a question choose the answer: weather,
    search, refuse, slow, fail, rate limit, unauthorized, bad request; for agents also shell and
    delegate.

    \b
    recorder demo
    recorder demo --db /tmp/demo.db
    recorder demo --serve
    """
    if serve:
        server.run(_serve(port))
        return
    if ctx.get_parameter_source("port") is ParameterSource.COMMANDLINE:
        raise UsageError("--port is where --serve listens: give both.")
    url = chosen_url(db)
    given = (
        ("--db", db) if db and ctx.get_parameter_source("db") is ParameterSource.COMMANDLINE else ()
    )
    name = time.strftime("demo-%Y%m%d-%H%M%S")
    echo(f"Recording session {name} to {database_name(url)}:")
    received = server.run(_record(url, name))
    recover_left(url)
    _run("sessions", "--limit", "3", *given)
    _run("show", name, *given)
    _run("usage", "--by", "model", *given)
    _run("replay", name, "--exchange", "2", "--format", "text", *given)
    _compare(asyncio.run(_recorded(url, name)), received)
    echo("Go on:")
    for further in (
        ("show", name, "--at", "50%"),
        ("events", name),
        ("query", "--list"),
        ("serve",),
    ):
        echo(f"  {shlex.join(('recorder', *further, *given))}")
    echo("See it in a browser:")
    echo(f"  {shlex.join(('recorder', 'ui', name, *given))}")


async def _serve(port: int) -> None:
    app = provider()
    await server.serve(
        app,
        HOST,
        port,
        on_ready=_say_how_to_use,
        on_stop=app.stop,
        on_drain=app.shutdown,
        grace_s=0,
    )


def _say_how_to_use(port: int) -> None:
    base_url = f"http://{HOST}:{port}"
    write_line(base_url)
    echo(
        "The demo upstream listens; Ctrl-C ends it. Record what passes, and ask, in two other shells:"
    )
    echo(f"  recorder serve {' '.join(f'--upstream {name}={base_url}' for name in UPSTREAMS)}")
    echo(f"  curl -N {DEFAULT_URL}/v1/responses -H 'Content-Type: application/json' \\")
    echo(f"    -d '{EXAMPLE_BODY}'")


def _run(*arguments: str) -> None:
    """Run a command as a user would, and print it first."""
    echo(f"\n$ {shlex.join(('recorder', *arguments))}")
    recorder.main(arguments, prog_name="recorder", standalone_mode=False)


async def _record(url: URL, name: str) -> list[bytes]:
    """Record several exchanges through the real proxy; return the bodies that the client received,
    in order.
    """
    async with listening(provider()) as upstream, recorder_before(upstream, url) as base_url:
        return await converse(base_url, name)


@asynccontextmanager
async def recorder_before(base_url: str, url: URL) -> AsyncIterator[str]:
    """Record into the database at `url` what passes to the provider at `base_url`; yield the URL
    for its clients.
    """
    upstreams = [Upstream(name, base_url) for name in UPSTREAMS]
    # The recorder stops before its upstream does, or Ctrl-C would be recorded as a fault of that.
    async with recording(url, upstreams, ending=Ending(DRAIN_S)) as proxy, listening(proxy) as base:
        yield base


async def converse(base_url: str, name: str) -> list[bytes]:
    """Ask what the demo shows, through the recorder at that URL, as one session; return the bodies
    in order.
    """
    async with httpx.AsyncClient(base_url=f"{base_url}/s/{name}", timeout=30) as client:
        return await _converse(client)


async def _converse(client: httpx.AsyncClient) -> list[bytes]:
    question = [{"role": "user", "content": QUESTION}]
    request = {"model": "gpt-demo", "stream": True, "tools": TOOLS}
    first = await _ask(client, "/v1/responses", {**request, "input": question})
    called = msgspec.json.decode(first.rstrip().rpartition(b"data: ")[2])["response"]
    # As an agent sends them next: the calls, and their results.
    answered = [*question, *_calls(called), *_results(called)]
    second = await _ask(client, "/v1/responses", {**request, "input": answered})
    messages = [{"role": "user", "content": "What is a stream?"}]
    completion, message = {**CHAT, "messages": messages}, {**ANTHROPIC, "messages": messages}
    async with asyncio.TaskGroup() as tasks:
        # All at once, but each begins in its turn: the upstream's chance goes by the number of a
        # request.
        is_warm, go_on = asyncio.Event(), asyncio.Event()
        started = [await _begun(tasks, client, "/v1/chat/completions", completion)]
        over_websocket = tasks.create_task(_converse_over_websocket(client, is_warm, go_on))
        await is_warm.wait()
        started.append(await _begun(tasks, client, "/v1/messages", message))
        started.append(
            await _begun(
                tasks, client, "/v1beta/models/gemini-demo:streamGenerateContent?alt=sse", GEMINI
            )
        )
        go_on.set()
    return [first, second, *(task.result() for task in started), *over_websocket.result()]


async def _converse_over_websocket(
    client: httpx.AsyncClient, is_warm: asyncio.Event, go_on: asyncio.Event
) -> list[bytes]:
    """Prewarm a connection, ask, and send the results of the tools: each request has only what is
    new.
    """
    request: dict[str, Any] = {"model": "gpt-demo", "tools": TOOLS}
    steps: list[bytes] = []
    new: list[dict[str, Any]] = [{"role": "developer", "content": "Be brief."}]
    async with connected(client, "/v1/responses") as connection:
        for more in ({"generate": False}, {}, {}):
            began = time.monotonic()
            messages = await connection.ask({**request, "input": new, **more})
            steps.append(b"".join(messages))
            taken_s = time.monotonic() - began
            echo(
                f"  WEBSOCKET /v1/responses  {len(messages)} messages, {len(steps[-1]):,} bytes in {taken_s:.1f} s"
            )
            response = msgspec.json.decode(messages[-1])["response"]
            request["previous_response_id"] = response["id"]
            new = _results(response) or [{"role": "user", "content": QUESTION}]
            is_warm.set()
            await go_on.wait()
    return steps


async def _begun(
    tasks: asyncio.TaskGroup, client: httpx.AsyncClient, path: str, body: Mapping[str, Any]
) -> asyncio.Task[bytes]:
    """Send a request, and return when its response begins."""
    has_begun = asyncio.Event()
    task = tasks.create_task(_ask(client, path, body, has_begun))
    await has_begun.wait()
    return task


async def _ask(
    client: httpx.AsyncClient,
    path: str,
    request: Mapping[str, Any],
    has_begun: asyncio.Event | None = None,
) -> bytes:
    began = time.monotonic()
    async with client.stream("POST", path, json=request) as response:
        if has_begun is not None:
            has_begun.set()
        body = b"".join([chunk async for chunk in response.aiter_raw()])
    echo(
        f"  POST {path}  {response.status_code}  {len(body):,} bytes in {time.monotonic() - began:.1f} s"
    )
    return body


def _calls(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"] == "function_call"]


def _results(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of the function calls of a response."""
    calls = _calls(response)
    return [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "18 °C, clear"}
        for call in calls
    ]


async def _recorded(url: URL, name: str) -> list[bytes]:
    async with await open_log(url) as log:
        session = await session_named(log, name)
        bodies = [
            b"".join(
                [
                    event.raw
                    async for event in log.events(
                        session.session_id, each.exchange_id, kinds=BODY_KINDS
                    )
                ]
            )
            for each in await log.exchanges(session.session_id)
        ]
        # the WebSocket connection has none: its turns have its messages
        return [body for body in bodies if body]


def _compare(recorded: Sequence[bytes], received: Sequence[bytes]) -> None:
    same = sorted(recorded) == sorted(received)
    size = sum(map(len, received))
    verdict = "byte for byte what the client received" if same else "NOT what the client received"
    echo(f"\n{len(recorded)} responses, {size:,} bytes: the log holds {verdict}.")
    if not same:
        raise SystemExit(1)
