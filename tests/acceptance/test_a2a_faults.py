"""What the rules of A2A say of the official SDK for Python is what it does, in both versions and
bindings.

What the one for JavaScript does is in `test_screen_sdks.py`.
"""

from __future__ import annotations

import asyncio

from tests.support.a2a_agent import asked
from tests.support.http_server import Handler, listening
from tests.support.recordings import Reply
from tests.support.tables import table
from tests.unit.lint.test_a2a import FAULTS, TAKEN, spoken_by


def given(reply: Reply) -> str:
    """What a user of the SDK gets: the kinds of its events, `-` for one of none, or what is raised."""

    class Agent(Handler):
        def do_POST(self) -> None:
            self.given()
            self.answer("text/event-stream", b"".join(reply.blocks()))

    with listening(Agent) as url:
        return asyncio.run(_read(url, *spoken_by(reply)))


async def _read(url: str, version: str, binding: str) -> str:
    kinds = []
    try:
        async for event in asked(url, version, "Hi", binding):
            kinds.append(event.WhichOneof("payload") or "-")
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return " ".join(kinds)


@table(("rule", "says", "reply", "gives", "js"), FAULTS)
def test_a_fault_does_to_the_sdk_what_its_rule_says(
    rule: str, says: str, reply: Reply, gives: str, js: str
) -> None:
    assert given(reply).startswith(gives)


@table(("reply", "gives", "js"), TAKEN.values())
def test_what_breaks_no_rule_is_taken_by_the_sdk(reply: Reply, gives: str, js: str) -> None:
    assert given(reply).startswith(gives)
