"""The upstream transport against a raw socket: what goes out, what comes back, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import select
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from recorder.errors import UpstreamError, UsageError
from recorder.proxy.http.client_response import HEAD_BYTES
from recorder.proxy.http.messages import Response
from tests.support.event_loop import DEADLINE_S, both_loops, eventually, on_uvloop, turns
from tests.support.proxy import request_for, upstream_transport
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    Close,
    Flood,
    Reset,
    ScriptedUpstream,
    Send,
    Sleep,
    Stall,
    Wait,
    answer,
    chunked,
    head,
    listening,
)


def answer_bytes(body: bytes) -> bytes:
    return head(b"Content-Length: %d" % len(body)) + body


async def body_of(response: Response) -> tuple[bytes, str]:
    """The body as far as it came, and how it ended."""
    body = b""
    try:
        async for chunk in response.stream:
            body += chunk
    except UpstreamError as error:
        return body, error.outcome
    finally:
        await response.stream.aclose()
    return body, "eof"


async def get(script: list[Action], method: str = "GET") -> tuple[Response, bytes, str]:
    async with ScriptedUpstream(script) as upstream, upstream_transport() as client:
        response = await client.handle_async_request(request_for(method, upstream.base + "/x"))
        return response, *await body_of(response)


class Pieces(httpx.AsyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@on_uvloop
async def test_nothing_is_added_to_a_request_and_its_target_stays_as_it_is() -> None:
    headers = [
        (b"host", b"api.test"),
        (b"x-a", b"1"),
        (b"cookie", b"q=\xc3\xa4"),
        (b"x-a", b"2"),
        (b"accept-encoding", b""),
    ]
    target = b"/a%2Fb//c;d?x=%7e&y=[1]&x=|"
    async with (
        ScriptedUpstream(answer(b"", b"Set-Cookie: kept=1")) as upstream,
        upstream_transport() as client,
    ):
        # a cookie jar would keep nothing for an address
        named = f"http://localhost:{upstream.port}"
        for _ in range(2):
            request = request_for(
                "GET", named, headers=headers, stream=Pieces(), extensions={"target": target}
            )
            await body_of(await client.handle_async_request(request))
    lines = [b"host: api.test", b"x-a: 1", b"cookie: q=\xc3\xa4", b"x-a: 2", b"accept-encoding: "]
    wanted = b"\r\n".join([b"GET " + target + b" HTTP/1.1", *lines, b"", b""])
    assert [request.replace(b"Host:", b"host:") for request in upstream.requests] == [
        wanted,
        wanted,
    ]


SPLIT: dict[str, dict[str, Any]] = {
    "CRLF": {"headers": [(b"x-a", b"1\r\nx-b: 2")]},
    "LF": {"headers": [(b"x-a", b"1\nx-b: 2")]},
    "CR": {"headers": [(b"x-a", b"1\rx-b: 2")]},
    "in a name": {"headers": [(b"x-a\r\nx-b", b"1")]},
    "NUL": {"headers": [(b"x-a", b"1\0")]},
    "in the target": {"extensions": {"target": b"/ HTTP/1.1\r\nx-b: 2\r\n\r\nGET /"}},
    "a space in the target": {"extensions": {"target": b"/x y"}},
}


@on_uvloop
async def test_a_request_that_would_be_read_as_another_is_refused() -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, upstream_transport() as client:
        for fields in SPLIT.values():
            with pytest.raises(UsageError, match="cannot be forwarded"):
                await client.handle_async_request(request_for("GET", upstream.base, **fields))
    assert upstream.connections == 0


@on_uvloop
async def test_a_body_of_unknown_length_goes_up_in_chunks() -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, upstream_transport() as client:
        request = request_for(
            "POST",
            upstream.base,
            headers={"host": "h", "transfer-encoding": "chunked"},
            stream=Pieces(b"abc", b"def"),
        )
        await body_of(await client.handle_async_request(request))
    assert upstream.requests[0].partition(b"\r\n\r\n")[2] == chunked(b"abc", b"def") + LAST_CHUNK


@on_uvloop
async def test_trailers_are_no_part_of_the_body() -> None:
    _, body, outcome = await get(
        [Send(STREAM_HEAD + chunked(b"all") + b"0\r\nX-Sum: 1\r\nX-B: 2\r\n\r\n")]
    )
    assert (body, outcome) == (b"all", "eof")


def head_of(size_bytes: int, body_bytes: int = 0) -> bytes:
    """A response head whose header names and values have that size."""
    rest = size_bytes - len(b"Content-Length0") - 3 * 60_000
    lines = [b"a: " + b"x" * (60_000 - 1)] * 3
    return head(
        b"Content-Length: %d" % body_bytes,
        *lines,
        b"b: " + b"x" * 60_000,
        b"c: " + b"x" * (rest - 60_000 - 2),
    )


@on_uvloop
async def test_a_head_up_to_the_limit_is_read() -> None:
    response, _, outcome = await get([Send(head_of(HEAD_BYTES))])
    assert sum(len(name) + len(value) for name, value in response.headers.raw) == HEAD_BYTES
    assert outcome == "eof"


@both_loops
async def test_trailers_without_an_end_are_an_error() -> None:
    for flood in (b"X-Trailer: " + b"x" * 1000 + b"\r\n", b"x" * 1000):
        script: list[Action] = [Send(STREAM_HEAD + chunked(b"all") + b"0\r\nX-Sum: "), Flood(flood)]
        async with ScriptedUpstream(script) as upstream, upstream_transport() as client:
            response = await client.handle_async_request(request_for("GET", upstream.base))
            assert await asyncio.wait_for(body_of(response), DEADLINE_S) == (
                b"all",
                "upstream_reset",
            )
            await asyncio.wait_for(upstream.gone.wait(), DEADLINE_S)


TOO_LONG: dict[str, list[Action]] = {
    "by a byte": [Send(head_of(HEAD_BYTES + 1, body_bytes=9)), Stall()],
    "without an end": [Send(b"HTTP/1.1 200 OK\r\n"), Flood(b"Via: " + b"v" * 65_000 + b"\r\n")],
    "in the heads before it": [
        Flood(b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 1000 + b"\r\n\r\n")
    ],
}


@pytest.mark.parametrize("case", TOO_LONG)
@both_loops
async def test_a_head_over_the_limit_is_an_error(case: str) -> None:
    async with ScriptedUpstream(TOO_LONG[case]) as upstream, upstream_transport() as client:
        with pytest.raises(
            UpstreamError, match="the head of the upstream's response is over 256 KiB"
        ) as raised:
            await asyncio.wait_for(
                client.handle_async_request(request_for("GET", upstream.base)), DEADLINE_S
            )
        assert raised.value.outcome == "upstream_reset"
        await asyncio.wait_for(upstream.gone.wait(), DEADLINE_S)


@on_uvloop
async def test_only_the_head_counts_and_of_each_response_again() -> None:
    big = answer(
        b"x" * 2**20, b"a: " + b"x" * 60_000, b"b: " + b"x" * 60_000, b"c: " + b"x" * 60_000
    )
    async with ScriptedUpstream(big) as upstream, upstream_transport() as client:
        for _ in range(4):
            response = await client.handle_async_request(request_for("GET", upstream.base))
            assert await body_of(response) == (b"x" * 2**20, "eof")
    assert (upstream.connections, len(upstream.requests)) == (1, 4)


@on_uvloop
async def test_an_informational_response_is_not_the_response() -> None:
    _, body, _ = await get(
        [Send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), *answer(b"late")]
    )
    assert body == b"late"


BROKEN: dict[str, tuple[list[Action], str]] = {
    "reset in a chunked body": (
        [Send(STREAM_HEAD + chunked(b"data: 1\n\n")), Reset()],
        "upstream_reset",
    ),
    "closed in a chunked body": (
        [Send(STREAM_HEAD + chunked(b"data: 1\n\n")), Close()],
        "truncated",
    ),
    "closed in a chunk": ([Send(STREAM_HEAD + b"ff\r\ndata: 1\n\n"), Close()], "truncated"),
    "closed before the last line": (
        [Send(STREAM_HEAD + chunked(b"data: 1\n\n") + b"0\r\n"), Close()],
        "truncated",
    ),
    "not a chunk": ([Send(STREAM_HEAD + chunked(b"data: 1\n\n")), Send(b"zz\r\n")], "truncated"),
    "shorter than its length": (
        [Send(head(b"Content-Length: 99") + b"data: 1\n\n"), Close()],
        "truncated",
    ),
    "reset before its length": (
        [Send(head(b"Content-Length: 99") + b"data: 1\n\n"), Reset()],
        "upstream_reset",
    ),
    "reset where closing is the end": (
        [Send(head(b"X: 1") + b"data: 1\n\n"), Reset()],
        "upstream_reset",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
@both_loops
async def test_a_broken_body_never_looks_like_a_whole_one(case: str) -> None:
    script, wanted = BROKEN[case]
    proceed = asyncio.Event()
    async with (
        ScriptedUpstream([*script[:-1], Wait(proceed), script[-1]]) as upstream,
        upstream_transport() as client,
    ):
        response = await client.handle_async_request(request_for("GET", upstream.base))
        chunks = aiter(response.stream)
        assert await anext(chunks) == b"data: 1\n\n"
        proceed.set()
        with pytest.raises(UpstreamError) as raised:
            await anext(chunks)
        await response.stream.aclose()
    assert raised.value.outcome == wanted


@both_loops
async def test_what_had_arrived_before_the_break_is_delivered_before_the_error() -> None:
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(b"a" * 1000)),
        Send(chunked(b"b" * 1000)),
        Close(),
    ]
    async with ScriptedUpstream(script) as upstream, upstream_transport() as client:
        response = await client.handle_async_request(request_for("GET", upstream.base))
        await eventually(lambda: upstream.sent_bytes > 2000)
        await turns()  # until the FIN is here too, before anything was read
        assert await body_of(response) == (b"a" * 1000 + b"b" * 1000, "truncated")


UNANSWERED: dict[str, tuple[list[Action], str]] = {
    "reset": ([Reset()], "upstream_reset"),
    "closed": ([Close()], "truncated"),
    "closed in the head": ([Send(b"HTTP/1.1 200 OK\r\nX-A: "), Close()], "truncated"),
    "not HTTP": ([Send(b"SSH-2.0-OpenSSH_9.2\r\n"), Stall()], "upstream_reset"),
}


@pytest.mark.parametrize("case", UNANSWERED)
@pytest.mark.parametrize("method", ["GET", "POST"])
@on_uvloop
async def test_a_request_is_sent_once_whatever_becomes_of_it(case: str, method: str) -> None:
    script, wanted = UNANSWERED[case]
    async with (
        ScriptedUpstream(answer(b"first"), script) as upstream,
        upstream_transport() as client,
    ):
        url = upstream.base + "/?key=secret"
        await body_of(await client.handle_async_request(request_for("GET", url)))
        # on the connection that was kept, where others try again
        with pytest.raises(UpstreamError) as raised:
            await client.handle_async_request(request_for(method, url))
    assert raised.value.outcome == wanted
    assert "secret" not in str(raised.value)
    assert (upstream.connections, len(upstream.requests)) == (1, 2)


@both_loops
async def test_an_upstream_that_is_not_there_is_unreachable() -> None:
    async with ScriptedUpstream([Close()]) as upstream:
        base = upstream.base
    async with upstream_transport() as client:
        for url in (base, "http://no-such-host.invalid/", f"http://{'x' * 64}.invalid/"):
            with pytest.raises(UpstreamError) as raised:
                await client.handle_async_request(request_for("GET", url))
            assert raised.value.outcome == "upstream_unreachable"


LEFT_OVER: dict[str, list[Action]] = {
    "after the body": [Send(answer_bytes(b"one") + b"more")],
    "another response": [Send(answer_bytes(b"one") + answer_bytes(b"nobody asked"))],
    "afterwards": [Send(answer_bytes(b"one")), Sleep(0.02), Send(answer_bytes(b"nobody asked"))],
    "that it closes": [Send(head(b"Content-Length: 3", b"Connection: close") + b"one")],
    "of HTTP/1.0": [Send(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\none")],
}


@pytest.mark.parametrize("case", LEFT_OVER)
@on_uvloop
async def test_a_connection_with_anything_left_over_is_not_used_again(case: str) -> None:
    said = sum(len(action.data) for action in LEFT_OVER[case] if isinstance(action, Send))
    async with (
        ScriptedUpstream(LEFT_OVER[case], answer(b"two")) as upstream,
        upstream_transport() as client,
    ):
        for wanted in (b"one", b"two"):
            response = await client.handle_async_request(request_for("GET", upstream.base))
            assert await body_of(response) == (wanted, "eof")
            await eventually(lambda: upstream.sent_bytes >= said)
    assert upstream.connections == 2


@both_loops
async def test_a_client_that_has_taken_all_before_the_pump_has_its_turn_does_not_hold_it_up() -> (
    None
):
    class Flow:
        write_paused = False

        async def drain(self) -> None:
            raise AssertionError("it is not paused any more")

        def resume(self) -> None:
            self.write_paused = False

    flow, loop, received = Flow(), asyncio.get_running_loop(), []

    def sink(data: bytes) -> None:
        received.append(data)
        flow.write_paused = True
        loop.call_soon(flow.resume)  # which is before the turn of the task that this chunk wakes

    piece: list[Action] = [Send(chunked(b"x")), Sleep(0.01)]
    script: list[Action] = [Send(STREAM_HEAD), *piece, *piece, *piece, Send(LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream, upstream_transport() as client:
        response = await client.handle_async_request(request_for("GET", upstream.base))
        received.append(response.stream.begun())
        received.append(await asyncio.wait_for(response.stream.pump(sink, flow), DEADLINE_S))
        await response.stream.aclose()
    assert b"".join(received) == b"xxx"


@pytest.mark.long
@both_loops
async def test_a_request_whose_body_was_not_taken_leaves_no_connection_behind() -> None:
    """A server that answers before it has read the body would take its rest for the next request."""

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"the beginning"
            await asyncio.Event().wait()

    async with (
        ScriptedUpstream(answer(b"no"), read_request=False) as upstream,
        upstream_transport() as client,
    ):
        request = request_for(
            "POST",
            upstream.base,
            headers={"host": "h", "transfer-encoding": "chunked"},
            stream=Endless(),
        )
        assert (await body_of(await client.handle_async_request(request)))[1] == "eof"
        await body_of(await client.handle_async_request(request_for("GET", upstream.base)))
        assert upstream.connections == 2


@asynccontextmanager
async def over_tls(certificate: Path, answers: bytes) -> AsyncIterator[str]:
    """A server that answers every request over TLS; its URL."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answers)

    async with listening(serve, context) as base:
        yield f"{base}/"


