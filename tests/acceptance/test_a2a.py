"""A2A between clients and agent of the official SDKs: recorded as messages and artifacts, and played
again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from a2a.types.a2a_pb2 import TaskState
from google.protobuf.json_format import MessageToDict

from tests.support.a2a_agent import asked, followed, serving_a2a, task_of
from tests.support.node import answers
from tests.support.server import run, running, serving, wait_until


class Spoken(NamedTuple):
    version: str
    binding: str

    @property
    def session(self) -> str:
        return f"a2a-{self.version}-{self.binding}"


ALL = [
    Spoken(version, binding)
    for version, binding in product(("1.0", "0.3"), ("JSONRPC", "HTTP+JSON"))
]
WANTED = ("report", "say", "ask", "fail", "refuse")
# over REST the error of a stream that does not begin is a document; in 0.3 the agent of the SDK
# breaks off
REFUSED = {
    Spoken("1.0", "HTTP+JSON"): "error_status",
    Spoken("0.3", "HTTP+JSON"): "truncated",
}
MESSAGES = """SELECT phase, text FROM messages
WHERE exchange_id = (SELECT min(exchange_id) FROM exchange_summary WHERE response_id = :id) ORDER BY item"""
Got = Sequence[dict[str, Any]]


async def answered(url: str, spoken: Spoken, wanted: str) -> Got:
    """The events that the SDK reads, or the class of its error as one."""
    found = []
    try:
        async for event in asked(url, spoken.version, wanted, spoken.binding):
            found.append(MessageToDict(event))
    except Exception as raised:
        return [*found, {"raised": type(raised).__name__}]
    return found


class Recording:
    """Everything that is wanted of an agent, in one session for each version and binding."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.got: dict[tuple[Spoken, str], Got] = {}
        self.reports: dict[Spoken, Any] = {}  # tasks as the agent has put them together


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    made = Recording(tmp_path_factory.mktemp("a2a") / "recorder.db")
    with serving_a2a() as agent, serving(made.db, "--upstream", f"reporter={agent}") as serve:
        for spoken in ALL:
            url = f"{serve.base}/s/{spoken.session}/reporter/agent"
            for wanted in WANTED:
                made.got[spoken, wanted] = asyncio.run(answered(url, spoken, wanted))
            id = made.got[spoken, "report"][0]["task"]["id"]
            made.reports[spoken] = asyncio.run(
                task_of(f"{agent}/agent", spoken.version, id, spoken.binding)
            )
        ended = "SELECT count(*) AS count FROM exchange_summary WHERE status IS NOT NULL"
        wait_until(lambda: rows(made.db, ended) == [{"count": len(made.got)}])
    return made


def rows(db: Path, sql: str, **values: str) -> list[dict[str, Any]]:
    given = [option for name, value in values.items() for option in ("--param", name, value)]
    return list(json.loads(run(db, "query", sql, "--json", *given).out))


@pytest.mark.parametrize("spoken", ALL)
def test_the_log_has_the_task_that_the_agent_put_together(
    recording: Recording, spoken: Spoken
) -> None:
    task = recording.reports[spoken]
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert_is(rows(recording.db, MESSAGES, id=task.id), MessageToDict(task), spoken)


def assert_is(found: list[dict[str, Any]], task: dict[str, Any], spoken: Spoken) -> None:
    """Assert that messages of the log are those of a task, and its artifacts."""
    said = [
        message["parts"][0]["text"] for message in [*task["history"], task["status"]["message"]]
    ]
    assert [row["text"] for row in found if row["phase"] != "artifact"] == said[1:]
    weather, data = [row["text"] for row in found if row["phase"] == "artifact"]
    first, second = task["artifacts"]
    assert weather == "".join(part["text"] for part in first["parts"])
    [part] = second["parts"]
    # as it is sent
    wanted = {"data": part["data"]} if spoken == Spoken("0.3", "HTTP+JSON") else part["data"]
    assert json.loads(data) == wanted


