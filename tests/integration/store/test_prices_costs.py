"""Costs of the sessions and exchanges that are shown, and of no others."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, TextClause, event
from sqlalchemy.ext.asyncio import AsyncEngine

from recorder.store.queries.costs import (
    CostSum,
    ExchangeCost,
    costs_by_exchange,
    exchange_costs,
    session_costs,
    sum_of,
)
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import list_sessions
from recorder.store.queries.session_named import session_named
from tests.support.conversations import Conversations, asking, message, response
from tests.support.empty_log import empty
from tests.support.rows import put_prices
from tests.support.server import run
from tests.support.superuser import asked

GPT = response(*message("Hi."))
OTHER = response(*message("Hi."), model="nobody's")
REFUSED = json.dumps({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}).encode()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> URL:
    made = Conversations(empty(tmp_path_factory.mktemp("prices") / "log.db"))
    made.session("priced").exchange(GPT, asking("Hello?"))
    mixed = made.session("mixed", 10)
    mixed.exchange(GPT, asking("Hello?"))
    mixed.exchange(OTHER, asking("Hello?"), at_s=5)
    cut = made.session("cut", 20)
    cut.exchange(GPT, asking("Hello?"))
    cut.exchange(GPT[:4], asking("Hello?"), at_s=5, outcome="truncated")
    refused = made.session("refused", 30)
    refused.exchange([REFUSED], asking("Hello?"), content_type="application/json", http_status=429)
    refused.exchange(GPT, asking("Hello?"), at_s=5)
    made.session("unpriced", 40).exchange(OTHER, asking("Hello?"))
    made.session("empty", 50)
    put_prices(made.database, input="1.25", cache_read="0.125", output="10")
    return made.database


# 210 tokens of input, 1,024 from the cache, 264 of output and 192 of reasoning.
COST = "0.0049505"
TWICE = {"cost_usd": COST, "cost_partial": True}
COSTS: dict[str, dict[str, Any]] = {
    "priced": {"cost_usd": COST, "cost_partial": False},
    "mixed": TWICE,
    "cut": TWICE,
    "refused": {"cost_usd": COST, "cost_partial": False},
    "unpriced": {"cost_usd": None, "cost_partial": None},
    "empty": {"cost_usd": None, "cost_partial": None},
}


def test_a_session_has_the_cost_of_its_exchanges(recorded: URL) -> None:
    rows = json.loads(run(recorded, "sessions", "--json").out)
    assert {
        row["name"]: {name: row[name] for name in ("cost_usd", "cost_partial")} for row in rows
    } == COSTS


def test_a_snapshot_has_the_same_sum_as_the_list(recorded: URL) -> None:
    for name, cost in COSTS.items():
        session = json.loads(run(recorded, "show", name, "--json").out)["session"]
        assert {key: session.get(key) for key in cost} == cost


def test_an_exchange_has_its_cost_by_kind_or_the_reason_why_not(recorded: URL) -> None:
    priced, unpriced = json.loads(run(recorded, "show", "mixed", "--json").out)["exchanges"]
    assert priced["cost"] == {
        "input_usd": "0.0002625",
        "cache_read_usd": "0.000128",
        "cache_write_usd": "0",
        "output_usd": "0.00264",
        "reasoning_usd": "0.00192",
        "other_usd": "0",
        "cost_usd": COST,
        "cost_partial": False,
        "price_source": "prices.toml",
        "price_model": "gpt-5",
    }
    assert unpriced["cost"] == {"no_price": "model"}


def test_an_exchange_that_still_runs_has_no_cost_at_that_moment(recorded: URL) -> None:
    [exchange] = json.loads(run(recorded, "show", "priced", "--at-event", "4", "--json").out)[
        "exchanges"
    ]
    assert "cost" not in exchange


def test_a_person_sees_the_cost_in_three_digits(recorded: URL) -> None:
    shown = run(recorded, "show", "mixed").out.decode()
    assert "≥ $0.00495" in shown.splitlines()[0]
    assert " · $0.00495 · " in shown


async def test_the_costs_of_one_session_are_those_of_the_view(recorded: URL) -> None:
    columns = (
        "cost_picousd",
        "input_picousd",
        "cache_read_picousd",
        "output_picousd",
        "reasoning_picousd",
    )
    view: Any = asked(
        recorded,
        f"SELECT exchange_id, {', '.join(columns)}, no_price FROM costs ORDER BY exchange_id",
    )
    found: list[tuple[Any, ...]] = []
    async with await LogReader.open(recorded) as log:
        for name in COSTS:
            costs = await exchange_costs(log, (await session_named(log, name)).session_id)
            for exchange_id, cost in costs.items():
                kinds = [cost.picousd.get(column.removesuffix("_picousd")) for column in columns]
                found.append((exchange_id, *kinds, cost.no_price))
    assert sorted(found) == [(str(row[0]), *row[1:]) for row in view]
    assert len(found) == 8


@pytest.mark.parametrize("statement", [session_costs, costs_by_exchange])
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_usage_is_read_only_of_the_sessions_named(
    engine: str, statement: Callable[[str], TextClause]
) -> None:
    named, rest = statement(engine).text.split(") SELECT ", 1)
    assert named == (
        "WITH named_usage AS (SELECT * FROM usage WHERE session_id IN :session_ids), "
        "named_iterations AS (SELECT * FROM p_iterations_v1 WHERE session_id IN :session_ids"
    )
    read = re.findall(r"\b(?:FROM|JOIN) (\w+)", rest)
    assert {name for name in read if "usage" in name or "iterations" in name} == {
        "named_usage",
        "named_iterations",
    }


def test_without_prices_no_cost_is_looked_up_or_shown(sqlite_database: URL) -> None:
    Conversations(sqlite_database).session("one").exchange(GPT, asking("Hello?"))
    statements, costs = asyncio.run(_listed(sqlite_database))
    assert costs == [(None, None)]
    assert not [statement for statement in statements if "picousd" in statement]
    assert "cost" not in run(sqlite_database, "sessions").out.decode()
    [exchange] = json.loads(run(sqlite_database, "show", "one", "--json").out)["exchanges"]
    assert "cost" not in exchange


async def _listed(database: URL) -> tuple[list[str], Sequence[Any]]:
    statements: list[str] = []
    async with await LogReader.open(database) as log:
        assert isinstance(log.source.pool, AsyncEngine)

        @event.listens_for(log.source.pool.sync_engine, "before_cursor_execute")
        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            statements.append(statement)

        rows = await list_sessions(log)
    return statements, [(row.cost_usd, row.cost_partial) for row in rows]


def test_a_sum_says_that_there_may_be_more() -> None:
    known = ExchangeCost({"cost": 5 * 10**11}, False, None, "prices.toml", "m")
    cut = ExchangeCost({"cost": 10**12}, True, None, "prices.toml", "m")
    unknown = ExchangeCost({}, False, "model", None, None)
    assert sum_of([]) == sum_of([unknown]) == CostSum(None, None)
    assert sum_of([known, known]) == CostSum("1", False)
    assert sum_of([known, cut]) == CostSum("1.5", True)
    assert sum_of([known, unknown]) == CostSum("0.5", True)


def test_a_list_has_the_cost_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    Conversations(path).session("one").exchange(GPT, asking("Hello?"))
    assert "cost" not in run(path, "sessions").out.decode()
    put_prices(path, input="1.25", output="10")
    header, line = run(path, "sessions").out.decode().splitlines()
    assert "cost" in header
    assert "0.0061025" in line
