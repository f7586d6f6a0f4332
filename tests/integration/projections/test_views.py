"""What the views say of rows that stand in the projections."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.model.events import Exchange
from recorder.projections.rows import (
    TABLES,
    ExchangeRow,
    ItemRow,
    ParametersRow,
    PhaseRow,
    ResultRow,
    TimingRow,
    UsageRow,
)
from recorder.projections.views.contract import VIEWS
from recorder.projections.views.cookbook import COOKBOOK
from recorder.projections.views.parts import View
from tests.support.rows import (
    START_NS,
    a_call,
    a_conversation,
    an_exchange,
    make_events,
    make_session,
    price_rows,
    put,
    row,
    written,
)
from tests.support.superuser import execute
from tests.support.tables import table

DAY_NS = 86_400_000_000_000
AGGREGATED = ("usage_by_day", "usage_by_model", "tool_stats")


@pytest.fixture(scope="module")
def connection(shared_database: URL) -> Iterator[Any]:
    with written(shared_database) as opened:
        yield opened


@pytest.fixture
def db(connection: Any) -> Iterator[Any]:
    """A log that is empty again after each test."""
    yield connection
    connection.rollback()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """An empty file, where the claim is about how SQLite goes about it."""
    with written(tmp_path_factory.mktemp("plans") / "log.db") as opened:
        yield opened


def asked(db: Any, sql: str, *values: object) -> list[dict[str, Any]]:
    cursor = execute(db, sql, *values)
    return [
        dict(zip([column[0] for column in cursor.description], row, strict=True)) for row in cursor
    ]


def tuples(db: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(found) for found in execute(db, sql)]


def only(db: Any, view: str) -> dict[str, Any]:
    [found] = asked(db, f"SELECT * FROM {view}")
    return found


def a_result(exchange: Exchange, **fields: Any) -> ResultRow:
    """A result of the call c1."""
    given = {"call_key": "c1", "digest": "d", "started_ns": exchange.started_ns, **fields}
    result: ResultRow = row(ResultRow, exchange, **given)
    return result


def generated(db: Any, number: int = 1, session: int = 1, **fields: Any) -> Exchange:
    """An exchange with tokens: 10 in, 4 out if nothing else is said."""
    exchange = an_exchange(
        db, number, session, **{"started_ns": START_NS + number * 1_000, **fields}
    )
    usage = {"input_tokens": 10, "output_tokens": 4, "usage_raw": "{}"}
    put(
        db,
        row(ExchangeRow, exchange, request_model="m", status="completed"),
        row(UsageRow, exchange, **usage),
    )
    return exchange


@table("view", VIEWS)
def test_a_view_has_the_columns_that_are_declared(db: Any, view: View) -> None:
    cursor = execute(db, f"SELECT * FROM {view.name}")
    assert [column[0] for column in cursor.description] == list(view.columns)
    assert cursor.fetchall() == []


@table("view", VIEWS)
def test_every_row_says_whose_it_is(view: View) -> None:
    of_sums = {*AGGREGATED, "latency_by_model", "latency_by_day", "reasoning_by_effort"}
    if view.name not in of_sums:
        own = ["session_id", "session_name", "exchange_id"][
            : 2 if view.name == "session_summary" else 3
        ]
        assert list(view.columns)[: len(own)] == own


# -- tool calls


def test_a_call_has_the_first_result_that_comes_after_it(db: Any) -> None:
    _, call, first, again = (an_exchange(db, number) for number in range(1, 5))
    put(db, row(ExchangeRow, call), a_call(call, call_key="c1", ended_ns=300))
    for number, (exchange, output) in enumerate(
        [(_, "of another call"), (first, "told"), (again, "told again")]
    ):
        put(db, a_result(exchange, digest=f"{9 - number}", output=output))
    found = only(db, "tool_calls")
    assert (found["output"], found["output_exchange_id"]) == ("told", first.exchange_id)
    assert found["latency_ns"] == first.started_ns - call.started_ns - 300
    assert found["failed"] is None


def test_a_providers_own_tool_has_its_own_result(db: Any) -> None:
    call, later = an_exchange(db, 1), an_exchange(db, 2)
    answered = a_call(call, call_key="c1", output="found", failed=False, began_ns=100, ended_ns=400)
    put(db, row(ExchangeRow, call), answered, a_result(later, output="sent back", failed=True))
    found = only(db, "tool_calls")
    assert (found["output"], found["failed"], found["latency_ns"]) == ("found", 0, 300)
    assert found["output_exchange_id"] is None


def test_a_result_in_another_session_is_not_the_calls(db: Any) -> None:
    call, elsewhere = an_exchange(db, 1), an_exchange(db, 2, session=2)
    put(db, row(ExchangeRow, call), a_call(call, call_key="c1", ended_ns=1))
    put(db, a_result(elsewhere))
    assert (only(db, "tool_calls")["output"], only(db, "tool_calls")["latency_ns"]) == (None, None)


def test_tools_are_counted_with_what_became_of_their_calls(db: Any) -> None:
    asks, _ = a_conversation(db)
    put(
        db,
        a_call(asks, item=2, call_key="c2", arguments="é"),
        a_call(asks, item=3, name="browse", call_key="c3"),
    )
    shell = asked(db, "SELECT * FROM tool_stats WHERE name = 'shell'")
    assert [
        (s["calls"], s["answered"], s["failed"], s["sessions"], s["exchanges"]) for s in shell
    ] == [(2, 1, 1, 1, 1)]
    assert shell[0]["latency_avg_ns"] == shell[0]["latency_max_ns"] == 1_000 - 100
    assert shell[0]["arguments_bytes"] == len('{"command":"roll"}') + 2


# -- tokens


def test_a_share_is_of_those_that_report_both(db: Any) -> None:
    generated(db, 1)
    exchange = an_exchange(db, 2)
    used = {"cache_read_input_tokens": 15, "reasoning_output_tokens": 6}
    put(db, row(ExchangeRow, exchange, request_model="m"))
    put(db, row(UsageRow, exchange, input_tokens=30, output_tokens=8, **used))
    found = only(db, "usage_by_model")
    assert (found["input_tokens"], found["output_tokens"], found["total_tokens"]) == (40, 12, None)
    assert (found["cached_share"], found["reasoning_share"]) == (0.5, 0.75)


def test_what_nobody_reports_is_null_and_not_zero(db: Any) -> None:
    generated(db)
    found = only(db, "usage_by_model")
    assert (found["exchanges"], found["reported"]) == (1, 1)
    assert (found["reasoning_output_tokens"], found["reasoning_share"], found["cached_share"]) == (
        None,
        None,
        None,
    )


def test_a_share_of_nothing_is_null(db: Any) -> None:
    exchange = an_exchange(db)
    put(db, row(ExchangeRow, exchange, request_model="m"))
    put(db, row(UsageRow, exchange, output_tokens=0, reasoning_output_tokens=0, usage_raw="{}"))
    assert only(db, "usage_by_model")["reasoning_share"] is None


DAYS = [
    *(
        "1970-01-01",
        "1972-02-29",
        "1999-12-31",
        "2000-02-29",
        "2000-03-01",
        "2024-02-29",
        "2025-02-28",
        "2025-03-01",
    ),
    *("2026-11-22", "2100-02-28", "2100-03-01", "2261-12-31"),
]


def test_a_day_is_one_in_utc(db: Any) -> None:
    for number, day in enumerate(DAYS):
        midnight_ns = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * 10**9
        for started_ns in (midnight_ns, midnight_ns + DAY_NS - 1):
            generated(db, 2 * number + (started_ns != midnight_ns) + 1, started_ns=started_ns)
    assert [
        (found["day"], found["exchanges"])
        for found in asked(db, "SELECT * FROM usage_by_day ORDER BY day")
    ] == [(day, 2) for day in DAYS]


def test_usage_has_its_details_to_the_last_digit(db: Any) -> None:
    a_conversation(db)
    names = "web_searches, cache_write_1h_input_tokens, output_audio_tokens, reported_cost_usd, reported_cost_source"
    found = tuples(db, f"SELECT {names} FROM usage ORDER BY exchange_id")
    assert found == [(None,) * 5, (1, 2, 3, "0.0076509169000000005", "usage.cost")]


def test_an_exchange_that_generates_nothing_is_no_usage(db: Any) -> None:
    models = an_exchange(db, target="/v1/models")
    put(db, row(ExchangeRow, models, status="completed"), row(UsageRow, models))
    assert asked(db, "SELECT * FROM usage") == []
    assert only(db, "exchange_summary")["status"] == "completed"


def test_the_model_is_the_one_that_answered(db: Any) -> None:
    a_conversation(db)
    models = [found["model"] for found in asked(db, "SELECT model FROM usage ORDER BY exchange_id")]
    assert models == ["m", "m-1"]
    assert [
        found["model"] for found in asked(db, "SELECT model FROM usage_by_model ORDER BY model")
    ] == ["m", "m-1"]


# -- what the provider did and said besides


def test_a_phase_takes_until_the_next_of_its_item(db: Any) -> None:
    exchange = generated(db)
    shared = {"output_index": 2, "item_id": "ws_1", "type": "web_search_call"}
    put(db, row(PhaseRow, exchange, step=0, phase="searching", began_ns=10, ended_ns=90, **shared))
    put(db, row(PhaseRow, exchange, step=1, phase="completed", began_ns=90, **shared))
    assert tuples(
        db, "SELECT step, type, item_id, phase, duration_ns FROM tool_phases ORDER BY step"
    ) == [
        (0, "web_search_call", "ws_1", "searching", 80),
        (1, "web_search_call", "ws_1", "completed", None),
    ]


def test_items_of_no_kind_stand_in_a_view_of_their_own(db: Any) -> None:
    exchange = generated(db)
    put(db, row(ItemRow, exchange, item=0, kind="message", text="Hi"), a_call(exchange, item=1))
    put(
        db,
        row(
            ItemRow,
            exchange,
            item=2,
            kind="other",
            type="mcp_approval_request",
            name="find",
            arguments="{}",
        ),
    )
    assert (only(db, "other_items")["type"], only(db, "other_items")["name"]) == (
        "mcp_approval_request",
        "find",
    )
    assert only(db, "tool_calls")["item"] == 1


# -- a response that is retrieved again


def retrieved_again(db: Any) -> tuple[Exchange, Exchange, Exchange]:
    """An exchange whose response two later ones retrieve, each with all of it."""
    first = generated(db, 1)
    again = [generated(db, number, resumes_response_id="resp_1") for number in (2, 3)]
    execute(db, "UPDATE p_exchanges_v1 SET response_id = 'resp_1', finish_reason = 'completed'")
    execute(
        db, "UPDATE p_exchanges_v1 SET is_retrieval = 1 WHERE exchange_id <> ?", first.exchange_id
    )
    for exchange in (first, *again):
        put(
            db,
            row(ItemRow, exchange, item=0, kind="message", text="Hello"),
            a_call(exchange, item=1, call_key="c1"),
        )
        put(db, row(ItemRow, exchange, item=2, kind="reasoning", text="Hm"))
        put(
            db,
            row(ItemRow, exchange, item=3, kind="other", type="mcp_list_tools"),
            row(PhaseRow, exchange),
        )
    return first, again[0], again[1]


def ranked(db: Any, exchange: Exchange, finish_reason: str | None, last_number: int | None) -> None:
    sql = "UPDATE p_exchanges_v1 SET finish_reason = ?, last_number = ? WHERE exchange_id = ?"
    execute(db, sql, finish_reason, last_number, exchange.exchange_id)


@pytest.mark.parametrize(
    ("first", "second", "last", "stands"),
    [
        # asked whether it is done, and for all of it in the end
        (("stop", 9), (None, None), ("stop", None), 0),
        ((None, 4), (None, None), ("stop", None), 2),
        ((None, 4), (None, 7), (None, 2), 1),  # cut three times: who has most of it
        ((None, 4), (None, 4), (None, 4), 2),
        # what was streamed before it was cancelled
        ((None, 4), (None, None), ("cancelled", None), 0),
        ((None, None), (None, None), ("cancelled", None), 2),
    ],
)
def test_of_several_exchanges_with_a_response_the_one_that_has_most_of_it_stands(
    db: Any, first: Any, second: Any, last: Any, stands: int
) -> None:
    exchanges = retrieved_again(db)
    for exchange, (finish_reason, last_number) in zip(
        exchanges, (first, second, last), strict=True
    ):
        ranked(db, exchange, finish_reason, last_number)
    for view in ("messages", "reasoning", "tool_calls", "usage", "other_items", "tool_phases"):
        assert only(db, view)["exchange_id"] == exchanges[stands].exchange_id


def test_two_responses_with_one_id_that_nobody_retrieved_are_two(db: Any) -> None:
    retrieved_again(db)
    execute(db, "UPDATE p_exchanges_v1 SET is_retrieval = 0")
    assert len(asked(db, "SELECT * FROM messages")) == 3


def test_a_result_that_came_before_its_call_was_retrieved_again_is_found(db: Any) -> None:
    _, second, last = retrieved_again(db)
    put(db, a_result(second, output="18 °C"))
    found = only(db, "tool_calls")
    assert (found["exchange_id"], found["output"], found["latency_ns"]) == (
        last.exchange_id,
        "18 °C",
        None,
    )


def test_a_superseded_exchange_counts_once_in_every_sum(db: Any) -> None:
    retrieved_again(db)
    assert (
        only(db, "usage_by_model")["input_tokens"]
        == only(db, "session_summary")["input_tokens"]
        == 10
    )
    assert only(db, "tool_stats")["calls"] == only(db, "session_summary")["tool_calls"] == 1
    assert only(db, "session_summary")["exchanges"] == 3


def test_a_summary_says_what_supersedes_an_exchange(db: Any) -> None:
    first, second, last = retrieved_again(db)
    assert tuples(
        db, "SELECT exchange_id, superseded_by FROM exchange_summary ORDER BY exchange_id"
    ) == [
        (first.exchange_id, last.exchange_id),
        (second.exchange_id, last.exchange_id),
        (last.exchange_id, None),
    ]


def test_an_exchange_stands_until_the_one_that_resumes_it_has_ended(db: Any) -> None:
    first = generated(db, 1)
    execute(db, "UPDATE p_exchanges_v1 SET response_id = 'resp_1'")
    an_exchange(db, 2, resumes_response_id="resp_1")
    assert only(db, "usage")["exchange_id"] == first.exchange_id


def test_a_retrieval_in_another_session_supersedes_nothing(db: Any) -> None:
    generated(db, 1)
    generated(db, 2, session=2, resumes_response_id="resp_1")
    execute(db, "UPDATE p_exchanges_v1 SET response_id = 'resp_1'")
    assert len(asked(db, "SELECT * FROM usage")) == 2


def test_exchanges_that_say_the_same_id_are_not_compared_with_each_other(tmp_path: Path) -> None:
    with written(tmp_path / "log.db") as db:
        few = _steps_of_usage(db, range(1, 101))
        assert _steps_of_usage(db, range(101, 401)) < 6 * few, "of four times as many"


def _steps_of_usage(db: sqlite3.Connection, numbers: range) -> int:
    """Add exchanges, and return about how many steps of its machine SQLite takes for the view."""
    for number in numbers:
        generated(db, number)
    execute(db, "UPDATE p_exchanges_v1 SET response_id = 'resp_1'")
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.set_progress_handler(count, 10)
    execute(db, "SELECT count(*) FROM usage")
    db.set_progress_handler(None, 0)
    return steps


# -- summaries


def test_an_open_exchange_is_in_the_summary(db: Any) -> None:
    an_exchange(db)
    found = only(db, "exchange_summary")
    assert (found["status"], found["messages"], found["input_tokens"], found["superseded_by"]) == (
        None,
        0,
        None,
        None,
    )


def test_an_exchange_counts_what_it_has(db: Any) -> None:
    a_conversation(db)
    assert tuples(
        db,
        "SELECT messages, reasoning, tool_calls, anomalies FROM exchange_summary ORDER BY exchange_id",
    ) == [(0, 1, 1, 0), (1, 0, 0, 1)]


def test_a_session_is_what_its_exchanges_come_to(db: Any) -> None:
    first, last = a_conversation(db)
    found = only(db, "session_summary")
    assert {name: found[name] for name in ("title", "models", "tools", "clients")} == {
        "title": "Roll the dice",
        "models": "m, m-1",
        "tools": "shell",
        "clients": "codex",
    }
    assert [found[name] for name in ("exchanges", "turns", "threads", "tool_calls", "errors")] == [
        2,
        1,
        1,
        1,
        1,
    ]
    assert (found["started_ns"], found["ended_ns"]) == (first.started_ns, last.started_ns + 300)
    assert found["duration_ns"] == last.started_ns + 300 - first.started_ns
    assert (
        found["input_tokens"],
        found["cache_read_input_tokens"],
        found["cache_write_input_tokens"],
    ) == (
        40,
        15,
        None,
    )


def test_turns_are_counted_by_their_ids_where_they_have_some(db: Any) -> None:
    for number, (turn_id, is_turn) in enumerate(
        [("a", True), ("a", False), ("b", True), (None, True), (None, False)], 1
    ):
        exchange = an_exchange(db, number, turn_id=turn_id)
        put(db, row(ExchangeRow, exchange, status="completed", is_turn=is_turn))
    assert only(db, "session_summary")["turns"] == 3


def test_an_empty_session_has_a_summary(db: Any) -> None:
    an_exchange(db, 1, session=1)
    put(db, make_session(2, name="empty"))
    [found] = asked(db, "SELECT * FROM session_summary WHERE session_name = 'empty'")
    assert (found["exchanges"], found["turns"], found["errors"], found["tool_calls"]) == (
        0,
        0,
        0,
        0,
    )
    assert (found["started_ns"], found["title"], found["models"], found["input_tokens"]) == (
        None,
        None,
        None,
        None,
    )


# -- times


def test_a_gap_is_the_time_since_the_frame_before(db: Any) -> None:
    exchange = an_exchange(db)
    put(db, *make_events(exchange, [b"a", b":", b"b", b"c"], ["frame", "comment"]))
    assert tuples(db, "SELECT pos, t_ns, gap_ns FROM event_gaps ORDER BY pos") == [
        (0, 0, None),
        (2, 2_000, 2_000),
        (3, 3_000, 1_000),
    ]


def sent(
    db: Any, number: int, digest: str | None, status: str = "completed", **fields: Any
) -> Exchange:
    """An exchange with a request of that digest, which used ten tokens in a microsecond."""
    exchange = an_exchange(db, number, started_ns=10_000 * number, **fields)
    put(
        db,
        row(ExchangeRow, exchange, status=status, request_model="m"),
        row(ParametersRow, exchange, request_digest=digest),
        row(UsageRow, exchange, total_tokens=10, usage_raw="{}"),
        row(TimingRow, exchange, duration_ns=1_000),
    )
    return exchange


def retried(db: Any) -> list[tuple[Any, ...]]:
    columns = "exchange_id, retried_exchange_id, first_exchange_id, attempt_number, retried_status, wasted_total_tokens"
    return tuples(db, f"SELECT {columns} FROM retries ORDER BY exchange_id")


def test_a_retry_is_the_same_request_after_one_that_failed(db: Any) -> None:
    first, second, third = (
        sent(db, n, "a", status) for n, status in enumerate(("failed", "truncated", "completed"), 1)
    )
    sent(db, 4, "b")
    sent(db, 5, "a")  # the one before it was answered: it is a question that was sent twice
    ids = [each.exchange_id for each in (first, second, third)]
    assert retried(db) == [
        (ids[1], ids[0], ids[0], 2, "failed", 10),
        (ids[2], ids[1], ids[0], 3, "truncated", 10),
    ]
    assert [each["waited_ns"] for each in asked(db, "SELECT waited_ns FROM retries")] == [
        9_000,
        9_000,
    ]


def test_a_retry_that_the_client_counts_is_one_although_the_answer_was_complete(db: Any) -> None:
    first, second = sent(db, 1, "a", attempt=0), sent(db, 2, "a", attempt=1)
    third, fourth = sent(db, 3, None, attempt=0), sent(db, 4, None, attempt=1)
    assert retried(db) == [
        (second.exchange_id, first.exchange_id, first.exchange_id, 2, "completed", 10),
        (fourth.exchange_id, third.exchange_id, third.exchange_id, 2, "completed", 10),
    ]


def test_the_cook_book_has_the_cost_of_the_attempts_before_retries(db: Any) -> None:
    first, _ = sent(db, 1, "a", "failed"), sent(db, 2, "a")
    execute(db, f"UPDATE {TABLES['usage']} SET input_tokens = 1000000, output_tokens = 0")
    put(db, *price_rows("m", first.provider, input="2.5", output="10"))
    [question] = [
        each for each in COOKBOOK if "cost" in each.question and "sent again" in each.question
    ]
    [found] = asked(db, question.written("").rstrip(";"))
    assert (found["retries"], found["wasted_tokens"], float(found["wasted_usd"])) == (1, 10, 2.5)


def test_a_request_after_a_failure_of_another_is_no_retry(db: Any) -> None:
    sent(db, 1, "a", "failed")
    sent(db, 2, "b", attempt=1)
    sent(db, 3, "a", session=2)
    sent(db, 4, None, "failed")
    sent(db, 5, None)
    assert retried(db) == []


def timed(db: Any, values: list[int | None], **fields: Any) -> None:
    """Exchanges of a model with these times, one behind the other."""
    for number, value in enumerate(values, fields.pop("first", 1)):
        exchange = an_exchange(db, number, **fields)
        put(db, row(ExchangeRow, exchange, response_model="m"))
        put(
            db,
            row(
                TimingRow,
                exchange,
                ttft_ns=value,
                duration_ns=1000 + number,
                longest_silence_ns=value,
            ),
        )


@pytest.mark.parametrize("count", [1, 2, 3, 10, 99, 101])
def test_a_percentile_is_the_nearest_rank_of_those_that_have_the_value(db: Any, count: int) -> None:
    values = [(number * 37) % 101 for number in range(count)]
    timed(db, [*values, None, None])
    for found in (only(db, "latency_by_model"), only(db, "latency_by_day")):
        assert (found["origin"], found["exchanges"], found["measured"]) == (
            "live",
            count + 2,
            count,
        )
        for percent in (50, 90, 99):
            expected = sorted(values)[math.ceil(count * percent / 100) - 1]
            assert found[f"ttft_p{percent}_ns"] == found[f"silence_p{percent}_ns"] == expected
            assert found[f"duration_p{percent}_ns"] == 1000 + math.ceil((count + 2) * percent / 100)


def test_percentiles_of_a_day_are_of_that_day(db: Any) -> None:
    for day in range(3):
        timed(
            db,
            [10 * day, 10 * day + 1],
            first=1 + 10 * day,
            started_ns=(20_000 + day) * 86_400 * 10**9,
        )
    assert tuples(
        db, "SELECT day, exchanges, ttft_p50_ns, ttft_p99_ns FROM latency_by_day ORDER BY day"
    ) == [
        ("2024-10-04", 2, 0, 1),
        ("2024-10-05", 2, 10, 11),
        ("2024-10-06", 2, 20, 21),
    ]


def test_latency_has_every_time_there_is(db: Any) -> None:
    assert set(TimingRow.__struct_fields__) <= set(
        next(view for view in VIEWS if view.name == "latency").columns
    )
    a_conversation(db)
    assert [
        found["ttft_ns"] for found in asked(db, "SELECT ttft_ns FROM latency ORDER BY exchange_id")
    ] == [50, 60]


# -- plans: those of SQLite, a server has its own


def plan(file: sqlite3.Connection, sql: str) -> list[str]:
    return [detail for *_, detail in file.execute(f"EXPLAIN QUERY PLAN {sql}")]


AGGREGATES = ("usage", *AGGREGATED, "exchange_summary", "session_summary")


@table("view", [*AGGREGATES, "messages", "reasoning", "tool_calls", "latency", "anomalies"])
def test_what_is_projected_is_asked_without_the_events(file: sqlite3.Connection, view: str) -> None:
    used = file.execute(f"EXPLAIN SELECT * FROM {view}").fetchall()
    root = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()[0]
    assert not [step for step in used if step[1] == "OpenRead" and step[3] == root]


# The views of costs find the prices of each model once, from all usage; the program asks
# `store.queries.costs`.
OF_A_SESSION = [
    view.name
    for view in VIEWS
    if "session_name" in view.columns and view.name not in ("costs", "retries")
]


@table("view", OF_A_SESSION)
@table("column", ["session_id", "session_name"])
def test_one_session_is_found_without_a_look_at_the_others(
    file: sqlite3.Connection, view: str, column: str
) -> None:
    steps = plan(file, f"SELECT * FROM {view} WHERE {column} = 'x'")
    made = {
        f"SCAN {step.split()[1]}"
        for step in steps
        if step.startswith(("CO-ROUTINE", "MATERIALIZE"))
    }
    assert not [
        step
        for step in steps
        if step.startswith("SCAN") and "subquery" not in step and step not in made
    ]


@table("view", [view.name for view in VIEWS])
def test_no_row_is_joined_by_a_scan(file: sqlite3.Connection, view: str) -> None:
    assert not [
        step for step in plan(file, f"SELECT * FROM {view}") if re.match("SCAN .* LEFT-JOIN", step)
    ]


@pytest.mark.parametrize("view", ["usage_by_model", "usage_by_day"])
def test_one_pass_over_an_index_gives_the_sums_of_tokens(
    file: sqlite3.Connection, view: str
) -> None:
    steps = plan(file, f"SELECT * FROM {view}")
    assert "SCAN u USING COVERING INDEX p_usage_v1_sums" in steps
    assert "SCAN r USING INDEX p_exchanges_v1_retrieval" in steps  # of a few rows, once
    assert steps[: steps.index("SCAN daily")].count("USE TEMP B-TREE FOR GROUP BY") == 0


@pytest.mark.parametrize("order", ["total_tokens DESC", "started_ns DESC"])
def test_the_largest_sessions_are_looked_for_among_the_newest_first(
    file: sqlite3.Connection, order: str
) -> None:
    """What a sorter would not keep is not worked out: the first ten seen are often the ten."""
    asked = f"SELECT * FROM session_summary ORDER BY {order} LIMIT 10"
    assert "SCAN s USING COVERING INDEX sessions_newest" in plan(file, asked)
    assert "SEARCH s USING INDEX sqlite_autoindex_sessions_1 (session_id=?)" in plan(
        file, "SELECT * FROM session_summary WHERE session_id = 'a'"
    )
