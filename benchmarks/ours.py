"""Our proxy as a process: `python -m benchmarks.ours UPSTREAM_PORT [DATABASE [strict|LEVEL]]`.

Without a database it does not record. With one it is what `recorder serve` runs: journal, and the
ingester process beside it. Prints its port; ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator

from benchmarks.relay import until_stdin_ends
from recorder.commands.serving.recording import parse_level, recording
from recorder.proxy.app import Proxy
from recorder.proxy.content_level import ContentLevels
from recorder.proxy.http.server import Server, run, settle
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.store.location import database_url


@contextlib.asynccontextmanager
async def forwarding(upstreams: list[Upstream]) -> AsyncIterator[Proxy]:
    """The proxy with nothing but the real upstream behind it."""
    transport = UpstreamTransport()
    try:
        yield Proxy(transport, Routes(upstreams))
    finally:
        await transport.aclose()


async def main(upstream_port: int, database: str = "", form: str = "full") -> None:
    upstreams = [Upstream("openai", f"http://127.0.0.1:{upstream_port}")]
    is_strict = form == "strict"
    records = database and recording(
        database_url(database),
        upstreams,
        durability="strict" if is_strict else "journal",
        levels=ContentLevels("full" if is_strict else parse_level(form)[1]),
    )
    async with records or forwarding(upstreams) as proxy:
        server = Server(proxy, "127.0.0.1", 0, on_drain=proxy.shutdown)
        await server.start()
        settle()
        print(server.port, flush=True)
        await until_stdin_ends()
        await server.stop(0)


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    run(main(int(port), *rest))
