"""A server of MCP with a few tools, of the official SDK: over HTTP on loopback, or over stdio as a
program of its own.

async with Client(f"{shop.url}/mcp") as client:
    await buy(client)
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import uvicorn
from mcp.client.client import Client
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

STARTED_S = 30.0


def shop() -> MCPServer:
    """Make a server with a tool that answers, one that reports its progress, and one that fails."""
    server = MCPServer("shop", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def pack(boxes: int, ctx: Context) -> str:
        for box in range(boxes):
            await ctx.report_progress(box, boxes, f"box {box}")
        return "packed é"

    @server.tool()
    def fail() -> str:
        raise ToolError("broken")

    @server.tool()
    def long(size: int) -> str:
        return "x" * size

    @server.tool()
    def process() -> int:
        return os.getpid()

    return server


class Bought(NamedTuple):
    """What a client got: of each call its name, its text and whether it failed; the progress; the
    error of a method.
    """

    calls: list[tuple[str, str, bool]]
    progress: list[tuple[float, float | None, str | None]]
    error: tuple[int, str]


async def buy(client: Client) -> Bought:
    """Use the tools of a shop one after another."""
    calls: list[tuple[str, str, bool]] = []
    reported: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total, message))

    orders: list[tuple[str, dict[str, Any]]] = [
        ("add", {"a": 1, "b": 2}),
        ("pack", {"boxes": 2}),
        ("fail", {}),
    ]
    await client.list_tools()
    for name, arguments in [*orders, ("long", {"size": 200_000})]:
        result = await client.call_tool(name, arguments, progress_callback=report)
        text = "".join(part.text for part in result.content if part.type == "text")
        calls.append((name, text, bool(result.is_error)))
    try:
        await client.read_resource("shop://nothing")
    except MCPError as refused:
        return Bought(calls, reported, (refused.error.code, refused.error.message))
    raise AssertionError("a resource that is not there was read")


@contextlib.contextmanager
def serving_mcp(path: str = "/mcp", *, is_of_2024: bool = False) -> Iterator[str]:
    """Serve a shop on a free port; gives its address without the path.

    That of 2024 is at `/sse` and `/messages/`.
    """
    app = shop().sse_app() if is_of_2024 else shop().streamable_http_app(streamable_http_path=path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(STARTED_S)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stderr.write("the shop is open\n")
    shop().run("stdio")
