"""`recorder usage`: what tokens were used for."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import URL

from recorder.model.attribution import Attribution
from recorder.store.queries.usage import OVERLAPPING, By
from recorder.store.schema import STALE
from tests.support.conversations import Conversations, answering, asking, call, message, response
from tests.support.rows import price_rows, put
from tests.support.server import Ran, run
from tests.support.superuser import connected
from tests.support.terminal import on_terminal

# after the other session: the first hours of 2027, in the last week of 2026
NEW_YEAR_S = 8_770_000.0
TOKENS = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
CACHED = {**TOKENS, "input_tokens_details": {"cached_tokens": 400}}
THOUGHT = {**TOKENS, "output_tokens_details": {"reasoning_tokens": 41}}


def filled(database: Path | URL) -> Conversations:
    made = Conversations(database)
    first = made.session("first")
    calls = [
        *call("roll", "{}"),
        *call("look", "{}", index=1, call_id="call_2"),
        *call("roll", "{}", index=2),
    ]
    asked = {
        "model": "gpt-5",
        "stream": True,
        "input": asking("Roll."),
        "reasoning": {"effort": "high"},
    }
    offered = {
        "tools": [{"type": "web_search"}, {"type": "function", "name": "roll"}],
        "service_tier": "flex",
    }
    ann, bob = Attribution("ann", "search", ("dev", "eu")), Attribution("bob", "search", ("eu",))
    body = {**asked, **offered}
    first.exchange(
        response(*calls, id="resp_1", usage=CACHED), body=body, client="codex", attribution=ann
    )
    said = response(*message("Six."), id="resp_2", usage=THOUGHT)
    first.exchange(said, answering("6"), at_s=5, client="codex", attribution=bob)
    first.exchange(response(*message("Hm"), id="resp_3")[:4], asking("And?"), at_s=9, ended=False)
    later = made.session("later", NEW_YEAR_S)
    later.exchange(
        response(*message("Hello."), id="resp_4", model="gpt-6", usage=TOKENS), asking("Hello?")
    )
    later.exchange(
        response(*message("Bye."), id="resp_5", usage=None)[:-1],
        asking("Bye?"),
        at_s=1,
        outcome="truncated",
    )
    return made


@pytest.fixture(scope="module")
def recorded(shared_database: URL) -> Conversations:
    return filled(shared_database)


@pytest.fixture(scope="module")
def in_file(tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    """The same for what is shown of it, which is not matter of the engine, and takes a process
    each.
    """
    return filled(tmp_path_factory.mktemp("shown") / "recorder.db")


@pytest.fixture
def usage(recorded: Conversations) -> Callable[..., Ran]:
    return lambda *arguments: run(recorded.database, "usage", *arguments)


@pytest.fixture
def told(usage: Callable[..., Ran]) -> Callable[..., list[dict[str, Any]]]:
    def ask(*arguments: object) -> list[dict[str, Any]]:
        ran = usage(*arguments, "--json")
        rows: list[dict[str, Any]] = json.loads(ran.out)
        assert ran.code == (0 if rows else 3)
        return rows

    return ask


def from_sql(database: Path | URL, statement: str) -> list[dict[str, Any]]:
    with connected(database) as connection:
        cursor = connection.execute(statement)
        return [
            dict(zip([column[0] for column in cursor.description], row, strict=True))
            for row in cursor
        ]


def counted(rows: list[dict[str, Any]], *by: By) -> list[tuple[Any, ...]]:
    """The keys of each row, and how many exchanges it is of."""
    return [(*(row[key] for key in by), row["exchanges"]) for row in rows]


KEYS: dict[By, list[tuple[object, int]]] = {
    "day": [("2026-09-21", 2), ("2027-01-01", 2)],
    "week": [("2026-W39", 2), ("2026-W53", 2)],
    "month": [("2026-09", 2), ("2027-01", 2)],
    "model": [("gpt-5", 3), ("gpt-6", 1)],
    "client": [("codex", 2), (None, 2)],
    "owner": [(None, 2), ("ann", 1), ("bob", 1)],
    "team": [("search", 2), (None, 2)],
    "tag": [("eu", 2), (None, 2), ("dev", 1)],
    "tool": [("look", 1), ("roll", 1)],
    "hour": [("2026-09-21 14", 2), ("2027-01-01 02", 2)],
    "outcome": [("completed", 3), ("truncated", 1)],
    "effort": [(None, 3), ("high", 1)],
    "tier": [(None, 3), ("flex", 1)],
    "tools": [(0, 3), (2, 1)],
}


@pytest.mark.long
def test_tokens_are_summed_by_anything(told: Callable[..., list[dict[str, Any]]]) -> None:
    assert {by: counted(told("--by", by), by) for by in KEYS} == KEYS


PAIRS: dict[tuple[By, By], list[tuple[object, object, int]]] = {
    ("day", "model"): [
        ("2026-09-21", "gpt-5", 2),
        ("2027-01-01", "gpt-6", 1),
        ("2027-01-01", "gpt-5", 1),
    ],
    ("model", "month"): [("gpt-5", "2026-09", 2), ("gpt-5", "2027-01", 1), ("gpt-6", "2027-01", 1)],
    ("tool", "day"): [("look", "2026-09-21", 1), ("roll", "2026-09-21", 1)],
    ("client", "tool"): [("codex", "look", 1), ("codex", "roll", 1)],
    ("outcome", "model"): [
        ("completed", "gpt-5", 2),
        ("completed", "gpt-6", 1),
        ("truncated", "gpt-5", 1),
    ],
    ("tool", "outcome"): [("look", "completed", 1), ("roll", "completed", 1)],
    ("effort", "model"): [(None, "gpt-5", 2), (None, "gpt-6", 1), ("high", "gpt-5", 1)],
    ("tool", "effort"): [("look", "high", 1), ("roll", "high", 1)],
    ("team", "owner"): [("search", "ann", 1), ("search", "bob", 1), (None, None, 2)],
    ("owner", "tool"): [("ann", "look", 1), ("ann", "roll", 1)],
    ("tool", "tag"): [("look", "dev", 1), ("look", "eu", 1), ("roll", "dev", 1), ("roll", "eu", 1)],
}


def test_two_keys_are_two_dimensions(told: Callable[..., list[dict[str, Any]]]) -> None:
    assert {pair: counted(told("--by", pair[0], "--by", pair[1]), *pair) for pair in PAIRS} == PAIRS
    assert told("--by", "week", "--by", "week") == told("--by", "week")


def test_any_number_of_keys_are_as_many_dimensions(
    told: Callable[..., list[dict[str, Any]]],
) -> None:
    keys = [by for by in get_args(By) if by not in OVERLAPPING]
    rows = told(*(option for by in keys for option in ("--by", by)))
    found = [(row["effort"], row["tier"], row["tools"], row["exchanges"]) for row in rows]
    assert sorted(found, key=str) == [("high", "flex", 2, 1), *[(None, None, 0, 1)] * 3]
    assert sum(row["total_tokens"] or 0 for row in rows) == sum(
        row["total_tokens"] for row in told("--by", "model")
    )


def test_a_response_that_is_fetched_later_counts_at_the_effort_of_its_request(
    database: URL,
) -> None:
    session = Conversations(database).session("background")
    asked = {
        "model": "gpt-5",
        "input": "Think.",
        "background": True,
        "reasoning": {"effort": "low"},
        "tools": [],
    }
    frames = response(*message("Done."), id="resp_1", usage=THOUGHT)
    session.exchange(frames[:1], body={**asked, "service_tier": "flex"}, outcome="truncated")
    later = [
        frame.replace(b'"completed"', b'"completed", "service_tier": "default"') for frame in frames
    ]
    fetched: Any = {
        "method": "GET",
        "target": "/v1/responses/resp_1",
        "resumes_response_id": "resp_1",
    }
    session.exchange(later, body={"": ""}, at_s=60, **fetched)
    found = run(
        database,
        "usage",
        *(o for by in ("effort", "tier", "tools") for o in ("--by", by)),
        "--json",
    )
    [row] = json.loads(found.out)
    assert (row["effort"], row["tier"], row["tools"], row["exchanges"]) == ("low", "default", 0, 1)
    [by_effort] = from_sql(database, "SELECT * FROM reasoning_by_effort")
    assert (
        by_effort["reasoning_effort"],
        by_effort["exchanges"],
        by_effort["reasoning_output_tokens"],
    ) == (
        "low",
        1,
        41,
    )
    assert len(from_sql(database, "SELECT * FROM requests")) == 1


def test_no_name_of_a_model_is_cut_before_numbers_go(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db")
    name = "a-vendor-with-a-name/a-model-of-a-long-name-2026-11-22"
    made.session("first").exchange(
        response(*message("Hello."), model=name, usage=CACHED), asking("Hello?")
    )
    header, line = on_terminal(80, "usage", "--db", made.database, said="")
    assert line.startswith(f"{name} ")
    assert header.split()[:2] == ["model", "exchanges"]


def test_sessions_of_one_name_are_not_one(told: Callable[..., list[dict[str, Any]]]) -> None:
    rows = told("--by", "session")
    assert [row["session_name"] for row in rows] == ["first", "later"]
    assert list(rows[0])[:3] == ["session_id", "session_name", "exchanges"]


def test_the_numbers_are_those_of_the_view(
    recorded: Conversations, told: Callable[..., list[dict[str, Any]]]
) -> None:
    for by in ("model", "day"):
        view = from_sql(recorded.database, f"SELECT * FROM usage_by_{by}")
        assert sorted(told("--by", by), key=str) == sorted(view, key=str)


# by sums of days, and by the exchanges themselves
@pytest.mark.parametrize("by", ["model", "session"])
def test_shares_are_of_the_exchanges_that_report_both(
    told: Callable[..., list[dict[str, Any]]], by: str
) -> None:
    of_two, *_ = told("--by", by)
    assert (of_two["reported"], of_two["input_tokens"], of_two["cache_read_input_tokens"]) == (
        2,
        2000,
        400,
    )
    assert (of_two["reasoning_share"], of_two["cached_share"]) == (0.41, 0.4)


def test_an_exchange_counts_once_for_each_tool(told: Callable[..., list[dict[str, Any]]]) -> None:
    look, roll = told("--by", "tool")
    assert [(row["calls"], row["answered"], row["failed"]) for row in (look, roll)] == [
        (1, 0, 0),
        (2, 2, 0),
    ]
    assert look["total_tokens"] == roll["total_tokens"] == 1100


def test_only_the_time_asked_for_is_counted(told: Callable[..., list[dict[str, Any]]]) -> None:
    assert [row["day"] for row in told("--by", "day", "--since", "2026-10-01")] == ["2027-01-01"]
    assert [row["day"] for row in told("--by", "day", "--until", "2026-10-01T00:00:00Z")] == [
        "2026-09-21"
    ]
    assert [row["tool"] for row in told("--by", "tool", "--since", "2026-10-01")] == []
    assert told("--since", "2026-10-01", "--until", "2026-11-01") == []


def test_csv_has_the_names_of_the_columns(
    usage: Callable[..., Ran], told: Callable[..., list[dict[str, Any]]]
) -> None:
    header, *rows = csv.reader(io.StringIO(usage("--by", "tool", "--csv").out.decode()))
    expected = told("--by", "tool")
    assert header == list(expected[0])
    assert rows == [
        ["" if value is None else str(value) for value in row.values()] for row in expected
    ]


def test_numbers_are_grouped_and_summed_for_people_only(in_file: Conversations) -> None:
    shown = on_terminal(160, "usage", "--db", in_file.path)
    assert [line.split()[0] for line in shown] == ["model", "gpt-5", "gpt-6", "total"]
    assert shown[-1].split()[1:5] == ["4", "3", "3,000", "400"]
    assert "41 %" in shown[1]
    piped = run(in_file.path, "usage").out.decode().splitlines()
    assert [line.split()[0] for line in piped] == ["model", "gpt-5", "gpt-6"]
    assert piped[1].split()[3] == "2000"
    assert [
        line.split()[0] for line in on_terminal(160, "usage", "--by", "tool", "--db", in_file.path)
    ][-1] == "roll"


def test_the_table_is_readable_on_eighty_columns(in_file: Conversations) -> None:
    for by in get_args(By):
        header, *lines = on_terminal(80, "usage", "--by", by, "--db", in_file.path)
        assert {"exchanges", "input", "output"} < set(header.split()), by
        assert max(map(len, (header, *lines))) <= 80, by


def test_wrong_use_is_answered_with_one_sentence(usage: Callable[..., Ran]) -> None:
    for arguments, code, sentence in (
        (("--by", "colour"), 2, "is not one of"),
        (("--since", "soon"), 2, "'soon' is not a time: give 30m, 12h, 7d, 2w"),
        (("--json", "--csv"), 2, "choose one"),
        (
            ("--since", "2d", "--until", "3d"),
            2,
            "--since is later than --until: nothing can be in between.",
        ),
        (("--since", "2026-10-01", "--until", "2026-11-01"), 3, "has ended in that time."),
    ):
        ran = usage(*arguments)
        assert (ran.code, ran.out) == (code, b"")
        assert sentence in ran.err


def test_nothing_used_yet_is_exit_code_three(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db")
    made.session("empty")
    ran = run(made.database, "usage")
    assert (ran.code, ran.err) == (
        3,
        "Error: No exchange that asks a model for something has ended yet.\n",
    )
    ran = run(made.database, "usage", "--json")
    assert (ran.code, ran.out) == (3, b"[]\n")


def test_projections_that_are_not_up_to_date_are_mentioned(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db")
    made.session("first").exchange(response(*message("Hello.")), asking("Hello?"))
    assert all(run(made.database, verb).err == "" for verb in ("usage", "sessions"))
    with connected(made.path) as connection:
        connection.execute("INSERT INTO rebuilds VALUES ('projections', '', '')")
    for arguments in (("usage",), ("sessions",), ("sessions", "--model", "gpt")):
        ran = run(made.database, *arguments)
        assert (ran.code, ran.err) == (0, f"{STALE}\n")


def test_where_a_rebuild_is_due_it_is_not_said_that_nothing_has_ended(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db")
    made.session("first").exchange(response(*message("Hello.")), asking("Hello?"))
    with connected(made.path) as connection:
        connection.execute("DELETE FROM p_exchanges_v1")
        connection.execute("DELETE FROM p_usage_v1")
    ran = run(made.database, "usage")
    assert (ran.code, ran.err) == (3, f"Error: {STALE}\n")
    ran = run(made.database, "usage", "--json")
    assert (ran.code, ran.out, ran.err) == (3, b"[]\n", f"Error: {STALE}\n")


def test_costs_are_exact_decimals_beside_what_has_no_price(tmp_path: Path) -> None:
    made = filled(tmp_path / "recorder.db")
    with connected(made.database) as connection:
        put(connection, *price_rows("gpt-6", input="0.1", output="0.2"))
    ran = run(made.path, "usage", "--cost", "--json")
    found = {each["model"]: (each["cost_usd"], each["priced"]) for each in json.loads(ran.out)}
    assert found.pop("gpt-6") == ("0.00012", 1)
    assert {cost for cost, _ in found.values()} == {None}
    assert "without a cost (no price): openai " in str(ran.err)
