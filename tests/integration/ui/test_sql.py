"""The panels of the home page: their numbers are those that the command line gives."""

from __future__ import annotations

import asyncio
import json
import math
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.commands.sessions import _STATUSES
from recorder.store.queries.reader import LogReader
from recorder.store.queries.usage import DAY_NS
from recorder.ui.api import session_outline
from recorder.ui.sql import PANELS, Questions, home
from tests.support.conversations import (
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    sse,
)
from tests.support.corpus import ROOT
from tests.support.rows import START_NS, put_prices
from tests.support.server import run
from tests.support.superuser import connected

DAY_S = DAY_NS / 1e9
TOKENS = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
CACHED = {**TOKENS, "input_tokens_details": {"cached_tokens": 400}}
LONG = {"input_tokens": 3000, "output_tokens": 9}
RULES = "You are an agent. " * 400
THOUGHT = {**TOKENS, "output_tokens_details": {"reasoning_tokens": 41}}

Found = Mapping[str, list[dict[str, Any]]]


def days_since_start() -> int:
    return (time.time_ns() - START_NS) // DAY_NS + 2


@pytest.fixture(scope="module")
def recorded(shared_database: URL) -> URL:
    made = Conversations(shared_database)
    first = made.session("first")
    calls = [
        *call("roll", "{}"),
        *call("look", "{}", index=1, call_id="call_2"),
        *call("roll", "{}", index=2),
    ]
    first.exchange(response(*calls, id="resp_1", usage=CACHED), asking("Roll."))
    first.exchange(response(*message("Six."), id="resp_2", usage=THOUGHT), answering("6"), at_s=5)
    failed = {
        "id": "mcp_1",
        "type": "mcp_call",
        "name": "fetch",
        "arguments": "{}",
        "error": "There is none.",
    }
    done = sse("response.output_item.done", output_index=0, item=failed)
    first.exchange(response(done, id="resp_4", usage=TOKENS), asking("Fetch."), at_s=7)
    first.exchange(response(*message("Hm"), id="resp_3")[:4], asking("And?"), at_s=9, ended=False)
    later = made.session("later", 2 * DAY_S)
    for number in range(9):  # each begins 100 ms later than the one before; a tenth has no end
        frames = response(
            *call("roll", "{}"), *message("Again.", index=1), id=f"late_{number}", usage=TOKENS
        )
        later.exchange([b": ping\n\n"] * number + frames, asking("Again"), at_s=number * 60.0)
    later.exchange(
        response(*message("Bye."), id="resp_5", usage=None)[:-1],
        asking("?"),
        at_s=900,
        outcome="truncated",
    )
    cached = made.session("cached", 2.5 * DAY_S)
    for number, rules in enumerate((RULES, RULES, f"{RULES}On Monday. {RULES}")):
        body = {"model": "gpt-5", "instructions": rules, "input": asking("Well?") * (number + 1)}
        usage = {**LONG, "input_tokens_details": {"cached_tokens": 2944 if number == 1 else 0}}
        answer = response(*message("Well."), id=f"cached_{number}", usage=usage)
        cached.exchange(answer, body=body, at_s=10 * number, client="codex")
    made.session("imported", 3 * DAY_S, "import").exchange(
        response(*message("Old."), id="resp_6"), asking("Old?")
    )
    put_prices(made.database, input="1.25", cache_read="0.125", output="10")
    return made.database


async def asked(url: URL, days: int) -> dict[str, Any]:
    questions = Questions(url)
    try:
        async with await LogReader.open(url) as log:
            return await home(questions, log, days)
    finally:
        questions.close()


@pytest.fixture(scope="module")
def panels(recorded: URL) -> dict[str, dict[str, Any]]:
    answer = asyncio.run(asked(recorded, days_since_start()))
    assert [panel["error"] for panel in answer["panels"]] == [None] * len(PANELS)
    return {panel["id"]: panel for panel in answer["panels"]}


def objects(panel: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(panel["columns"], row, strict=True)) for row in panel["rows"]]