@pytest.mark.parametrize("spoken", ALL)
def test_each_stream_ends_as_its_task_does(recording: Recording, spoken: Spoken) -> None:
    sql = "SELECT api, status, error FROM exchange_summary WHERE session_name = :s ORDER BY exchange_id"
    found = rows(recording.db, sql, s=spoken.session)
    assert {row["api"] for row in found} == {"a2a"}
    *statuses, refused = [row["status"] for row in found]
    assert statuses == ["completed", "completed", "completed", "failed"]
    assert refused == REFUSED.get(spoken, "failed")
    *errors, said = [row["error"] for row in found if row["error"]]
    assert errors == ["The press is broken."]
    assert said == "no such report" or refused == "truncated"
    assert rows(recording.db, "SELECT * FROM anomalies") == []


@pytest.mark.parametrize("spoken", ALL)
def test_a_task_that_is_followed_again_is_recorded_and_played_again(
    tmp_path: Path, spoken: Spoken
) -> None:
    db = tmp_path / "recorder.db"
    with serving_a2a() as agent, serving(db, "--upstream", f"reporter={agent}") as serve:
        got = asyncio.run(followed(f"{serve.base}/s/{spoken.session}/reporter/agent", *spoken))
    assert got[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED
    sql = "SELECT api, status, finish_reason FROM exchange_summary ORDER BY exchange_id"
    ended = {"api": "a2a", "status": "incomplete", "finish_reason": "canceled"}
    assert rows(db, sql) == [ended, ended, ended]
    assert run(db, "lint", spoken.session).code == 0
    with running(db, "mock", spoken.session, "--speed", "max") as mock:
        assert asyncio.run(followed(f"{mock.base}/reporter/agent", *spoken)) == got


@pytest.mark.parametrize("spoken", ALL)
def test_lint_finds_nothing_in_what_the_sdk_takes(recording: Recording, spoken: Spoken) -> None:
    ran = run(recording.db, "lint", spoken.session)
    assert ran.code == 0, ran.text


@pytest.mark.parametrize("spoken", ALL)
def test_a_client_with_new_ids_gets_the_recorded_answers(
    recording: Recording, spoken: Spoken
) -> None:
    with running(recording.db, "mock", spoken.session, "--speed", "max") as mock:
        for wanted in WANTED:
            got = asyncio.run(answered(f"{mock.base}/reporter/agent", spoken, wanted))
            assert got == recording.got[spoken, wanted]


def test_an_error_that_the_mock_puts_into_a_stream_over_rest_is_raised(
    recording: Recording,
) -> None:
    spoken = Spoken("1.0", "HTTP+JSON")
    with running(
        recording.db, "mock", spoken.session, "--speed", "max", "--fault", "error@2:503"
    ) as mock:
        got = asyncio.run(answered(f"{mock.base}/reporter/agent", spoken, "report"))
    assert got == [*recording.got[spoken, "report"][:2], {"raised": "A2AClientError"}]


PACKAGES = ("@a2a-js/sdk@1.3.0",)


@pytest.mark.slow
def test_the_sdk_for_javascript_gets_through_the_proxy_and_from_the_mock_what_we_show(
    tmp_path: Path,
) -> None:
    """The package comes from npm, so this is slow."""
    db = tmp_path / "recorder.db"
    wanted = [*product(ALL, (*WANTED, "wait"))]

    def told(base: str) -> list[Any]:
        """What the SDK makes of all that is wanted; it asks with new ids each time."""
        asked = []
        for spoken, text in wanted:
            url = f"{base}/s/{spoken.session}/reporter/agent"
            asked.append([url, spoken._asdict(), text])
        return answers("a2a_sdk.cjs", PACKAGES, asked)

    with serving_a2a() as agent, serving(db, "--upstream", f"reporter={agent}") as serve:
        live = told(serve.base)
    for (spoken, text), got in zip(wanted, live, strict=True):
        assert ("raised" in got) == (text == "refuse")
        if text == "report":
            assert_is(rows(db, MESSAGES, id=got["task"]["id"]), got["task"], spoken)
    assert rows(db, "SELECT DISTINCT api FROM exchange_summary") == [{"api": "a2a"}]
    assert rows(db, "SELECT * FROM anomalies") == []
    sessions = [spoken.session for spoken in ALL]
    with running(db, "mock", *sessions, "--speed", "max") as mock:
        assert told(mock.base) == live
