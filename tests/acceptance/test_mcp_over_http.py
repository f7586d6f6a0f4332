"""MCP over HTTP between client and server of the official SDK: recorded as tool calls, and played
again.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.client import Client
from mcp.client.sse import sse_client

from tests.support.mcp_shop import Bought, buy, serving_mcp
from tests.support.server import run, running, serving, wait_until
from tests.support.viewer_api import viewing

CALLS = "SELECT name, output, failed, status, latency_ns FROM tool_calls WHERE session_name = :s ORDER BY exchange_id"
MODES = ("legacy", "2026-07-28")
PATHS = {"legacy": "/mcp", "2026-07-28": "/api/tools"}


async def bought(url: str, mode: Any) -> Bought:
    async with Client(url, mode=mode) as client:
        return await buy(client)


class Recording:
    def __init__(self, db: Path) -> None:
        self.db = db
        self.got: dict[str, Bought] = {}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A shopping tour in each mode, the second at a path that says nothing."""
    made = Recording(tmp_path_factory.mktemp("mcp") / "recorder.db")
    with serving_mcp(PATHS["legacy"]) as legacy, serving_mcp(PATHS["2026-07-28"]) as modern:
        with serving(
            made.db, "--upstream", f"legacy={legacy}", "--upstream", f"modern={modern}"
        ) as serve:
            made.got["legacy"] = asyncio.run(bought(f"{serve.base}/legacy/mcp", "legacy"))
            made.got["2026-07-28"] = asyncio.run(
                bought(f"{serve.base}/modern/api/tools", "2026-07-28")
            )
            wait_until(
                lambda: rows(
                    made.db,
                    "SELECT method FROM exchange_summary WHERE method = 'DELETE' AND status = 'completed'",
                )
            )
    return made


def rows(db: Path, sql: str, **values: str) -> list[dict[str, Any]]:
    given = [option for name, value in values.items() for option in ("--param", name, value)]
    return list(json.loads(run(db, "query", sql, "--json", *given).out))


def session_of(recording: Recording, mode: str) -> str:
    """The session in which a tour is: the one name of all its exchanges."""
    upstream = "legacy" if mode == "legacy" else "modern"
    [row] = rows(
        recording.db,
        f"SELECT DISTINCT session_name FROM exchange_summary WHERE provider = '{upstream}'",
    )
    return str(row["session_name"])


@pytest.mark.parametrize("mode", MODES)
def test_tool_calls_of_the_log_are_those_of_the_client(recording: Recording, mode: str) -> None:
    found = rows(recording.db, CALLS, s=session_of(recording, mode))
    assert [(row["name"], row["output"], bool(row["failed"])) for row in found] == recording.got[
        mode
    ].calls
    assert {row["status"] for row in found} == {"completed"}
    assert all(row["latency_ns"] > 0 for row in found)


def test_requests_without_mcp_sessions_are_one_session_of_their_server(
    recording: Recording,
) -> None:
    assert session_of(recording, "2026-07-28") == "mcp-modern"


def test_all_that_names_one_mcp_session_is_one_session_from_its_first_request_on(
    recording: Recording,
) -> None:
    found = rows(
        recording.db, "SELECT api, method, status FROM exchange_summary WHERE provider = 'legacy'"
    )
    assert {row["api"] for row in found} == {"mcp"}
    assert {row["method"] for row in found} == {"POST", "GET", "DELETE"}
    # the resource
    assert [row["method"] for row in found if row["status"] != "completed"] == ["POST"]
    assert session_of(recording, "legacy")


@pytest.mark.parametrize("mode", MODES)
def test_lint_finds_nothing_in_what_the_sdk_takes(recording: Recording, mode: str) -> None:
    ran = run(recording.db, "lint", session_of(recording, mode))
    assert ran.code == 0, ran.text


def given(db: Path) -> list[tuple[str, str, bool]]:
    """The calls of a log with their results."""
    calls = rows(db, "SELECT name, output, failed FROM tool_calls ORDER BY exchange_id")
    return [(row["name"], row["output"], bool(row["failed"])) for row in calls]


async def changes(db: Path, number: int) -> list[Any]:
    """What the viewer changes in the document of an exchange, event by event."""
    async with viewing(db) as viewer:
        track = await viewer.json(f"/api/sessions/latest/exchanges/{number}/track?at=0")
    ops = []
    for step in track["steps"]:
        ops += step[1]
    return ops


def test_the_transport_of_2024_is_read_as_mcp_while_its_stream_goes_on(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"

    def shown(got: Bought) -> str:
        wait_until(lambda: given(db) == got.calls)
        first = json.loads(run(db, "show", "latest:5", "--json").out)  # the first call alone
        return str(first["exchanges"][0]["items"][0]["output"])

    async def bought_at(url: str) -> tuple[Bought, str]:
        async with Client(sse_client(url), mode="legacy") as client:
            got = await buy(client)
            return got, await asyncio.to_thread(shown, got)

    with serving_mcp(is_of_2024=True) as shop, serving(db, "--upstream", f"shop={shop}") as serve:
        got, first = asyncio.run(bought_at(f"{serve.base}/shop/sse"))
        assert first == "3"
        wait_until(
            lambda: rows(
                db,
                "SELECT method FROM exchange_summary WHERE method = 'GET' AND status = 'completed'",
            )
        )
    assert {
        row["api"] for row in rows(db, "SELECT api FROM exchange_summary WHERE method = 'POST'")
    } == {"mcp"}
    assert given(db) == got.calls
    assert run(db, "db", "rebuild").code == 0
    calls = rows(db, "SELECT name, status, latency_ns FROM tool_calls")
    assert {row["status"] for row in calls} == {"completed"}
    assert all(row["latency_ns"] > 0 for row in calls)
    assert given(db) == got.calls
    assert ["set", ["items", 0, "output"], "3"] in asyncio.run(changes(db, 5))
    events = rows(db, "SELECT type FROM events WHERE kind = 'frame' ORDER BY pos LIMIT 2")
    assert [row["type"] for row in events] == ["endpoint", "result"]
    assert rows(db, "SELECT * FROM anomalies") == []


@pytest.mark.parametrize("mode", MODES)
def test_a_client_with_new_ids_gets_the_recorded_answers(recording: Recording, mode: str) -> None:
    upstream = "legacy" if mode == "legacy" else "modern"
    with running(recording.db, "mock", session_of(recording, mode), "--speed", "max") as mock:
        url = f"{mock.base}/{upstream}{PATHS[mode]}"
        assert asyncio.run(bought(url, mode)) == recording.got[mode]
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        if mode == "legacy":
            asked = httpx.post(
                url, json={"jsonrpc": "2.0", "id": "x-1", "method": "tools/call", "params": call}
            )
            assert '"id":"x-1"' in asked.text


def test_what_was_not_recorded_is_an_error_of_json_rpc(recording: Recording) -> None:
    async def miss(url: str) -> None:
        async with Client(url, mode="legacy") as client:
            await client.call_tool("add", {"a": 1, "b": 3})

    with running(recording.db, "mock", session_of(recording, "legacy"), "--speed", "max") as mock:
        with pytest.raises(BaseException) as refused:
            asyncio.run(miss(f"{mock.base}/legacy/mcp"))
    assert "recorded" in repr(refused.value)