@pytest.mark.long
def test_the_command_of_a_panel_gives_its_numbers(
    recorded: URL, panels: Mapping[str, dict[str, Any]]
) -> None:
    for name, panel in panels.items():
        program, *words = shlex.split(panel["command"])
        ran = run(recorded, *words, "--json")
        assert (program, ran.code) == ("recorder", 0), ran.err
        rows = objects(panel)
        assert rows, name
        assert json.loads(ran.out) == rows, name


def test_the_tokens_of_a_day_are_those_of_the_command_usage(
    recorded: URL, panels: Mapping[str, dict[str, Any]]
) -> None:
    usage = json.loads(run(recorded, "usage", "--by", "day", "--json").out)
    rows = objects(panels["tokens"])
    assert [row["day"] for row in rows] == [row["day"] for row in usage]
    for row, used in zip(rows, usage, strict=True):
        assert row["exchanges"] == used["exchanges"]
        assert row["uncached_input"] + (row["cached_input"] or 0) == used["input_tokens"]
        assert row["cached_input"] == used["cache_read_input_tokens"]
        assert row["visible_output"] + (row["reasoning"] or 0) == used["output_tokens"]
        assert row["reasoning"] == used["reasoning_output_tokens"]


def test_the_cost_of_a_day_is_that_of_its_kinds(panels: Mapping[str, dict[str, Any]]) -> None:
    first, *_ = rows = objects(panels["costs"])
    kinds = ("input", "cache_read", "cache_write", "reasoning", "output", "other")
    assert [row["cost_picousd"] for row in rows] == [
        sum(row[f"{kind}_picousd"] for kind in kinds) for row in rows
    ]
    # Three answers of 1,000 tokens of input, 400 of them cached, and 100 of output, 41 of them
    # reasoning.
    assert {kind: first[f"{kind}_picousd"] for kind in kinds} == {
        "input": 2_600 * 1_250_000,
        "cache_read": 400 * 125_000,
        "cache_write": 0,
        "reasoning": 41 * 10_000_000,
        "output": 259 * 10_000_000,
        "other": 0,
    }
    assert (first["priced"], first["without_cost"]) == (3, 0)


def test_costs_are_divided_by_model_and_client(panels: Mapping[str, dict[str, Any]]) -> None:
    panel = panels["costs"]
    assert {*panel["chart"]["by"], panel["chart"]["total"]} < {*panel["columns"]}
    assert {(row["model"], row["client"]) for row in objects(panel)} == {
        ("gpt-5", "unknown"),
        ("gpt-5", "codex"),
    }


def test_a_cache_miss_costs_what_its_tokens_would_have_been_cheaper(
    panels: Mapping[str, dict[str, Any]],
) -> None:
    [row] = objects(panels["misses"])
    assert (row["session_name"], row["class"], row["path"]) == (
        "cached",
        "prefix_changed",
        "instructions",
    )
    assert row["missed_tokens"] > 1000
    assert row["cost_picousd"] == row["missed_tokens"] * (1_250_000 - 125_000)


def test_sessions_are_listed_by_their_newest_request(panels: Mapping[str, dict[str, Any]]) -> None:
    rows = objects(panels["latest"])
    assert [row["session_name"] for row in rows] == ["imported", "cached", "later", "first"]
    assert [row["used_ns"] for row in rows] == sorted(
        (row["used_ns"] for row in rows), reverse=True
    )


async def test_a_session_is_named_as_soon_as_its_request_is_in_the_log(
    sqlite_database: URL,
) -> None:
    session = Conversations(sqlite_database).session("live", at_s=time.time() - START_NS / 1e9)
    session.exchange([], asking("Fix the tests"), ended=False)
    [latest] = [
        each for each in (await asked(sqlite_database, 30))["panels"] if each["id"] == "latest"
    ]
    assert [(row["title"], row["models"]) for row in objects(latest)] == [
        ("Fix the tests", "gpt-5")
    ]
    async with await LogReader.open(sqlite_database) as log:
        [turn] = (await session_outline(log, "live"))["exchanges"]
    assert (turn["user_text"], turn["model"], turn["is_turn"], turn["has_ended"]) == (
        "Fix the tests",
        "gpt-5",
        True,
        False,
    )


