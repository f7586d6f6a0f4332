"""A login that reads its own rows: what the commands, the viewer and the tools of MCP give it of
others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from recorder.commands.agents.arguments import arguments_from
from recorder.commands.agents.tools import TOOLS, AgentCall
from recorder.errors import RecorderError
from tests.support.event_loop import on_uvloop
from tests.support.foreign_rows import WORD, Team, a_team
from tests.support.postgres import Server
from tests.support.server import run
from tests.support.viewer_api import viewing


@pytest.fixture(scope="module")
def team(postgres_server: Server, postgres_template: str) -> Iterator[Team]:
    with a_team(postgres_server, postgres_template) as made:
        yield made


def named(text: str, team: Team) -> str:
    """What a user of the log may type: the places of Bob's session and exchange filled in."""
    session, exchange = team.his[0].session_id, team.his[0].exchange_id
    shared, in_shared = team.his[2].session_id, team.his[2].exchange_id
    places = {
        "HIS": session,
        "EXCHANGE": exchange,
        "SHARED": shared,
        "IN_SHARED": in_shared,
        "WORD": WORD,
    }
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text


COMMANDS = (
    *("sessions", "sessions --json", "sessions --owner WORD", "sessions --since 2000-01-01 --json"),
    *(
        "show latest --json",
        "show HIS",
        "show HIS --json",
        "show WORD*",
        "show shared",
        "show shared --json",
    ),
    *(
        "show shared 2",
        "show SHARED --request",
        "show --cache shared",
        "events HIS",
        "events shared --json",
    ),
    *(
        "events shared 2",
        "usage --by session",
        "usage --by owner --by team --by tag",
        "usage --cost --by model",
    ),
    *(
        "usage --by tool --json",
        "diff weather HIS",
        "diff weather shared --json",
        "lint HIS",
        "lint shared --json",
    ),
    *(
        "export HIS",
        "export shared",
        "export shared --format cassette",
        "export shared --format har",
    ),
    *(f"export shared --format {name}" for name in ("jsonl", "html", "otlp-json", "chat", "sse")),
    "replay shared --speed max",
    *(
        "verify",
        "verify HIS",
        "doctor",
        "db rebuild",
        "db recover",
        "db upgrade",
        "db purge HIS --yes",
    ),
    *("db purge WORD* --dry-run", "db archive --list", "prices list", "serve --port 0"),
)
QUERIES = (
    *(
        "SELECT * FROM sessions",
        "SELECT * FROM messages",
        "EXPLAIN SELECT * FROM messages",
        "TABLE exchange_summary",
    ),
    *(
        "SELECT CAST(text AS int) FROM messages",
        "SELECT * FROM messages WHERE CAST(text AS int) = 1",
        "TABLE readers",
    ),
    "SELECT set_config('role', 'recorder_reader', true), name FROM sessions",
)


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_command_gives_no_row_of_another_owner(team: Team, typed: str) -> None:
    arguments = named(typed, team).split()
    ran = run(team.ann, *arguments)
    assert team.foreign_in(without(arguments, ran.text + ran.err)) == []


ENGINES = (*(("own", sql) for sql in QUERIES), ("duckdb", "SELECT name FROM sessions"))


@pytest.mark.parametrize(("engine", "sql"), ENGINES)
def test_a_query_gives_no_row_of_another_owner(team: Team, engine: str, sql: str) -> None:
    ran = run(team.ann, "query", "--engine", engine, "--json", sql)
    assert team.foreign_in(ran.text + ran.err) == []


def without(words: list[str], text: str) -> str:
    for word in words:
        text = text.replace(word, "")
    return text


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("sessions", {}), ("show", {"session": "HIS"}), ("show", {"session": "shared"})),
    *(
        ("events", {"session": "HIS"}),
        ("events", {"session": "shared", "exchange": 2}),
        ("lint", {"session": "HIS"}),
    ),
    *(("query", {"sql": sql}) for sql in QUERIES),
    *(("diff", {"a": "weather", "b": "HIS"}), ("diff", {"a": "weather", "b": "shared"})),
)


@pytest.mark.parametrize(("tool", "given"), CALLS, ids=str)
def test_a_tool_of_mcp_gives_no_row_of_another_owner(
    team: Team, tool: str, given: dict[str, Any]
) -> None:
    arguments = {
        name: named(value, team) if isinstance(value, str) else value
        for name, value in given.items()
    }
    try:
        answer = asyncio.run(_ask(team, tool, arguments))
    except RecorderError as error:
        answer = str(error)
    assert team.foreign_in(without([str(value) for value in arguments.values()], answer)) == []


async def _ask(team: Team, tool: str, arguments: dict[str, Any]) -> str:
    chosen = TOOLS[tool]
    answer = await chosen.ask(
        AgentCall(team.ann, 0, 100_000), arguments_from(arguments, chosen.arguments)
    )
    return f"{answer.json} {answer.remarks}"


PAGES = (
    *(
        "about",
        "sessions?limit=50",
        "sessions?limit=50&q=WORD",
        "sessions/HIS",
        "sessions/SHARED",
        "home?days=3650",
    ),
    *(
        "sessions/HIS/lanes",
        "sessions/SHARED/lanes",
        "sessions/HIS/marks",
        "sessions/SHARED/marks",
        "views",
    ),
    *(
        "sessions/SHARED/find?text=WORD",
        "sessions/SHARED/exchanges/IN_SHARED/raw",
        "diff?a=weather&b=HIS",
    ),
    *("sessions/SHARED/exchanges/IN_SHARED/model", "sessions/SHARED/exchanges/IN_SHARED/asked"),
    *("sessions/SHARED/exchanges/IN_SHARED/events", "sessions/SHARED/exchanges/IN_SHARED/events/3"),
    *(
        "sessions/SHARED/exchanges/IN_SHARED/track",
        "sessions/SHARED/exchanges/IN_SHARED/body?of=request&from=0&limit=99",
    ),
    "sessions/HIS/exchanges/EXCHANGE/raw",
)


@on_uvloop
async def test_the_viewer_gives_no_row_of_another_owner(team: Team) -> None:
    async with viewing(team.ann) as viewer:
        listed = await viewer.json("/api/sessions?limit=50")
        answers = {}
        for page in PAGES:
            answer = await viewer.get(f"/api/{named(page, team)}")
            answers[page] = answer.body
        for sql in QUERIES[1:2]:  # each in a process of its own
            answer = await viewer.post("/api/query", {"sql": sql})
            answers[sql] = answer.body
    assert sorted(session["name"] for session in listed["sessions"]) == ["shared", "weather"]
    for asked, body in answers.items():
        words = named(asked, team).replace("?", "/").replace("=", "/").split("/")
        assert (asked, team.foreign_in(without(words, body.decode()))) == (asked, [])
