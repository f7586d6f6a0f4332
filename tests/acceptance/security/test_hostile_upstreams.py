"""Upstreams that answer more than they were asked, less, or something else: nobody gets the answer
of another.

Each request has a mark, `<client-number>`. Its right answer repeats it, and so does what else is
sent because of it.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.event_loop import on_uvloop
from tests.support.proxy import Proxied, get, proxied
from tests.support.sockets import LAST_CHUNK, RawClient, RawResponse, chunked, head, listening

CLIENTS = 20
PATIENCE_S = 30.0  # whoever waits for longer waits for ever
LATE_S = 0.03  # the longest after which anything comes that nobody asked for

MARK = re.compile(rb"<(\w+)-(\d+)>")
METHODS = ["GET", "GET", "GET", "HEAD", "POST"]

Sends = list[bytes | float]
"""Bytes, and seconds in between; an empty piece ends the connection."""


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return head(b"Content-Length: %d" % len(body), status=status) + body


def in_pieces(data: bytes, chance: random.Random) -> Sends:
    cuts = [0, *sorted(chance.sample(range(1, len(data)), 3)), len(data)]
    return [
        send
        for start, end in pairwise(cuts)
        for send in (chance.random() * LATE_S / 4, data[start:end])
    ]


Behaviour = Callable[[bytes, random.Random], Sends]
"""What is sent because of a request, by the body of the right answer."""

BEHAVIOURS: dict[str, Behaviour] = {
    "as it should be": lambda body, chance: [whole(body)],
    "in chunks": lambda body, chance: [
        head(b"Transfer-Encoding: chunked") + chunked(body) + LAST_CHUNK
    ],
    "twice": lambda body, chance: [whole(body) * 2],
    "twice, in two pieces": lambda body, chance: [whole(body), whole(body)],
    "again, later": lambda body, chance: [whole(body), chance.random() * LATE_S, whole(body)],
    "again, in pieces": lambda body, chance: [whole(body), *in_pieces(whole(body), chance)],
    "again and again": lambda body, chance: [
        whole(body),
        0.005,
        whole(body) * 20,
        0.005,
        whole(body) * 20,
    ],
    "a byte more": lambda body, chance: [whole(body), chance.random() * LATE_S, b"H"],
    "a line more": lambda body, chance: [whole(body) + b"\r\n", chance.random() * LATE_S, b"\r\n"],
    "too short a length": lambda body, chance: [head(b"Content-Length: 5") + body + whole(body)],
    "too long a length": lambda body, chance: [head(b"Content-Length: 99999") + body, LATE_S, b""],
    "two lengths": lambda body, chance: [
        head(b"Content-Length: 5", b"Content-Length: 9") + body + whole(body)
    ],
    "a length and chunks": lambda body, chance: [
        head(b"Content-Length: 5", b"Transfer-Encoding: chunked")
        + chunked(body)
        + LAST_CHUNK
        + whole(body)
    ],
    "chunks and then more": lambda body, chance: [
        head(b"Transfer-Encoding: chunked") + chunked(body) + LAST_CHUNK,
        chance.random() * LATE_S,
        chunked(body) + LAST_CHUNK + whole(body),
    ],
    "announced": lambda body, chance: [b"HTTP/1.1 100 Continue\r\n\r\n" * 50, 0.001, whole(body)],
    "announced with the mark": lambda body, chance: [
        head(b"X: " + body, status=b"103 Early Hints"),
        whole(body),
    ],
    "announced afterwards": lambda body, chance: [
        whole(body),
        chance.random() * LATE_S,
        head(b"X: " + body, status=b"103 Early Hints") * 50,
    ],
    "announced without end": lambda body, chance: [
        head(b"X: " + body, status=b"103 Early Hints") * 9_000,
        b"",
    ],
    "204 with a body": lambda body, chance: [head(status=b"204 No Content") + whole(body)],
    "204 with a body, later": lambda body, chance: [
        head(status=b"204 No Content"),
        LATE_S / 2,
        whole(body),
    ],
    "304 with a body": lambda body, chance: [whole(whole(body), status=b"304 Not Modified")],
    "304 with a body, later": lambda body, chance: [
        head(b"Content-Length: 9", status=b"304 Not Modified"),
        LATE_S / 2,
        whole(body),
    ],
    "closed": lambda body, chance: [whole(body), b""],
    "cut": lambda body, chance: [whole(body)[:-3], b""],
    "no HTTP": lambda body, chance: [body],
}


class Hostile:
    """An upstream that behaves in one of these ways, or also speaks before it is asked."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._silent = asyncio.Event()

    async def silence(self) -> None:
        """Wait until all is sent that was to be; for one request at a time."""
        async with asyncio.timeout(PATIENCE_S):
            await self._silent.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._random.random() < 0.02:
            writer.write(whole(b"to nobody"))
        while not writer.is_closing():
            request = await reader.readuntil(b"\r\n\r\n")
            mark = request.split(b" ", 2)[1].rpartition(b"/")[2]
            if request.startswith(b"POST") and self._random.random() < 0.8:
                await reader.readexactly(2)
            behaviour = self._random.choice(list(BEHAVIOURS.values()))
            self._silent.clear()
            try:
                await self._play(
                    writer, behaviour(b"<%b>" % mark * self._random.randrange(1, 50), self._random)
                )
            finally:
                self._silent.set()

    async def _play(self, writer: asyncio.StreamWriter, sends: Sends) -> None:
        for send in sends:
            if isinstance(send, float):
                await asyncio.sleep(send)
            elif send:
                writer.write(send)
                await writer.drain()
            else:
                writer.close()
                return


