"""`recorder export --format mooncake` and `--format atif`: the work of agents for benchmarks.

Whether AIPerf and Harbor take the files is in `tests/acceptance/exports/test_workloads.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from tests.support.conversations import (
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    thought,
)
from tests.support.server import Ran, run
from tests.unit.wire.grouping.test_purpose import FORKED, MAIN, SUB

QUESTION, TASK = "Look it up, please", "Find the page about streams"
SYSTEM = {"role": "developer", "content": "Be brief. " * 40}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "spawn_agent",
    "arguments": json.dumps({"message": TASK}),
}


def used(
    input_tokens: int, output_tokens: int, cached: int = 0, reasoning: int = 0
) -> dict[str, Any]:
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }


def delegated(database: Path | URL) -> Conversations:
    """An agent that begins another one, which works while it waits, and then answers."""
    made = Conversations(database)
    session = made.session("agents")
    asked: list[Any] = [SYSTEM, *asking(QUESTION)]
    frames = [*thought("Hm."), *call("spawn_agent", CALL["arguments"], index=1)]
    spoken = response(*frames, id="resp_1", usage=used(120, 30, reasoning=10))
    session.exchange(spoken, asked, thread_id=MAIN, client="codex", client_version="0.144.1")
    found = response(*message("It is page 7."), id="resp_2", usage=used(130, 8))
    session.exchange(found, [SYSTEM, *asking(TASK)], at_s=3, thread_id=SUB, headers=FORKED)
    asked += [CALL, *answering(f"{SUB}: page 7")]
    session.exchange(
        response(*message("Page 7."), id="resp_3", usage=used(170, 6, cached=120)),
        asked,
        at_s=8.5,
        thread_id=MAIN,
    )
    return made


def lines(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def exported(database: Path | URL, format: str, *options: str) -> list[dict[str, Any]]:
    return lines(run(database, "export", "agents", "--format", format, *options))


def test_a_turn_has_what_it_adds_and_the_gap_after_the_answer_before(database: URL) -> None:
    """The first answer takes a second; its reasoning is not sent again."""
    delegated(database)
    first, agent, last = exported(database, "mooncake", "--block-size", "50")
    assert first == {
        "session_id": MAIN, "timestamp": 0, "input_length": 120, "output_length": 30, "hash_ids": [0, 1, 2]
    }  # fmt: skip
    assert agent == {
        "session_id": SUB, "timestamp": 3000, "input_length": 130, "output_length": 8, "hash_ids": [0, 1, 3]
    }  # fmt: skip
    assert last == {
        "session_id": MAIN,
        "delay": 7500,
        "input_length": 30,
        "output_length": 6,
        "hash_ids": [4],
    }


def test_whole_prompts_are_those_that_the_provider_counted(database: URL) -> None:
    delegated(database)
    first, _, last = exported(database, "mooncake", "--block-size", "50", "--whole-prompts")
    assert [first["input_length"], last["input_length"]] == [120, 170]
    assert last["hash_ids"][:2] == first["hash_ids"][:2]
    assert len(last["hash_ids"]) == 4


def test_input_that_nobody_counted_is_estimated_and_other_exchanges_are_named(
    tmp_path: Path,
) -> None:
    made = Conversations(tmp_path / "recorder.db")
    session = made.session("agents")
    session.exchange(response(*message("Hi."), usage=used(100, 5)), asking("x" * 400))
    session.exchange(response(*message("Hi."), usage=None), asking("y" * 400), at_s=2)
    session.exchange([], asking("z"), at_s=4, outcome="client_disconnect")
    ran = run(made.path, "export", "agents", "--format", "mooncake")
    known, estimated = lines(ran)
    assert estimated["input_length"] == known["input_length"] == 100
    assert "output_length" not in estimated
    assert ran.err.splitlines() == [
        "1 exchange left out: with status client_disconnect (1).",
        "1 request without usage: input_length is estimated, at 4.3 bytes a token.",
        "1 request without output_length: none was reported.",
    ]


def test_a_step_has_its_calls_their_results_and_its_tokens(database: URL) -> None:
    delegated(database)
    [trajectory] = exported(database, "atif")
    assert trajectory["agent"] == {"name": "codex", "version": "0.144.1", "model_name": "gpt-5"}
    system, user, called, answered = trajectory["steps"]
    assert [system["source"], user["message"]] == ["system", QUESTION]
    assert called["reasoning_content"] == "Hm."
    [made] = called["tool_calls"]
    assert made == {
        "tool_call_id": "call_1",
        "function_name": "spawn_agent",
        "arguments": {"message": TASK},
    }
    [result] = called["observation"]["results"]
    assert (result["source_call_id"], result["content"]) == ("call_1", f"{SUB}: page 7")
    assert answered["message"] == "Page 7."
    metrics = {"prompt_tokens": 170, "completion_tokens": 6, "cached_tokens": 120}
    assert metrics.items() <= answered["metrics"].items()
    assert trajectory["final_metrics"]["total_prompt_tokens"] == 290


def test_a_sub_agent_is_embedded_and_the_result_of_its_call_refers_to_it(database: URL) -> None:
    delegated(database)
    [trajectory] = exported(database, "atif")
    [agent] = trajectory["subagent_trajectories"]
    assert agent["trajectory_id"] == SUB
    assert [step["message"] for step in agent["steps"][1:]] == [TASK, "It is page 7."]
    [result] = trajectory["steps"][2]["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": SUB}]


def test_the_cost_of_all_agents_together_is_that_of_the_log(tmp_path: Path) -> None:
    made, prices = delegated(tmp_path / "recorder.db"), tmp_path / "prices.toml"
    prices.write_text(
        '[[price]]\nprovider = "openai"\nmodel = "gpt-5"\ninput = 1.25\ncache_read = 0.1\noutput = 10\n'
    )
    assert run(made.path, "prices", "update", "--file", prices).code == 0
    [trajectory] = exported(made.path, "atif")
    query = ("query", "SELECT sum(cost_picousd) AS picousd FROM costs", "--json")
    [cost] = json.loads(run(made.path, *query).out)
    assert trajectory["final_metrics"]["total_cost_usd"] == cost["picousd"] / 10**12 > 0
    steps = [*trajectory["steps"], *trajectory["subagent_trajectories"][0]["steps"]]
    costs = [step["metrics"]["cost_usd"] for step in steps if "metrics" in step]
    assert sum(costs) == pytest.approx(cost["picousd"] / 10**12)


def test_history_that_was_not_recorded_is_copied_context(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
    asked = [*asking("Hi"), said, *asking("And now?")]
    made.session("agents").exchange(response(*message("Bye.")), asked)
    [trajectory] = exported(made.path, "atif")
    told = [
        (step["source"], step["message"], step.get("is_copied_context"))
        for step in trajectory["steps"]
    ]
    assert told == [
        ("user", "Hi", None),
        ("agent", "Hello.", True),
        ("user", "And now?", None),
        ("agent", "Bye.", None),
    ]


@pytest.mark.parametrize("format", ["mooncake", "atif"])
def test_what_is_not_there_is_said_in_a_sentence(tmp_path: Path, format: str) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("agents").exchange([], asking("z"), outcome="client_disconnect")
    empty = run(made.path, "export", "agents", "--format", format)
    assert (empty.code, empty.out) == (3, b"")
    assert "with status client_disconnect (1)" in empty.err
    assert run(made.path, "export", "nobody", "--format", format).code == 3
    wrong = run(made.path, "export", "agents", "--format", "chat", "--block-size", "16")
    assert (wrong.code, "--block-size is not for --format chat" in wrong.err) == (2, True)
