"""The recipes of `docs/analytics.md` for ClickHouse and Spark, over the files of an export."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.analytics import (
    CLICKHOUSE,
    OPENED_BY_CLICKHOUSE,
    OPENED_BY_SPARK,
    SPARK,
    ClickHouse,
    answers_of_the_log,
    exported_log,
    plain,
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_log(tmp_path_factory.mktemp("analytics"))


@pytest.fixture
def clickhouse(tmp_path: Path) -> Iterator[ClickHouse]:
    engine = ClickHouse(tmp_path / "clickhouse")
    yield engine
    engine.close()


@pytest.mark.slow
def test_clickhouse_gives_the_rows_of_sqlite_over_the_files(
    clickhouse: ClickHouse, log: Path
) -> None:
    for statement in OPENED_BY_CLICKHOUSE.replace("analysis/", f"{log}/parquet/").splitlines():
        clickhouse.rows(statement)
    answers = answers_of_the_log(log / "recorder.db", CLICKHOUSE)
    assert all(answers.values())
    assert {question: clickhouse.rows(sql) for question, sql in CLICKHOUSE.items()} == answers


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("java") is None, reason="Spark needs Java: apt-get install default-jre-headless"
)
def test_spark_gives_the_rows_of_sqlite_over_the_files(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g pyspark-shell")
    names: dict[str, Any] = {}
    exec(OPENED_BY_SPARK.replace("analysis/", f"{log}/parquet/"), names)
    spark = names["spark"]
    try:
        given = {question: plain(spark.sql(sql).collect()) for question, sql in SPARK.items()}
        assert given == answers_of_the_log(log / "recorder.db", SPARK)
    finally:
        spark.stop()
