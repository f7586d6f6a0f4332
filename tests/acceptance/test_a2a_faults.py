"""What the rules of A2A say of the official SDK is what it does, in both versions."""

from __future__ import annotations

import asyncio

from tests.support.a2a_agent import asked
from tests.support.json_rpc_server import answering
from tests.support.recordings import Reply
from tests.support.tables import table
from tests.unit.lint.test_a2a import FAULTS, METHODS, TAKEN


def given(reply: Reply) -> str:
    """What a user of the SDK gets: the kinds of its events, `-` for one of none, or what is raised."""
    [version] = [version for version, method in METHODS.items() if method == reply.asked["method"]]
    with answering({reply.asked["method"]: reply}) as url:
        return asyncio.run(_read(url, version))


async def _read(url: str, version: str) -> str:
    kinds = []
    try:
        async for event in asked(url, version, "Hi"):
            kinds.append(event.WhichOneof("payload") or "-")
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return " ".join(kinds)


@table(("rule", "says", "reply", "gives"), FAULTS)
def test_a_fault_does_to_the_sdk_what_its_rule_says(rule: str, says: str, reply: Reply, gives: str) -> None:
    assert given(reply).startswith(gives)


@table(("reply", "gives"), TAKEN.values())
def test_what_breaks_no_rule_is_taken_by_the_sdk(reply: Reply, gives: str) -> None:
    assert given(reply) == gives
