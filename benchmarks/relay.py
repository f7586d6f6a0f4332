"""The floor: a raw TCP relay on uvloop, `python -m benchmarks.relay UPSTREAM_PORT`. It knows no
HTTP.

Prints its port; ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from recorder.proxy.http.server import run


class _Side(asyncio.Protocol):
    """One connection; what comes in on it goes out on `other`."""

    transport: asyncio.Transport
    other: _Side | None = None
    early = b""  # what came before there was another side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
        else:
            self.early += data

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class _Downstream(_Side):
    """The client's connection, which makes one to the upstream."""

    def __init__(self, upstream_port: int, tasks: asyncio.TaskGroup) -> None:
        self._upstream_port, self._tasks = upstream_port, tasks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tasks.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, upstream = await loop.create_connection(_Side, "127.0.0.1", self._upstream_port)
        upstream.other, self.other = self, upstream
        upstream.transport.write(self.early)
        if self.transport.is_closing():
            upstream.transport.close()


async def until_stdin_ends() -> None:
    """Wait until whoever started this process closes the pipe to it."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    loop.remove_reader(sys.stdin.fileno())


async def main(upstream_port: int) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        server = await loop.create_server(
            lambda: _Downstream(upstream_port, tasks), "127.0.0.1", 0, backlog=1024
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await until_stdin_ends()
        server.close()


if __name__ == "__main__":
    run(main(int(sys.argv[1])))