def test_a_session_without_a_request_has_the_begin_of_its_answer_as_title(
    sqlite_database: URL,
) -> None:
    session = Conversations(sqlite_database).session("stream")
    session.exchange(response(*message("It is\n17 °C", " and clear.")), body={"model": "gpt-5"})
    [row] = json.loads(run(sqlite_database, "sessions", "--json").out)
    assert row["title"] == "It is 17 °C and clear."


async def test_without_prices_no_panel_of_costs_is_shown(sqlite_database: URL) -> None:
    assert "costs" not in [panel["id"] for panel in (await asked(sqlite_database, 30))["panels"]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "column"), [("ttft", "ttft_ns"), ("silence", "longest_silence_ns")]
)
def test_percentiles_are_the_nearest_ranks_of_live_recordings(
    recorded: URL, panels: Mapping[str, dict[str, Any]], name: str, column: str
) -> None:
    sql = f"SELECT started_ns, {column} FROM latency WHERE origin = 'live' AND {column} IS NOT NULL"
    by_day = defaultdict[str, list[int]](list)
    for row in json.loads(run(recorded, "query", sql, "--json").out):
        by_day[time.strftime("%Y-%m-%d", time.gmtime(row["started_ns"] // 10**9))].append(
            row[column]
        )
    expected = [
        {
            "day": day,
            "exchanges": len(values),
            **{
                f"p{percent}_ns": sorted(values)[math.ceil(len(values) * percent / 100) - 1]
                for percent in (50, 90, 99)
            },
        }
        for day, values in sorted(by_day.items())
    ]
    assert objects(panels[name]) == expected


def test_errors_are_counted_by_day_and_kind(panels: Mapping[str, dict[str, Any]]) -> None:
    assert panels["errors"]["rows"] == [["2026-09-23", "truncated", 1]]


def test_tools_are_ordered_by_their_failures(panels: Mapping[str, dict[str, Any]]) -> None:
    rows = objects(panels["tools"])
    assert [(row["tool"], row["calls"], row["failed"]) for row in rows] == [
        ("fetch", 1, 1),
        ("roll", 11, 0),
        ("look", 1, 0),
    ]


async def test_only_the_last_days_count(recorded: URL) -> None:
    answer = await asked(recorded, 1)
    assert answer["since_ns"] % DAY_NS == 0
    assert [panel["rows"] for panel in answer["panels"]] == [[]] * len(PANELS)
    assert answer["from_ns"] == answer["since_ns"]
    assert not answer["is_empty"]


async def test_days_begin_with_the_first_recording(recorded: URL) -> None:
    answer = await asked(recorded, days_since_start() + 40)
    assert answer["from_ns"] == START_NS // DAY_NS * DAY_NS
    assert answer["since_ns"] < answer["from_ns"]


async def test_an_empty_log_is_known_as_such(sqlite_database: URL) -> None:
    assert (await asked(sqlite_database, 30))["is_empty"]


async def test_a_panel_that_fails_does_not_stop_the_others(database: URL) -> None:
    Conversations(database).session("one").exchange(response(*message("Six.")), asking("Roll."))
    with connected(database) as connection:
        # a server drops none that others read
        for view in ("latency_by_model", "latency_by_day", "latency"):
            connection.execute(f"DROP VIEW {view}")
        connection.commit()
    answer = await asked(database, days_since_start())
    errors = {panel["id"]: panel["error"] for panel in answer["panels"]}
    assert {name for name, error in errors.items() if error} == {"ttft", "silence"}
    assert "latency" in str(errors["ttft"])
    assert "recorder query" in answer["panels"][0]["command"]


def test_the_page_of_sessions_offers_all_statuses() -> None:
    source = (ROOT / "recorder" / "ui" / "static" / "sessions" / "filters.js").read_text()
    [found] = re.findall(r"const STATUSES = (\[.*?\n\]);", source, re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', found)) == _STATUSES
