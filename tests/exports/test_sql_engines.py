"""The recipes of `docs/analytics.md` for ClickHouse and Spark, over the files of an export."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analytics import RECIPES, plain
from tests.analytics_sql import CLICKHOUSE, SPARK, VIEWS, ClickHouse, answers_of_the_log, exported_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_log(tmp_path_factory.mktemp("analytics"))


def test_there_is_a_recipe_for_each_question() -> None:
    assert len(RECIPES) == len(CLICKHOUSE) == len(SPARK)


@pytest.fixture
def clickhouse(tmp_path: Path) -> Iterator[ClickHouse]:
    engine = ClickHouse(tmp_path / "clickhouse")
    yield engine
    engine.close()


@pytest.mark.slow
def test_clickhouse_gives_the_rows_of_sqlite_over_the_files(clickhouse: ClickHouse, log: Path) -> None:
    for view in VIEWS:
        clickhouse.rows(f"CREATE VIEW {view} AS SELECT * FROM file('{log}/parquet/{view}/day=*/*.parquet')")
    answers = answers_of_the_log(log / "recorder.db")
    assert all(answers)
    for recipe, sql, rows in zip(RECIPES, CLICKHOUSE, answers, strict=True):
        assert clickhouse.rows(sql) == rows, recipe.question


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: apt-get install default-jre-headless")
def test_spark_gives_the_rows_of_sqlite_over_the_files(log: Path) -> None:
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        for view in VIEWS:
            spark.read.parquet(f"{log}/parquet/{view}").createOrReplaceTempView(view)
        for recipe, sql, rows in zip(RECIPES, SPARK, answers_of_the_log(log / "recorder.db"), strict=True):
            assert plain(spark.sql(sql).collect()) == rows, recipe.question
    finally:
        spark.stop()
