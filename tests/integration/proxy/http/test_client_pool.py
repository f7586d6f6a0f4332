"""Connections to upstreams that are used again: for whom, for how long, and in which state only."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from recorder.errors import UpstreamError
from recorder.proxy.http.client_connection import ClientConnection
from recorder.proxy.http.messages import Request, WholeUpload
from recorder.proxy.http.network import Endpoint
from recorder.proxy.upstream import UpstreamTransport
from tests.support.event_loop import DEADLINE_S, Clock, both_loops, eventually, on_uvloop, turns
from tests.support.proxy import Proxied, get, proxied, request_for, upstream_transport
from tests.support.sockets import (
    Reset,
    ScriptedUpstream,
    Send,
    Stall,
    Wait,
    answer,
    head,
    listening,
    reset,
)

ANSWER = head(b"Content-Length: 4") + b"mine"
ANOTHER = head(b"Content-Length: 6") + b"theirs"


async def ask(
    client: UpstreamTransport, url: str, *headers: tuple[str, str], method: str = "GET"
) -> bytes:
    """The body of the answer, which must come."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            response = await client.handle_async_request(
                request_for(method, url, headers=list(headers))
            )
            try:
                return b"".join([chunk async for chunk in response.stream])
            finally:
                await response.stream.aclose()
    except TimeoutError:
        pytest.fail("a request waits for ever")


async def connect(port: int) -> ClientConnection:
    connected = socket.create_connection(("127.0.0.1", port))
    connected.setblocking(False)
    made = await asyncio.get_running_loop().create_connection(
        lambda: ClientConnection(connected), sock=connected
    )
    return made[1]


# -- in which state


@both_loops
async def test_a_response_that_nobody_took_leaves_no_connection_that_is_not_read() -> None:
    large = answer(b"x" * 70_000)
    async with ScriptedUpstream(large, answer(b"next")) as upstream, upstream_transport() as client:
        left = await client.handle_async_request(request_for("GET", upstream.base))
        await eventually(lambda: upstream.sent_bytes > 70_000)
        await turns()  # until all of it is here
        await left.stream.aclose()
        assert await ask(client, upstream.base) == b"next"
    assert upstream.connections == 2


class Leavers:
    """An upstream of JSON answers, and clients that ask for them through a recorder, half of whom
    leave.
    """

    def __init__(self, proxy: Proxied, seed: int) -> None:
        self._proxy, self._random = proxy, random.Random(seed)
        self.whole = self.left = 0

    @staticmethod
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readuntil(b"\r\n\r\n"):
            size = int(request.split(b" ", 2)[1].rpartition(b"/")[2])
            writer.write(head(b"Content-Length: %d" % size) + b"x" * size)
            await writer.drain()

    async def client(self, requests: int) -> None:
        for _ in range(requests):
            size, leaves = self._random.randrange(70_000, 120_000), self._random.random() < 0.5
            async with await self._proxy.connect(receive_buffer=4096) as client:
                await client.send(get(f"/v1/{size}"))
                if leaves:
                    await asyncio.sleep(self._random.random() * 0.02)
                    self.left += 1
                    if self._random.random() < 0.5:
                        reset(client.socket)
                else:
                    async with asyncio.timeout(DEADLINE_S):
                        response = await client.response()
                    assert (response.ending, len(response.body)) == ("complete", size)
                    self.whole += 1


async def leave_at_random(folder: Path, clients: int, requests: int, *, durable: bool) -> None:
    seed = int.from_bytes(os.urandom(4))
    try:
        async with listening(Leavers.serve) as base, proxied(folder, base, strict=durable) as proxy:
            leavers = Leavers(proxy, seed)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(clients):
                    tasks.create_task(leavers.client(requests))
            assert leavers.whole + leavers.left == clients * requests
            await eventually(lambda: proxy.server.open == 0)
    except BaseException as error:
        error.add_note(f"The seed was {seed}.")
        raise