class Asking:
    """A client with a key of its own, or with that of all."""

    def __init__(self, proxy: Proxied, name: str, key: str, seed: int) -> None:
        self._proxy, self._name, self._key = proxy, name, key
        self._random = random.Random(seed)
        self._client: RawClient | None = None
        self.right = 0

    async def ask(self, number: int) -> tuple[bytes, set[tuple[bytes, bytes]]]:
        """The mark of a request, and those in what came of it."""
        method = self._random.choice(METHODS)
        if self._client is None:
            self._client = await self._proxy.connect()
        mark = f"{self._name}-{number}"
        body = b"{}" if method == "POST" else b""
        await self._client.send(
            get(f"/v1/{mark}", f"x-api-key: {self._key}".encode(), method=method, body=body)
        )
        async with asyncio.timeout(PATIENCE_S):
            response = await self._client.response(to_head=method == "HEAD")
        found = self._marks(response)
        self.right += found == {tuple(mark.encode().split(b"-"))}
        if response.ending != "complete" or response.header(b"connection") == b"close":
            self.close()
        return mark.encode(), found

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None

    def _marks(self, response: RawResponse) -> set[tuple[bytes, bytes]]:
        assert re.fullmatch(rb"(200|204|304|502) [\w ]+", response.status), response
        text = b"\n".join(
            [response.status, *[b": ".join(header) for header in response.headers], response.body]
        )
        return set(MARK.findall(text))


@asynccontextmanager
async def hostile(folder: Path) -> AsyncIterator[tuple[Hostile, Proxied, random.Random]]:
    seed = int.from_bytes(os.urandom(4))
    try:
        upstream = Hostile(seed)
        async with listening(upstream.serve) as base, proxied(folder, base) as proxy:
            yield upstream, proxy, random.Random(seed)
    except BaseException as error:
        error.add_note(f"The seed was {seed}.")
        raise


async def with_keys_of_their_own(folder: Path, requests: int) -> None:
    async with hostile(folder) as (_, proxy, chance):

        async def asks(client: Asking, name: bytes) -> None:
            for number in range(requests // CLIENTS):
                _, found = await client.ask(number)
                assert {owner for owner, _ in found} <= {name}
            client.close()

        clients = [
            Asking(proxy, f"c{n}", f"key-{n}", chance.randrange(2**32)) for n in range(CLIENTS)
        ]
        async with asyncio.TaskGroup() as tasks:
            for number, client in enumerate(clients):
                tasks.create_task(asks(client, b"c%d" % number))
        assert sum(client.right for client in clients) > requests / 3


async def one_after_another(folder: Path, requests: int) -> None:
    async with hostile(folder) as (upstream, proxy, chance):
        client = Asking(proxy, "c", "the same", chance.randrange(2**32))
        for number in range(requests):
            mark, found = await client.ask(number)
            assert found <= {tuple(mark.split(b"-"))}
            await upstream.silence()
        client.close()
        assert client.right > requests / 3


@on_uvloop
async def test_nobody_gets_what_belongs_to_another_key(tmp_path: Path) -> None:
    await with_keys_of_their_own(tmp_path, 1_000)


@pytest.mark.slow
@on_uvloop
async def test_of_10000_requests_none_gets_what_belongs_to_another_key(tmp_path: Path) -> None:
    await with_keys_of_their_own(tmp_path, 10_000)


@on_uvloop
async def test_what_comes_before_the_next_request_is_no_answer_to_it(tmp_path: Path) -> None:
    await one_after_another(tmp_path, 200)
