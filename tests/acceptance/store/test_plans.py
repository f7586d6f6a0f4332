"""What commands ask of the log, and how: rule R8 of `store/test_growth.py`.

No question reads the events of all sessions: each seeks those of one exchange, or sums projections.
What is asked is caught on its way to the database, and the database says how it would go about it.

In a file its program says it: a cursor on `events` or one of its indexes is moved to a key, and
never to the first or the last row there is. A server says it with `EXPLAIN`, told to read a table
as a whole only where it must.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import URL, event
from sqlalchemy.ext.asyncio import AsyncEngine

from recorder.model.events import BODY_KINDS
from recorder.store.location import database_url
from recorder.store.queries.costs import exchange_costs
from recorder.store.queries.event_place import event_place
from recorder.store.queries.outlines import outlines, progress, spans
from recorder.store.queries.reader import LogReader
from recorder.store.queries.retention import holdings, recorders_of_open
from recorder.store.queries.session_list import (
    ListPlace,
    SessionFilter,
    list_sessions,
    session_page,
)
from recorder.store.queries.session_named import count_named, session_named, tombstone_of
from recorder.store.queries.usage import By, Summed, usage
from recorder.store.search import INDEX_NAMES
from recorder.store.write.writer import Store
from tests.support import superuser
from tests.support.postgres import Server
from tests.support.rows import START_NS, add, begin, make_end, make_events, make_id, put_prices

WHOLE: Mapping[str, str] = {
    "holdings": "what `recorder db purge` frees by size: every event's length, once, by whoever asks for it",
}
"""The questions that do read events of all sessions, and why."""
WHOLE_ON_SERVER = {
    **WHOLE,
    "rebuild_is_due": "the last thousand ends there are, by an index that has nothing else; in a file by seeks",
    "what is open": "whether each exchange has its end, by the index of ends; in a file by seeks",
}

Asked = list[tuple[str, Any]]
"""Statements as the driver gets them, and their values."""


async def _every(found: Any) -> None:
    async for _ in found:
        pass


async def _usage(by: By, log: LogReader) -> None:
    await usage(log, (by,), Summed(1, START_NS * 2))


SESSION, EXCHANGE = make_id(1), make_id(1)
LATE = make_id(1, 2 * START_NS)  # followers ask for what began a few seconds ago

QUESTIONS: Mapping[str, Callable[[LogReader], Awaitable[Any]]] = {
    "sessions": lambda log: list_sessions(log, 50),
    "a page of sessions": lambda log: session_page(log, 50, before=ListPlace(LATE, SESSION)),
    "sessions of a model": lambda log: list_sessions(log, 50, SessionFilter(model="m")),
    "sessions of a client": lambda log: list_sessions(log, 50, SessionFilter(client="c")),
    "sessions of a status": lambda log: list_sessions(log, 50, SessionFilter(status="open")),
    "sessions of a time": lambda log: list_sessions(
        log, 50, SessionFilter(since_ns=1, until_ns=START_NS * 2)
    ),
    "sessions with words": lambda log: list_sessions(log, 50, SessionFilter(words="dice")),
    "latest": lambda log: session_named(log, "latest"),
    "a name": lambda log: session_named(log, "run-1"),
    "an id": lambda log: session_named(log, SESSION),
    "the beginning of an id": lambda log: session_named(log, SESSION[:13]),
    "exchanges": lambda log: log.exchanges(SESSION),
    "spans": lambda log: spans(log, SESSION),
    "events": lambda log: _every(log.events(SESSION, EXCHANGE)),
    "events of some kinds": lambda log: _every(
        log.events(SESSION, EXCHANGE, after=1, kinds=BODY_KINDS)
    ),
    "progress": lambda log: progress(log, LATE, [EXCHANGE]),
    "progress of a session": lambda log: progress(log, LATE, [EXCHANGE], SESSION),
    "outlines": lambda log: outlines(log, SESSION),
    "a place": lambda log: event_place(log, SESSION, EXCHANGE, 1),
    "what is open": recorders_of_open,
    "a tombstone": lambda log: tombstone_of(log, SESSION),
    "holdings of some": lambda log: holdings(log, [SESSION]),
    "costs of a session": lambda log: exchange_costs(log, SESSION),
    "count of a name": lambda log: count_named(log, "run-1"),
    **{f"usage by {by}": partial(_usage, by) for by in get_args(By)},
    "rebuild_is_due": lambda log: log.rebuild_is_due(),
    "holdings": holdings,
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "log.db"
    fill(path)
    return path


def fill(database: Path | URL) -> None:
    """Two exchanges: one that has ended, one that has not; and a price, without which no cost is
    looked up.
    """
    with Store(database) as log:
        ended = begin(log, 1)
        add(
            log,
            make_events(
                ended,
                [b"{}", b"{}", b"data: {}\n\n", make_end("completed")],
                ["request", "response"],
            ),
        )
        add(log, make_events(begin(log, 2), [b"{}", b"data: {}\n\n"], ["request"]))
    put_prices(database, input="1")


@pytest.fixture(scope="module")
def server(postgres_server: Server, postgres_template: str) -> Iterator[URL]:
    """The same, and so much besides that it matters how a server goes about it."""
    url = database_url(postgres_server.create(postgres_template))
    fill(url)
    ids = "first_id(CAST(now() AT TIME ZONE 'UTC' + make_interval(mins => n) AS timestamp))"
    sessions = f"SELECT {ids} AS id, n FROM generate_series(1, 3000) AS n"
    for sql in (
        f"INSERT INTO sessions SELECT id, n, 'run-' || n, 'prefix', '{{}}', 'live' FROM ({sessions}) AS s",
        "INSERT INTO exchanges SELECT session_id, session_id, created_ns, 'r', 'openai', 'other', 'POST', '/' "
        "FROM sessions WHERE created_ns <= 3000",
        "INSERT INTO events SELECT session_id, session_id, n, CASE n WHEN 0 THEN 'request' WHEN 9 THEN 'end' "
        "ELSE 'frame' END, n, NULL, NULL, NULL, NULL, '{}', NULL, NULL, '' "
        "FROM sessions, generate_series(0, 9) AS n WHERE created_ns <= 3000",
        "ANALYZE",
    ):
        superuser.asked(url, sql)
    yield url
    postgres_server.drop(url)


def asked(database: Path | URL, question: str) -> Asked:
    return asyncio.run(_asked(database, QUESTIONS[question]))


async def _asked(database: Path | URL, question: Callable[[LogReader], Awaitable[Any]]) -> Asked:
    found: Asked = []
    async with await LogReader.open(database) as log:
        assert isinstance(log.source.pool, AsyncEngine)

        @event.listens_for(log.source.pool.sync_engine, "before_cursor_execute")
        def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
            found.append((statement, values))

        await question(log)
    assert found
    return found


def whole_in_file(path: Path, statement: str, values: Any) -> list[str]:
    """Where a program of SQLite begins at the first or the last entry of `events` or an index of
    it.
    """
    with superuser.connected(path) as connection:
        roots = dict(
            connection.execute(
                "SELECT rootpage, name FROM sqlite_master WHERE tbl_name = 'stored_events'"
            )
        )
        program = connection.execute(f"EXPLAIN {statement}", values).fetchall()
    cursors = {
        p1: roots[p2]
        for _, code, p1, p2, *_ in program
        if code in ("OpenRead", "ReopenIdx") and p2 in roots
    }
    return [
        f"{code} {cursors[p1]}"
        for _, code, p1, *_ in program
        if code in ("Rewind", "Last") and p1 in cursors
    ]


def whole_on_server(url: URL, statement: str, values: Any) -> list[str]:
    """The nodes of a plan that go through `events`, or an index of it, without a condition on its
    key.
    """
    with superuser.connected(url) as connection:
        connection.execute("SET enable_seqscan = off")
        [(explained,)] = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}", values).fetchall()
        empty = connection.execute(
            "SELECT relname FROM pg_class WHERE reltuples = 0 AND relkind = 'r'"
        ).fetchall()
    months_to_come = tuple(name for (name,) in empty)
    return [
        f"{node['Node Type']} {name}"
        for node in _nodes(explained[0]["Plan"])
        for name in [node.get("Index Name") or node.get("Relation Name", "")]
        if name.startswith("events")
        and not name.startswith(months_to_come)
        and "Index Cond" not in node
        and node["Node Type"] != "Bitmap Heap Scan"
    ]


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for part in node.get("Plans", ()):
        yield from _nodes(part)


def test_no_question_reads_the_events_of_all_sessions(file: Path) -> None:
    sent = {question: asked(file, question) for question in QUESTIONS if question not in WHOLE}
    plans = {
        question: [whole_in_file(file, *each) for each in statements]
        for question, statements in sent.items()
    }
    assert {question: parts for question, parts in plans.items() if any(parts)} == {}


# of `events_end` in a month: an entry for each exchange, not for each event
ENDS = "_session_id_exchange_id_idx"


def test_no_question_does_on_a_server_either(server: URL) -> None:
    found = {
        question: asked(server, question)
        for question in QUESTIONS
        if question not in WHOLE_ON_SERVER
    }
    plans = {
        question: [whole_on_server(server, *each) for each in sent]
        for question, sent in found.items()
    }
    # What is open is what has no end: once its tables are vacuumed, a server may go through all
    # ends for it.
    plans["sessions of a status"] = [
        [part for part in parts if not part.endswith(ENDS)]
        for parts in plans["sessions of a status"]
    ]
    assert {question: parts for question, parts in plans.items() if any(parts)} == {}


def test_so_it_is_when_its_tables_are_vacuumed(server: URL) -> None:
    with superuser.connected(server) as connection:
        connection.autocommit = True
        connection.execute("VACUUM (ANALYZE) recorder.events")
    test_no_question_does_on_a_server_either(server)


def test_what_does_is_seen(file: Path) -> None:
    assert whole_in_file(file, "SELECT sum(length(raw)) FROM events", ())


def test_those_that_do_are_seen_on_a_server(server: URL) -> None:
    for question in WHOLE_ON_SERVER:
        assert any(whole_on_server(server, *each) for each in asked(server, question)), question


# -- which index it is

SEEKS = {
    "sessions": "sqlite_autoindex_stored_events_1 (exchange=?)",
    "events": "sqlite_autoindex_stored_events_1 (exchange=? AND pos>?)",
    "spans": "sqlite_autoindex_stored_events_1 (exchange=?)",
    "latest": "sqlite_autoindex_stored_exchanges_1 (session_id=? AND exchange_id>?)",
    "a page of sessions": "USING INDEX exchanges_exchange_id (exchange_id<?)",
    "a name": "sessions_name (name=?)",
    "exchanges": "sqlite_autoindex_stored_exchanges_1 (session_id=?)",
    "usage by model": "SCAN u USING COVERING INDEX p_usage_v1_sums",
    "usage by tool": "p_results_v1_call (session_id=? AND call_key=?",
    "what is open": "events_end (exchange=?)",
}
BY_WORDS = [
    step
    for table, index in (("p_items_v1", 0), ("p_results_v1", 1), ("p_user_texts_v1", 2))
    for step in (
        f"SEARCH {table} USING INTEGER PRIMARY KEY (rowid=?)",
        f"SCAN {INDEX_NAMES[index]} VIRTUAL TABLE",
    )
]


def steps_in_file(file: Path, question: str) -> list[str]:
    with superuser.connected(file) as connection:
        return [
            step[3]
            for statement, values in asked(file, question)
            for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        ]


def test_a_question_seeks_by_its_index(file: Path) -> None:
    steps = {question: steps_in_file(file, question) for question in SEEKS}
    assert {
        name: steps[name]
        for name, seek in SEEKS.items()
        if not any(seek in step for step in steps[name])
    } == {}


def test_sessions_with_words_are_found_by_the_indexes_and_no_text_is_read(file: Path) -> None:
    steps = steps_in_file(file, "sessions with words")
    assert [step for step in BY_WORDS if not any(each.startswith(step) for each in steps)] == []
    assert [
        step for step in steps if step.startswith(("SCAN p_items", "SCAN p_results", "SCAN p_user"))
    ] == []


def test_a_list_of_sessions_sums_up_those_that_it_shows_and_no_others(file: Path) -> None:
    [(statement, values)] = [
        each for each in asked(file, "sessions") if "session_summary" in each[0]
    ]
    with superuser.connected(file) as connection:
        steps = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    of_summary = [step for step in steps if step.split()[1] == "s"]
    assert of_summary
    assert [
        step
        for step in of_summary
        if not step.endswith("sqlite_autoindex_sessions_1 (session_id=?)")
    ] == []


@pytest.mark.parametrize("question", ["sessions", "a page of sessions", "latest"])
def test_a_page_of_sessions_is_not_sorted_out_of_all_of_them(file: Path, question: str) -> None:
    statement, values = next(each for each in asked(file, question) if "AS used" in each[0])
    with superuser.connected(file) as connection:
        steps = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert "stored_exchanges USING INDEX exchanges_exchange_id" in steps[0]
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps


def test_a_list_that_finds_no_session_sums_up_none(file: Path) -> None:
    wanted = SessionFilter(probes=True)
    statements = asyncio.run(_asked(file, lambda log: list_sessions(log, 50, wanted)))
    assert [statement for statement, _ in statements if "session_summary" in statement] == []


def test_what_a_recorder_asks_while_it_writes_reads_no_events_of_others(file: Path) -> None:
    found: list[str] = []  # with their values
    with Store(file) as log:
        driver: Any = log._connection.connection.driver_connection
        driver.set_trace_callback(found.append)
        with log.transaction():
            log.sessions_of(EXCHANGE, "run-1", ["prefix"])
            log.session_of_exchange(EXCHANGE)
            log.session_of_response("resp_1")
            log.session_of_links(["call_1", "msg_1"], "history")
            log.last_event(SESSION, EXCHANGE)
    questions = [each for each in found if each.startswith("SELECT")]
    assert len(questions) == 7
    assert [whole_in_file(file, each, ()) for each in questions] == [[]] * 7


def test_a_server_sorts_no_row_for_a_sum_of_days(server: URL) -> None:
    superuser.asked(
        server,
        "INSERT INTO p_usage_v1 (session_id, exchange_id, input_tokens, partial, started_ns, model, client, outcome, "
        "reported) SELECT session_id, session_id, 1, 0, created_ns * 1000000000000, 'm', 'c', 'completed', 1 "
        "FROM sessions WHERE created_ns <= 3000",
    )
    superuser.asked(server, "ANALYZE p_usage_v1")
    for view in ("usage_by_day", "usage_by_model"):
        with superuser.connected(server) as connection:
            [(explained,)] = connection.execute(
                f"EXPLAIN (FORMAT JSON) SELECT * FROM {view}"
            ).fetchall()
        of_rows = [
            node for node in _nodes(explained[0]["Plan"]) if node["Node Type"] == "Aggregate"
        ][-1]
        assert (view, of_rows["Strategy"], of_rows["Plan Rows"] < 300) == (view, "Hashed", True)


def test_a_server_expects_the_calls_that_there_are(server: URL) -> None:
    """It took them for one, and went through all sessions for each: at 100,000 calls half a minute."""
    superuser.asked(
        server,
        "INSERT INTO p_items_v1 (session_id, exchange_id, item, kind, type, name, began_ns) "
        "SELECT session_id, session_id, 0, 'tool_call', 'function_call', 'bash', 0 FROM sessions "
        "WHERE created_ns <= 3000",
    )
    superuser.asked(server, "ANALYZE p_items_v1")
    with superuser.connected(server) as connection:
        [(explained,)] = connection.execute(
            "EXPLAIN (FORMAT JSON) SELECT * FROM tool_stats"
        ).fetchall()
    joins = [
        node["Plan Rows"]
        for node in _nodes(explained[0]["Plan"])
        if node["Node Type"].endswith(("Join", "Loop"))
    ]
    assert joins
    assert min(joins[:2]) > 1_000
