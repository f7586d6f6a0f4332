"""A2A between client and agent of the official SDK: recorded as messages and artifacts, and played again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import TaskState
from google.protobuf.json_format import MessageToDict

from tests.support.a2a_agent import asked, serving_a2a, task_of
from tests.support.server import run, running, serving, wait_until

VERSIONS = ("1.0", "0.3")
WANTED = ("report", "say", "ask", "fail", "refuse")
STATUSES = ["completed", "completed", "completed", "failed", "failed"]
MESSAGES = """SELECT phase, text FROM messages JOIN exchange_summary USING (exchange_id)
WHERE response_id = :id ORDER BY item"""
Got = Sequence[dict[str, Any]]


async def answered(url: str, version: str, wanted: str) -> Got:
    """The events that the SDK reads, or its error as one."""
    found = []
    try:
        async for event in asked(url, version, wanted):
            found.append(MessageToDict(event))
    except Exception as raised:
        return [*found, {"raised": f"{type(raised).__name__}: {raised}"}]
    return found


class Recording:
    """Everything that is wanted of an agent, in one session for each version."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.got: dict[tuple[str, str], Got] = {}
        self.reports: dict[str, Any] = {}  # tasks as the agent has put them together


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    made = Recording(tmp_path_factory.mktemp("a2a") / "recorder.db")
    with serving_a2a() as agent, serving(made.db, "--upstream", f"reporter={agent}") as serve:
        for version in VERSIONS:
            url = f"{serve.base}/s/{session(version)}/reporter/agent"
            for wanted in WANTED:
                made.got[version, wanted] = asyncio.run(answered(url, version, wanted))
            id = made.got[version, "report"][0]["task"]["id"]
            made.reports[version] = asyncio.run(task_of(f"{agent}/agent", version, id))
        ended = "SELECT count(*) AS count FROM exchange_summary WHERE status IS NOT NULL"
        wait_until(lambda: rows(made.db, ended) == [{"count": len(made.got)}])
    return made


def session(version: str) -> str:
    return f"a2a-{version}"


def rows(db: Path, sql: str, **values: str) -> list[dict[str, Any]]:
    given = [option for name, value in values.items() for option in ("--param", name, value)]
    return list(json.loads(run(db, "query", sql, "--json", *given).out))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_has_the_task_that_the_agent_put_together(recording: Recording, version: str) -> None:
    task = recording.reports[version]
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    found = rows(recording.db, MESSAGES, id=task.id)
    said = [message.parts[0].text for message in [*task.history[1:], task.status.message]]
    assert [row["text"] for row in found if row["phase"] != "artifact"] == said
    weather, data = [row["text"] for row in found if row["phase"] == "artifact"]
    assert weather == "".join(part.text for part in task.artifacts[0].parts)
    assert json.loads(data) == MessageToDict(task.artifacts[1].parts[0])["data"]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_stream_ends_as_its_task_does(recording: Recording, version: str) -> None:
    sql = "SELECT api, status, error FROM exchange_summary WHERE session_name = :s ORDER BY exchange_id"
    found = rows(recording.db, sql, s=session(version))
    assert {row["api"] for row in found} == {"a2a"}
    assert [row["status"] for row in found] == STATUSES
    assert [row["error"] for row in found if row["error"]] == ["The press is broken.", "no such report"]
    assert rows(recording.db, "SELECT * FROM anomalies") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_lint_finds_nothing_in_what_the_sdk_takes(recording: Recording, version: str) -> None:
    ran = run(recording.db, "lint", session(version))
    assert ran.code == 0, ran.text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_with_new_ids_gets_the_recorded_answers(recording: Recording, version: str) -> None:
    with running(recording.db, "mock", session(version), "--speed", "max") as mock:
        for wanted in WANTED:
            got = asyncio.run(answered(f"{mock.base}/reporter/agent", version, wanted))
            assert got == recording.got[version, wanted]
