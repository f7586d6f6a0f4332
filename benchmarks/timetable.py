"""A floor for replays: a server that sleeps and writes, `python -m benchmarks.timetable DATABASE`.

It answers each request with the bytes of the recorded stream at their times, and knows nothing
else: no HTTP but the chunked coding, no matching, no server framework. Prints its port; ends when
its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import cast

from benchmarks.relay import until_stdin_ends
from benchmarks.traffic import BODY
from recorder.commands.terminal.recordings import loader
from recorder.model.events import Piece, Recording
from recorder.proxy.http.server import run

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


class _Stream(asyncio.Protocol):
    """One request, and its answer."""

    transport: asyncio.Transport

    def __init__(self, recorded: Recording, tasks: asyncio.TaskGroup) -> None:
        self._head_ns, self._pieces, self._tasks = recorded.head_ns, recorded.pieces, tasks
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(BODY):
            self._tasks.create_task(self._answer(time.monotonic_ns(), self._head_ns, self._pieces))

    async def _answer(self, started_ns: int, head_ns: int, pieces: Sequence[Piece]) -> None:
        await _until(started_ns + head_ns)
        self.transport.write(_HEAD)
        for piece in pieces:
            await _until(started_ns + piece.t_ns)
            self.transport.write(b"%x\r\n%b\r\n" % (len(piece.raw), piece.raw))
        self.transport.write(b"0\r\n\r\n")


async def _until(deadline_ns: int) -> None:
    await asyncio.sleep(max(0, deadline_ns - time.monotonic_ns()) / 1e9)


async def main(database: str) -> None:
    (recorded,) = await loader(database).answers([], [])
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        server = await loop.create_server(
            lambda: _Stream(recorded, tasks), "127.0.0.1", 0, backlog=1024
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await until_stdin_ends()
        server.close()


if __name__ == "__main__":
    run(main(sys.argv[1]))