@pytest.mark.long
@pytest.mark.parametrize("durable", [False, True], ids=["journal", "strict"])
@on_uvloop
async def test_of_1000_requests_none_waits_for_one_whose_client_has_left(
    tmp_path: Path, durable: bool
) -> None:
    await leave_at_random(tmp_path, 40, 25, durable=durable)


@both_loops
async def test_a_connection_that_is_reset_as_soon_as_it_is_made_is_an_error() -> None:
    async with (
        ScriptedUpstream([Reset()], read_request=False) as upstream,
        upstream_transport() as client,
    ):
        for _ in range(100):
            with pytest.raises(UpstreamError):
                await ask(client, upstream.base)


@both_loops
async def test_a_connection_that_was_lost_before_it_was_asked_is_an_error() -> None:
    async with ScriptedUpstream([Reset()], read_request=False) as upstream:
        connection = await connect(upstream.port)
        await eventually(lambda: connection.closed)
        reply = connection.begin(b"GET / HTTP/1.1\r\n\r\n", None, chunked=False, is_head=False)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(UpstreamError):
                await reply.head()


# -- for how long, and how many


class Listening:
    """An upstream that answers every request, and counts who is connected."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.open = 0
        self.base = ""

    @property
    def connections(self) -> int:
        return len(self.writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.open += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(ANSWER)
        finally:
            self.open -= 1

    @asynccontextmanager
    async def __call__(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Listening]:
        async with listening(self._serve, tls) as base:
            self.base = f"{base}/"
            yield self


async def test_an_idle_connection_is_kept_for_some_seconds_and_no_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    async with Listening()() as upstream, upstream_transport() as client:
        await ask(client, upstream.base)
        await clock.forward(10)
        await ask(client, upstream.base)
        await clock.forward(10)  # since it was used last
        assert (upstream.connections, upstream.open) == (1, 1)
        await clock.forward(20)
        await eventually(lambda: upstream.open == 0)
        await ask(client, upstream.base)
        assert upstream.connections == 2


@on_uvloop
async def test_however_many_keys_are_used_100_connections_are_kept_those_that_were_used_last() -> (
    None
):
    async with Listening()() as upstream, upstream_transport() as client:
        for number in range(150):
            await ask(client, upstream.base, ("x-api-key", f"{number}"))
        await eventually(lambda: upstream.open == 100)
        for number in (149, 50, 49):
            await ask(client, upstream.base, ("x-api-key", f"{number}"))
        assert upstream.connections == 151


# -- for whom


CREDENTIALS = [
    "Authorization",
    "x-api-key",
    "api-key",
    "X-Goog-Api-Key",
    "cookie",
    "?key",
    "?access_token",
]


@on_uvloop
async def test_a_connection_is_used_again_for_the_same_credentials_only() -> None:
    for place in CREDENTIALS:
        async with Listening()() as upstream, upstream_transport() as client:
            connections = []
            for value in ("mine", "mine", "yours", "mine", "yours", ""):
                if place.startswith("?"):
                    await ask(
                        client,
                        f"{upstream.base}v1?alt=sse&{place[1:]}={value}",
                        ("x-request-id", value),
                    )
                else:
                    await ask(client, upstream.base, (place, value), ("x-request-id", value))
                connections.append(upstream.connections)
            assert connections == [1, 1, 2, 2, 2, 3], place


@on_uvloop
async def test_requests_without_credentials_share_connections_whatever_else_they_say() -> None:
    async with Listening()() as upstream, upstream_transport() as client:
        for number in range(3):
            await ask(
                client, f"{upstream.base}{number}?limit={number}", ("x-request-id", f"{number}")
            )
        assert upstream.connections == 1


def test_no_credential_is_kept_and_what_is_kept_tells_nothing_outside() -> None:
    endpoint = Endpoint("https", "api.test", 443)
    asked = (endpoint, [(b"Authorization", b"Bearer sk-secret")], b"/v1?key=AIza-secret")
    pool = UpstreamTransport()
    assert pool.key(*asked) == pool.key(*asked)
    assert pool.key(*asked) != UpstreamTransport().key(*asked), "each process has its own digests"
    assert "secret" not in repr(pool.key(*asked))


def test_where_one_value_ends_and_the_next_begins_is_part_of_it() -> None:
    pool, endpoint = UpstreamTransport(), Endpoint("https", "api.test", 443)
    one = pool.key(endpoint, [(b"x-api-key", b"ab"), (b"cookie", b"c")], b"/")
    assert one != pool.key(endpoint, [(b"x-api-key", b"a"), (b"cookie", b"bc")], b"/")
    assert one != pool.key(endpoint, [(b"x-api-key", b"abcookie:c")], b"/")


# -- only while it is silent: what is sent here is in the kernel, and no turn of the loop has come
# to read it


@pytest.mark.parametrize("what", ["an answer", "a byte", "the end"])
async def test_what_nobody_asked_for_is_found_before_a_connection_is_used_again(what: str) -> None:
    async with Listening()() as upstream, upstream_transport() as client:
        await ask(client, upstream.base)
        connection = upstream.writers[0].get_extra_info("socket")
        if what == "the end":
            connection = connection.dup()
            connection.shutdown(socket.SHUT_WR)
        else:
            os.write(connection.fileno(), ANOTHER if what == "an answer" else b"\n")
        assert await ask(client, upstream.base) == b"mine"
        assert upstream.connections == 2
        if what == "the end":
            connection.close()


async def test_what_nobody_asked_for_is_found_over_tls_too(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with Listening()(tls) as upstream, upstream_transport() as client:
        for _ in range(2):
            assert await ask(client, upstream.base) == b"mine"
        assert upstream.connections == 1
        upstream.writers[0].write(ANOTHER)
        assert await ask(client, upstream.base) == b"mine"
        assert upstream.connections == 2


@both_loops
async def test_a_server_that_speaks_first_is_asked_once() -> None:
    """Its answer was to nobody; one to the request may come yet."""
    kept: list[ClientConnection] = []
    async with ScriptedUpstream([*answer(b"too early"), Stall()], read_request=False) as upstream:
        connection = await connect(upstream.port)
        connection.on_idle = kept.append
        await eventually(lambda: bool(connection._early))
        reply = connection.begin(b"GET / HTTP/1.1\r\n\r\n", None, chunked=False, is_head=False)
        assert await reply.read() == b"too early"
        reply.close()
        assert (connection.closed, kept) == (True, [])


@on_uvloop
async def test_after_a_status_without_a_body_a_connection_is_not_used_again() -> None:
    for status in (b"204 No Content", b"304 Not Modified"):
        async with (
            ScriptedUpstream([Send(head(status=status))], answer(b"next")) as upstream,
            upstream_transport() as client,
        ):
            assert await ask(client, upstream.base) == b""
            assert await ask(client, upstream.base) == b"next"
        assert upstream.connections == 2, status


@both_loops
async def test_a_connection_that_has_not_sent_all_of_its_request_is_not_used_again() -> None:
    """A server may answer before it has read the body; what of it is not sent yet would go before
    the next request.
    """

    script = [*answer(b"no"), Wait(asyncio.Event())]
    async with (
        ScriptedUpstream(script, read_request=False) as upstream,
        upstream_transport() as client,
    ):
        headers = [(b"host", b"h"), (b"content-length", b"%d" % 2**23)]
        request = Request("POST", httpx.URL(upstream.base), headers, WholeUpload(b"x" * 2**23), {})
        response = await client.handle_async_request(request)
        assert [chunk async for chunk in response.stream] == [b"no"]
        await response.stream.aclose()
        assert await ask(client, upstream.base) == b"no"
        assert upstream.connections == 2
