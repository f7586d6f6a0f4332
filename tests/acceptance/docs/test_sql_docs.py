"""The reference of the views is what they are, and its queries answer."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from sqlalchemy import URL

from recorder.archive.query import open_query
from recorder.commands.query import HELD_BYTES, TABLE_ROWS
from recorder.model.events import Kind
from recorder.model.text import STORABLE_LIMIT
from recorder.projections.views.columns import MEANINGS
from recorder.projections.views.contract import VIEWS
from recorder.projections.views.cookbook import COOKBOOK
from recorder.store.queries.query import Query, Row
from recorder.store.schema import dead_letters, rebuilds
from recorder.store.write.writer import Store
from tests.acceptance.store.test_duckdb import EXTENSION
from tests.support.corpus import ROOT
from tests.support.postgres import conninfo
from tests.support.rows import a_conversation, add, begin, make_end, make_events, written
from tests.support.server import run
from tests.support.superuser import SEARCH, connected, engine
from tools import cookbook
from tools.cookbook import Results, results
from tools.sql_docs import examples, page

NAMES = ["search", *(view.name for view in VIEWS)]


def asked(asking: Query, sql: str) -> list[Row]:
    return list(asking.ask(sql, {"session": "run-1"} if ":session" in sql else {}).rows)


# -- the cook-book


def shown(found: Results) -> dict[str, Any]:
    return {
        entry.question: cookbook.shown_rows(entry, *found[entry.question]) for entry in COOKBOOK
    }


def test_there_are_twenty_questions_and_most_find_something(demo_recording: Path) -> None:
    found = shown(cookbook.asked(demo_recording))
    assert len(found) == len(COOKBOOK) == 20
    assert sum(not rows for rows in found.values()) <= 1, "what the demo does not have: retries"
    text = cookbook.written(cookbook.asked(demo_recording))
    assert [entry.question for entry in COOKBOOK if f"## {entry.question}\n" not in text] == []


def test_a_server_answers_the_cook_book_as_a_file_does(
    demo_recording: Path, postgres_database: URL, tmp_path: Path
) -> None:
    server = postgres_database.render_as_string(hide_password=False)
    assert run(tmp_path / "x", "db", "copy", demo_recording, server).code == 0
    assert shown(cookbook.asked(postgres_database)) == shown(cookbook.asked(demo_recording))


def test_duckdb_answers_the_cook_book_as_sqlite_does(demo_recording: Path) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute(f"LOAD '{EXTENSION}'")
        connection.execute(f"ATTACH '{demo_recording}' AS log (TYPE sqlite, READ_ONLY)")
        connection.execute("USE log")

        def ask(sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
            answer = connection.execute(sql)
            return [column[0] for column in answer.description or ()], answer.fetchall()

        found = results(ask, "duckdb")
    assert shown(found) == shown(cookbook.asked(demo_recording))


# -- the views


def test_every_view_has_an_example_of_its_own() -> None:
    for name in ("sqlite", "postgresql"):
        found = examples(name)
        assert list(found) == NAMES
        for view in VIEWS:
            assert re.search(rf"\b{view.name}\b", found[view.name])
            assert found[view.name] in page()


def test_every_example_finds_something(shared_database: URL) -> None:
    with written(shared_database) as connection:
        a_conversation(connection)
    shown = examples(engine(shared_database))
    with open_query(shared_database) as asking:
        assert [name for name in NAMES if not asked(asking, shown[name])] == []


# -- on a server that goes about everything in parallel


PARALLEL = {
    **dict.fromkeys(("parallel_setup_cost", "parallel_tuple_cost"), "0"),
    **dict.fromkeys(("min_parallel_table_scan_size", "min_parallel_index_scan_size"), "0"),
}


@pytest.fixture
def parallel(postgres_database: URL) -> URL:
    """A log on a server that reads every table with several processes if it may."""
    with psycopg.connect(conninfo(postgres_database), autocommit=True) as connection:
        forced = (
            "debug_parallel_query"
            if connection.info.server_version >= 160000
            else "force_parallel_mode"
        )
        for name, value in {**PARALLEL, forced: "on"}.items():
            connection.execute(
                f'ALTER DATABASE "{postgres_database.database}" SET {name} = {value}'.encode()
            )
    return postgres_database


def recorded(url: URL, exchanges: int, events: int) -> None:
    """Exchanges with so many payloads each, that have ended, and what several make of them."""
    payload = b'{"type":"response.output_text.delta","delta":"dice"}'
    with Store(url) as store:
        for number in range(10, 10 + exchanges):
            exchange = begin(store, number)
            raws = [b"{}", *[b"data: " + payload + b"\n\n"] * events, make_end("completed")]
            kinds: list[Kind] = ["request", "end"]
            kinds[1:1] = ["frame"] * events
            add(store, make_events(exchange, raws, kinds))
    with connected(url) as connection:
        connection.execute(
            f"UPDATE events SET data_start = 6, data_length = {len(payload)} WHERE kind = 'frame'"
        )
        a_conversation(connection)
    with psycopg.connect(conninfo(url), autocommit=True) as server:
        server.execute("ANALYZE")


@pytest.mark.parametrize(
    ("exchanges", "events"),
    [(1, 200), pytest.param(50, 1_000, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_every_view_and_example_is_read_in_parallel(
    parallel: URL, exchanges: int, events: int
) -> None:
    recorded(parallel, exchanges, events)
    with open_query(parallel) as asking:
        for view in VIEWS:
            assert asked(asking, f"SELECT * FROM {view.name}"), view.name
        for name, sql in examples("postgresql").items():
            assert asked(asking, sql), name
        assert len(asked(asking, "SELECT payload FROM event_payloads")) == exchanges * events + 2
        plans = [asked(asking, f"EXPLAIN SELECT * FROM {view.name}") for view in VIEWS]
        assert "Gather" in str(plans)


def test_the_page_names_what_is_not_a_view() -> None:
    text = (ROOT / "docs" / "sql.md").read_text() + page()
    assert [
        name for name in (SEARCH, rebuilds.name, dead_letters.name) if f"`{name}`" not in text
    ] == []


def test_the_limits_on_the_page_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "sql.md").read_text()
    limits = (
        f"{TABLE_ROWS:,} rows, `--json` takes {HELD_BYTES >> 20} MiB",
        f"cut at {STORABLE_LIMIT:,} characters",
    )
    assert [limit for limit in limits if limit not in text] == []


def test_no_meaning_is_of_a_column_that_is_not_there() -> None:
    names = {
        name
        for view in VIEWS
        for name in (*view.columns, *(f"{view.name}.{column}" for column in view.columns))
    }
    assert set(MEANINGS) <= names
