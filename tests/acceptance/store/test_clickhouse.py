"""ClickHouse as a target of copies, as `docs/scale.md` prepares it: its statements, run by `chdb` in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.store import schema
from tests.support.analytics import CLICKHOUSE, VIEWS, ClickHouse, answers_of_the_log, exported_log
from tests.support.console import blocks
from tests.support.corpus import ROOT

SECTION = (ROOT / "docs" / "scale.md").read_text().partition("## ClickHouse\n")[2].partition("\n## ")[0]
LOG, DATASETS = ([each.strip() for each in block.split(";") if each.strip()] for block in blocks(SECTION, "sql"))

MILLION = 10**6
DISTINCT = 1_000  # events of the export, each in as many sessions as make a million
COPIES = f"""SELECT concat(substring(session_id, 1, 24), leftPad(toString(number), 12, '0')) AS session_id, exchange_id,
    pos, kind, t_ns, type, sequence_number, item_id, output_index, raw, data_start, data_length, hash, day
FROM (SELECT * FROM file('FILES') WHERE length(raw) < 1000 ORDER BY session_id, exchange_id, pos LIMIT {DISTINCT}) AS e
CROSS JOIN numbers({MILLION // DISTINCT}) AS copies"""


def name_of(statement: str) -> str:
    [name] = re.findall(r"^CREATE TABLE (\w+)", statement)
    return str(name)


def test_the_tables_have_the_columns_and_keys_of_the_log() -> None:
    tables = {table.name: table for table in (schema.sessions, schema.exchanges, schema.events, schema.tombstones)}
    assert [name_of(each) for each in LOG] == list(tables)
    for statement in LOG:
        table = tables[name_of(statement)]
        written = re.findall(r"^    (\w+) ", statement, re.MULTILINE)
        assert [name for name in written if name != "day"] == [column.name for column in table.columns]
        key = re.findall(r"ORDER BY \(?([\w, ]+)\)?$", statement)
        assert key == [", ".join(column.name for column in table.primary_key)]
        nullable = set(re.findall(r"^    (\w+) .*Nullable", statement, re.MULTILINE))
        assert nullable == {column.name for column in table.columns if column.nullable}


def test_each_view_of_the_questions_has_a_table() -> None:
    assert sorted(map(name_of, DATASETS)) == sorted(VIEWS)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_log(tmp_path_factory.mktemp("clickhouse-log"))


@pytest.fixture
def clickhouse(tmp_path: Path, log: Path) -> Iterator[ClickHouse]:
    engine = ClickHouse(tmp_path / "clickhouse")
    for statement in (*LOG, *DATASETS):
        engine.rows(statement.replace("file('", f"file('{log}/parquet/"))
    yield engine
    engine.close()


@pytest.mark.slow
def test_a_million_events_inserted_twice_are_a_million(clickhouse: ClickHouse, log: Path) -> None:
    rows = COPIES.replace("FILES", f"{log}/parquet/events/day=*/*.parquet")
    clickhouse.rows(f"INSERT INTO events {rows}")
    summed = "SELECT count(), sum(length(raw)), groupBitXor(cityHash64(*)) FROM events FINAL"
    once = clickhouse.rows(summed)
    clickhouse.rows(f"INSERT INTO events {rows}")
    assert once[0][0] == MILLION
    assert clickhouse.rows(summed) == once
    clickhouse.rows("OPTIMIZE TABLE events FINAL")
    assert clickhouse.rows("SELECT count() FROM events") == [(MILLION,)]


@pytest.mark.slow
def test_rows_inserted_twice_answer_as_the_log_does(clickhouse: ClickHouse, log: Path) -> None:
    clickhouse.rows("SET final = 1")
    for copied_ns in (1, 2):
        for view in VIEWS:
            files = f"file('{log}/parquet/{view}/day=*/*.parquet')"
            clickhouse.rows(f"INSERT INTO {view} SELECT *, {copied_ns} FROM {files}")
    assert [clickhouse.rows(sql) for sql in CLICKHOUSE] == answers_of_the_log(log / "recorder.db")
