"""Edges, collectors, and the object store between them, which refuses, repeats, loses answers and
is away.

async with FaultyStore(seed) as store:
    with edge(home, store, *everywhere(upstream.base)) as serve, collector(db, home, store) as collect: …
    store.is_away = True
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self
from urllib.request import urlopen

import pytest
from sqlalchemy import URL as SqlURL

from tests.support.server import Serving, address, environment, started, wait_until

BUCKET = "segments"
URL = f"s3://{BUCKET}/edges"
# of all requests: a 503; sent twice; done, and no answer comes
REFUSED, REPEATED, LOST = 0.10, 0.05, 0.03

_ADMIN = re.compile(r"^Metrics and health on http://127\.0\.0\.1:(?P<port>\d+)$", re.MULTILINE)
_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
_REFUSAL = b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class FaultyStore:
    """A server of S3 with one empty bucket, behind a proxy that does all of that."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        pytest.importorskip("moto.server", reason="no moto: pip install '.[slow]'")
        self._server: asyncio.Server | None = None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._to: int = listener.getsockname()[1]
        self._serving: set[asyncio.Task[None] | None] = set()
        self.is_away = False
        self.done: Counter[str] = Counter()
        self.port = 0

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of AWS that lead here."""
        values = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}
        values["ENDPOINT_URL"] = f"http://127.0.0.1:{self.port}"
        return {f"AWS_{name}": value for name, value in values.items()}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._start)
        made = await self._forward(
            b"PUT /%b HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n" % BUCKET.encode()
        )
        assert b" 200 " in made.partition(b"\r\n")[0], made
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        self._moto.kill()
        self._moto.wait()

    def _start(self) -> None:
        """Start the server in a process of its own: in this one it would take turns with clients
        and upstream.
        """
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._to)]
        quiet = subprocess.DEVNULL
        self._moto = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet)
        wait_until(self._is_there)

    def _is_there(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._to)).close()
        except OSError:
            return False
        return True

    def keys(self) -> list[str]:
        """The keys of all objects, asked without faults, from a thread."""
        with urlopen(f"http://127.0.0.1:{self._to}/{BUCKET}?list-type=2") as listed:
            return re.findall(r"<Key>([^<]+)</Key>", listed.read().decode())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close: what an HTTP/1.0 server does, too."""
        task = asyncio.current_task()
        self._serving.add(task)  # nobody else holds it while it waits
        with (
            contextlib.suppress(ConnectionError, asyncio.IncompleteReadError),
            contextlib.closing(writer),
        ):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(
                int(length[1]) if (length := _LENGTH.search(head)) else 0
            )
            answer = await self._answer(head + body)
            if answer is not None:
                writer.write(answer)
                await writer.drain()
        self._serving.discard(task)

    async def _answer(self, request: bytes) -> bytes | None:
        throw = self._dice.random()
        if self.is_away:
            self.done["away"] += 1
            return None
        if throw < REFUSED:
            self.done["refused"] += 1
            return _REFUSAL
        answer = await self._forward(request)
        self.done[request.partition(b" ")[0].decode()] += 1
        if throw < REFUSED + REPEATED:
            self.done["repeated"] += 1
            return await self._forward(request)
        if throw < REFUSED + REPEATED + LOST:
            self.done["lost"] += 1
            return None
        return answer

    async def _forward(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._to)
        with contextlib.closing(writer):
            line, _, rest = request.partition(b"\r\n")
            writer.write(line + b"\r\nconnection: close\r\n" + rest)
            return await reader.read()


def edge(home: Path, store: FaultyStore, *options: str) -> AbstractContextManager[Serving]:
    """A recorder without a database, of a user of their own."""
    home.mkdir(exist_ok=True)
    words = ("serve", "--port", "0", "--ship", URL, *options)
    return started(home / "none.db", home, *words, variables=store.variables)


@contextlib.contextmanager
def collector(db: Path | SqlURL, home: Path, store: FaultyStore) -> Iterator[Serving]:
    """A collector into a database; `port` is that of its metrics."""
    words = ("collect", URL, "--db", address(db), "--admin-port", "0")
    with started(
        home / "none.db", home, *words, listening=_ADMIN, variables=store.variables
    ) as collect:
        yield collect


def left_at(home: Path) -> list[Path]:
    """The journals that wait at an edge."""
    return [*Path(environment(home)["XDG_DATA_HOME"]).glob("recorder/edges/*/*")]