@both_loops
async def test_an_upstream_is_spoken_to_over_tls(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    long = b"x" * 300_000
    async with over_tls(certificate, answer_bytes(long)) as url, upstream_transport() as client:
        for _ in range(3):
            response = await client.handle_async_request(request_for("GET", url))
            assert await body_of(response) == (long, "eof")


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 400), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@both_loops
async def test_connections_that_wait_make_room_where_no_descriptor_is_left() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    asked = request_for("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/x")
    async with ScriptedUpstream(answer(b"a")) as upstream, upstream_transport() as client:
        assert (
            await body_of(
                await client.handle_async_request(request_for("GET", upstream.base + "/x"))
            )
        )[0] == b"a"
        with listener:
            with no_descriptor_left():
                asking = asyncio.ensure_future(client.handle_async_request(asked))
                await eventually(
                    lambda: asking.done() or bool(select.select([listener], [], [], 0)[0])
                )
            assert not asking.done() or asking.result()
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(answer_bytes(b"b"))
                assert await body_of(await asking) == (b"b", "eof")


@both_loops
async def test_where_no_descriptor_is_left_the_client_may_try_again() -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, upstream_transport() as client:
        with no_descriptor_left(), pytest.raises(UpstreamError, match="ulimit -n") as raised:
            await client.handle_async_request(request_for("GET", upstream.base + "/x"))
    assert (raised.value.outcome, raised.value.status) == ("upstream_unreachable", 503)
