"""What the client of `agent-client-protocol` makes of the lines of an agent, good ones and those
with a fault.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.event_loop import DEADLINE_S
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json, broken
from tests.support.tables import table
from tests.unit.lint.test_acp import ASKED, ASKS, EVENTS, GOOD, LAST, NEW, TEXT, S, update

acp = pytest.importorskip("acp", reason="no agent-client-protocol: pip install '.[test]'")
transport = pytest.importorskip("acp._transport")


TURNS = 50
"""Of the loop, in which a client that has got its answer asks the next question: it needs ten."""


PING: Json = {"id": "ping", "method": "_ping", "params": {}}


class Editor:
    """What a user of the client sees."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def session_update(self, **update: Any) -> None:
        self.seen.append(read(update))

    async def request_permission(self, **asked: Any) -> Any:
        self.seen.append(read(asked))
        return {"outcome": {"outcome": "selected", "optionId": "yes"}}

    async def read_text_file(self, **asked: Any) -> Any:
        self.seen.append(read(asked))
        return {"content": "x"}

    async def ext_method(self, name: str, params: Any) -> Any:
        return {}


def read(members: Json) -> Json:
    """What is in the models that the SDK makes."""
    return {name: _plain(value) for name, value in members.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.model_dump(warnings=False) if hasattr(value, "model_dump") else value


class Agent:
    """Answers each question of a client with the lines up to the next answer, and all that are left
    after the last.
    """

    def __init__(self, lines: Sequence[Json], answers: int) -> None:
        self._lines, self._last = list(lines), answers
        self._asked = 0
        self.refused: list[Any] = []

    async def run(self, wire: Any) -> None:
        while (message := await wire.receive()) is not None:
            if "error" in message:
                self.refused.append(message["error"])
            elif "method" in message:
                await self._answer(wire)
            elif message["id"] == PING["id"]:
                await self._leave(wire)

    async def _answer(self, wire: Any) -> None:
        self._asked += 1
        count = 1 if self._asked < self._last else len(self._lines)
        for line in (*self._lines[:count], PING):
            await wire.send({"jsonrpc": "2.0", **line})
        del self._lines[:count]

    async def _leave(self, wire: Any) -> None:
        """Leave if the client, which has taken all, does not ask on."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if wire._inbox.empty():
            await wire.close()


def asks(client: Any) -> list[Any]:
    return [
        lambda: client.initialize(protocol_version=1),
        lambda: client.new_session(cwd="/", mcp_servers=[]),
        lambda: client.prompt(session_id=S, prompt=[]),
    ]


async def talk(editor: Editor, agent: Agent) -> Exception | None:
    """Ask all questions; return what the SDK raises."""
    ours, theirs = transport.memory_transport_pair()
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(agent.run(theirs))
        try:
            async with acp.connect_to_agent(editor, ours) as client:
                for ask in asks(client):
                    editor.seen.append(_plain(await ask()))
        except Exception as error:
            return error
        finally:
            await ours.close()
    return None


class Lost(Exception):
    """An update which the SDK dropped, or a request which it refused."""


def judged(lines: Sequence[Json]) -> Judged:
    editor, agent = Editor(), Agent(lines, len(ASKED))
    logging.disable()
    try:
        error = asyncio.run(talk(editor, agent))
    finally:
        logging.disable(logging.NOTSET)
    told = sum("method" in line or "result" in line for line in lines)
    if error is None and (agent.refused or len(editor.seen) < told):
        error = Lost(agent.refused)
    return Judged(None if error else editor.seen, error, True)


def given(lines: Sequence[Json]) -> str:
    """What an editor is told: what the SDK raises, the error that it answers with, or nothing."""
    error = judged(lines).error
    return f"{type(error).__name__}: {error}" if error else ""


def in_place_of(number: int, *messages: Json) -> list[Json]:
    return [*EVENTS[:number], *messages, *EVENTS[number + 1 :]]


def found(lines: Sequence[Json]) -> list[str]:
    return broken(GOOD._replace(events=tuple(lines)))


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_is_found_and_one_that_it_takes_is_none() -> None:
    told = compared(EVENTS, judged, found)
    assert (told.missed, told.undeclared, told.false) == ([], [], [])
    assert told.stopped >= 60


CLOSED = "ConnectionError: Connection closed"
REQUEST: Json = {"id": 7, "method": "tools/call", "params": {}}


@table(
    ("rule", "lines", "gives"),
    [
        ("AC001", in_place_of(LAST, {**EVENTS[LAST], "id": [2]}), CLOSED),
        ("AC002", in_place_of(LAST, {**EVENTS[LAST], "id": "2"}), CLOSED),
        ("AC003", in_place_of(NEW, {"id": 1, "result": {}}), "ValidationError"),
        (
            "AC003",
            in_place_of(LAST, {"id": 2, "result": {"stopReason": "stop"}}),
            "ValidationError",
        ),
        ("AC004", in_place_of(TEXT, update("agent_message_chunk", content="x")), "Lost: []"),
        (
            "AC005",
            in_place_of(ASKS, {**EVENTS[ASKS], "params": {}}),
            "Lost: [{'code': -32602, 'message': 'Invalid params'",
        ),
        ("AC006", in_place_of(TEXT, update("message_delta")), "Lost: []"),
        (
            "AC006",
            in_place_of(TEXT, REQUEST),
            "Lost: [{'code': -32601, 'message': 'Method not found'",
        ),
        ("AC007", EVENTS[:LAST], CLOSED),
    ],
)
def test_a_fault_does_to_the_sdk_what_its_rule_says(
    rule: str, lines: list[Json], gives: str
) -> None:
    assert rule in found(lines)
    assert given(lines).startswith(gives)


def test_the_sdk_takes_what_breaks_no_rule() -> None:
    assert given(EVENTS) == ""
