"""What the rules of MCP say of the official SDK is what it does, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from recorder.model.events import STDIO
from tests.support.json_rpc_server import answering
from tests.support.recordings import Reply
from tests.support.tables import table
from tests.unit.lint.test_mcp import CALL, FAULTS, INIT, LIST, TAKEN

PROGRAM = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    sys.stdout.write(answers.get(str(json.loads(line).get("id")), ""))
    sys.stdout.flush()
"""


def given(reply: Reply) -> str:
    """What a call gives to a user of the SDK: its text, or what is raised."""
    if reply.method == STDIO:
        return asyncio.run(called(program(reply), timeout_s=1))
    methods = {good.asked["method"]: good for good in (INIT, LIST, CALL)}
    with answering({**methods, reply.asked["method"]: reply}) as url:
        return asyncio.run(called(url, timeout_s=20))


def program(reply: Reply) -> Any:
    """A program that answers each request with the lines up to the next one's, and the last with
    all that are left.
    """
    first, second, *rest = [block.decode() for block in reply.blocks()]
    answers = {"1": first, "2": second, "3": "".join(rest)}
    return stdio_client(
        StdioServerParameters(command=sys.executable, args=["-c", PROGRAM, json.dumps(answers)])
    )


async def called(server: Any, timeout_s: float) -> str:
    try:
        async with Client(server, mode="legacy", read_timeout_seconds=timeout_s) as client:
            await client.list_tools()
            result = await client.call_tool("add", {})
    except Exception as raised:
        while isinstance(raised, ExceptionGroup):
            raised = raised.exceptions[0]
        return f"{type(raised).__name__}: {raised}"
    return "".join(part.text for part in result.content if part.type == "text")


@table(("rule", "says", "reply", "gives"), FAULTS)
def test_a_fault_does_to_the_sdk_what_its_rule_says(
    rule: str, says: str, reply: Reply, gives: str
) -> None:
    assert given(reply).startswith(gives)


@table(("reply", "gives"), TAKEN.values())
def test_what_breaks_no_rule_is_taken_by_the_sdk(reply: Reply, gives: str) -> None:
    assert given(reply) == gives
