"""What commands say of requests that are for titles, of helpers and of agents."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.conversations import Conversations, answering, asking, call, message, response
from tests.support.server import run
from tests.unit.wire.grouping.test_purpose import FORKED, GENERATOR, MAIN, SUB


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    """A title, a call whose result a forked agent sends first as aborted, and that agent, killed at
    the end.
    """
    made = Conversations(tmp_path_factory.mktemp("purposes") / "recorder.db")
    session = made.session("agents")
    title = [{"role": "developer", "content": GENERATOR}, *asking("Look it up")]
    session.exchange(response(*message("Looking up"), id="resp_0"), title)
    spawn = response(*call("spawn_agent", "{}"), id="resp_1")
    session.exchange(spawn, asking("Look it up, please"), at_s=2, thread_id=MAIN)
    forked = [*asking("Look it up, please"), *answering("aborted"), *asking("Find it")]
    session.exchange([], forked, at_s=4, thread_id=SUB, headers=FORKED, outcome="client_disconnect")
    results = [*asking("Look it up, please"), *answering("started")]
    session.exchange(response(*message("Done."), id="resp_2"), results, at_s=6, thread_id=MAIN)
    session.exchange([], forked, at_s=8, thread_id=SUB, headers=FORKED, outcome="client_disconnect")
    return made


def test_helpers_are_no_turns_and_give_no_title(recorded: Conversations) -> None:
    [row] = json.loads(run(recorded.path, "sessions", "--json").out)
    assert (row["title"], row["turns"], row["errors"]) == ("Look it up, please", 1, 0)


def test_a_helper_that_is_killed_does_not_end_the_session(recorded: Conversations) -> None:
    [row] = json.loads(run(recorded.path, "sessions", "--json").out)
    assert row["status"] == "completed"
    assert (
        run(recorded.path, "show", "agents").out.decode().splitlines()[0].endswith(" · completed")
    )


def test_a_call_has_the_result_of_its_own_thread(recorded: Conversations) -> None:
    asked = "select output from tool_calls where session_name = 'agents'"
    assert json.loads(run(recorded.path, "query", asked, "--json").out) == [{"output": "started"}]
    for arguments in ((), ("2",)):
        shown = json.loads(run(recorded.path, "show", "agents", *arguments, "--json").out)[
            "exchanges"
        ]
        [item] = [item for each in shown for item in each["items"] if item["kind"] == "tool_call"]
        assert item["output"] == "started"


def test_agents_stand_below_the_thread_that_began_them(recorded: Conversations) -> None:
    lines = run(recorded.path, "show", "agents").out.decode().splitlines()
    assert any(line.startswith("1 · title · POST") for line in lines)
    assert any(line.startswith("2 · POST") for line in lines)
    assert any(line.startswith(f"  3 · subagent {SUB} · POST") for line in lines)
    assert "  › Find it" in lines


@pytest.mark.long
def test_however_deep_an_agent_is_its_lines_have_room(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    session = made.session("deep")
    for number in range(100):
        headers = [("x-codex-parent-thread-id", f"t{number - 1}")] if number else []
        session.exchange(
            response(*message("Hi")),
            asking("Hi"),
            at_s=number,
            thread_id=f"t{number}",
            headers=headers,
        )
    lines = run(made.path, "show", "deep").out.decode().splitlines()
    assert max(len(line) - len(line.lstrip()) for line in lines) < 20


def test_the_json_says_purpose_and_threads(recorded: Conversations) -> None:
    shown = json.loads(run(recorded.path, "show", "agents", "--json").out)["exchanges"]
    assert [each["purpose"] for each in shown] == ["title", "turn", "subagent", "turn", "subagent"]
    assert (shown[2]["thread_id"], shown[2]["parent_thread_id"]) == (SUB, MAIN)


def test_a_rebuild_finds_purposes_in_old_recordings(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("old").exchange(
        response(*message("Hi")), asking("Hi"), thread_id=SUB, headers=FORKED
    )
    with closing(sqlite3.connect(made.path)) as connection, connection:
        connection.execute("UPDATE p_exchanges_v1 SET purpose = NULL, parent_thread_id = NULL")
    assert run(made.path, "db", "rebuild").code == 0
    asked = "select purpose, parent_thread_id from exchange_summary"
    assert json.loads(run(made.path, "query", asked, "--json").out) == [
        {"purpose": "subagent", "parent_thread_id": MAIN}
    ]
