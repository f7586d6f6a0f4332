"""An agent's side of `recorder mcp`: the client of the `mcp` package, over stdio, with a server process of its own.

with connected_agent(db) as agent:
    answer = agent.ask("sessions", limit=3)
    … answer.rows, answer.remarks, answer.is_error …
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import Tool

from tests.support.server import environment

CALL_S = 60.0


class AgentAnswer(NamedTuple):
    """The answer to a call of a tool."""

    is_error: bool
    texts: list[str]

    @property
    def rows(self) -> Any:
        assert not self.is_error, self.texts
        return json.loads(self.texts[0])

    @property
    def remarks(self) -> str:
        return "\n".join(self.texts[1:])


class Agent:
    """A connected client, for callers that have no event loop."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, tools: list[Tool]) -> None:
        self.client, self.tools, self._loop = client, tools, loop

    def ask(self, name: str, /, **arguments: Any) -> AgentAnswer:
        called = asyncio.run_coroutine_threadsafe(self.client.call_tool(name, arguments), self._loop)
        result = called.result(CALL_S)
        return AgentAnswer(bool(result.is_error), [each.text for each in result.content if each.type == "text"])


@contextmanager
def connected_agent(db: Path, *options: str) -> Iterator[Agent]:
    """Start a server for a database, and connect to it; both end with the block."""
    ready: list[Agent] = []
    is_ready, is_over = threading.Event(), threading.Event()

    async def live() -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "recorder", "mcp", "--db", str(db), *options],
            env=environment(db.parent),
            cwd=db.parent,
        )
        try:
            async with Client(stdio_client(server)) as client:
                ready.append(Agent(client, asyncio.get_running_loop(), (await client.list_tools()).tools))
                is_ready.set()
                await asyncio.to_thread(is_over.wait)
        finally:
            is_ready.set()

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    try:
        assert is_ready.wait(CALL_S)
        yield ready[0]
    finally:
        is_over.set()
        thread.join()
