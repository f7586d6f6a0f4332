"""`recorder show --cache` and `assert_cached`: a table of turns, what differs, and the exit code."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.errors import UsageError
from recorder.testing import assert_cached
from tests.support.conversations import Conversations, message, response
from tests.support.rows import put_prices
from tests.support.server import run
from tests.support.superuser import asked

RULES = "You are an agent. " * 400


def turn(session: Any, number: int, cached: int, **fields: Any) -> None:
    usage = {
        "input_tokens": 3000 + 100 * number,
        "output_tokens": 9,
        "input_tokens_details": {"cached_tokens": cached},
    }
    items = [{"role": "user", "content": f"Question {n}. " * 40} for n in range(number)]
    body = {"model": "gpt-5", "instructions": RULES, "input": items, **fields}
    session.exchange(
        response(*message("Yes."), id=f"resp_{number}", usage=usage), body=body, at_s=10 * number
    )


def agent(url: URL | Path, name: str = "run") -> None:
    """Three turns, the third with a date in its rules."""
    session = Conversations(url).session(name)
    turn(session, 1, 0)
    turn(session, 2, 2944)
    turn(session, 3, 0, instructions=f"{RULES}\nToday is Monday.\x1b[31m{RULES}")


@pytest.mark.long
def test_an_anonymous_export_is_diagnosed_as_the_session_itself(tmp_path: Path) -> None:
    agent(tmp_path / "log.db")
    exported = tmp_path / "run.sse.jsonl"
    exported.write_bytes(
        run(tmp_path / "log.db", "export", "run", "--anonymous", "--format", "cassette").out
    )
    before, after = (
        json.loads(run(tmp_path / "log.db", "show", shown, "--cache", "--json").out)["turns"]
        for shown in ("run", exported)
    )
    wording = ("exchange_id", "previous_exchange_id", "before", "after")
    left = [
        [{name: said for name, said in turn.items() if name not in wording} for turn in turns]
        for turns in (before, after)
    ]
    assert left[0] == left[1]


@pytest.mark.long
def test_a_miss_is_shown_with_the_first_character_that_differs(database: URL) -> None:
    agent(database)
    ran = run(database, "show", "run", "--cache")
    lines = ran.out.decode().splitlines()
    assert ran.code == 4
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["1", "first"],
        ["2", "hit"],
        ["3", "prefix_changed"],
    ]
    assert lines[5].endswith("tokens missed: instructions")
    assert lines[6].startswith("  - 2: ")
    assert "⏎Today is Monday." in lines[7]
    assert b"\x1b" not in ran.out
    assert "3 turns: 1 first, 1 hit, 1 prefix_changed; " in ran.err


def test_missed_tokens_have_a_cost(database: URL) -> None:
    agent(database)
    plain = run(database, "show", "run", "--cache")
    assert b"cost_usd" not in plain.out
    turns = json.loads(run(database, "show", "run", "--cache", "--json").out)["turns"]
    assert {each["cost_usd"] for each in turns} == {None}
    put_prices(database, input="1.25", cache_read="0.125", output="10")
    turns = json.loads(run(database, "show", "run", "--cache", "--json").out)["turns"]
    missed = turns[2]["missed_tokens"]
    assert missed > 1000
    assert [each["cost_usd"] for each in turns] == [
        None,
        "0",
        f"{missed * Decimal('1.125') / 10**6:f}",
    ]
    ran = run(database, "show", "run", "--cache")
    assert b"cost_usd" in ran.out
    assert f" missed, which cost {turns[2]['cost_usd']} USD, " in ran.err


def test_json_has_every_turn_with_all_keys(database: URL) -> None:
    agent(database)
    ran = run(database, "show", "run", "--cache", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["session"]["name"]) == (4, "run")
    assert [each["class"] for each in found["turns"]] == ["first", "hit", "prefix_changed"]
    last = found["turns"][2]
    assert (last["number"], last["previous_number"], last["path"], last["offset"]) == (
        3,
        2,
        "instructions",
        40,
    )
    assert last["after"] == f"{RULES[-40:]}\nToday is Monday.\x1b[31m{RULES}"[:80]
    [row] = asked(database, "SELECT class, is_avoidable, path, missed_tokens FROM cache_misses")
    assert row == ("prefix_changed", 1, "instructions", last["missed_tokens"])


def test_without_an_avoidable_miss_it_ends_with_0(database: URL) -> None:
    session = Conversations(database).session("run")
    turn(session, 1, 0)
    turn(session, 2, 2944)
    assert run(database, "show", "run", "--cache").code == 0


def test_a_session_without_prompts_ends_with_3(database: URL) -> None:
    Conversations(database).session("run").exchange([b""], body={"model": "m", "input": "Hi"})
    ran = run(database, "show", "run", "--cache")
    assert ran.code == 3
    assert "has no request that a model answered" in ran.err


def test_a_file_is_compared_as_its_session(database: URL, tmp_path: Path) -> None:
    agent(database)
    cassette = tmp_path / "run.sse.jsonl"
    cassette.write_bytes(run(database, "export", "run", "--format", "cassette").out)
    ran = run(database, "show", str(cassette), "--cache", "--json")
    assert (ran.code, [each["class"] for each in json.loads(ran.out)["turns"]]) == (
        4,
        ["first", "hit", "prefix_changed"],
    )
    with pytest.raises(
        AssertionError, match=r"exchange 3, prefix_changed, .* missed: instructions"
    ):
        assert_cached(cassette)
    assert_cached(cassette, ignore=["prefix_changed"])
    with pytest.raises(UsageError, match="give a list of classes"):
        assert_cached(cassette, ignore=["prefix"])
