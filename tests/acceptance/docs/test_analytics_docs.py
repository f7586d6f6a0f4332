"""The recipes of `docs/analytics.md` give the rows of SQLite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pytest

from recorder.store.location import database_url
from tests.support.analytics import DUCKDB, PAGE, PANDAS, POLARS, answers_of_the_log, plain
from tests.support.exports import filled, tables
from tests.support.server import run

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def log(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    filled(database_url(folder / "log.db"), demo_recording, folder)
    return folder / "log.db"


@pytest.fixture(scope="module")
def analysis(log: Path) -> Path:
    folder = log.parent / "analysis"
    assert run(log, "export", folder, "--format", "parquet", "--db", log).code == 0
    return folder


@pytest.fixture(scope="module")
def expected(log: Path) -> dict[str, Rows]:
    answers = answers_of_the_log(log)
    assert all(answers.values()), "nothing that could differ"
    return answers


def answered(code: str, analysis: Path) -> Any:
    """What the code leaves in `answer`, with the functions that the page defines."""
    before = PAGE.partition("## Ten questions")[0].replace("analysis/", f"{analysis}/")
    library = "pl" if "pl." in code else "pd"
    (definition,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", before, re.S)
        if f"{library}." in block
    ]
    names: dict[str, Any] = {}
    exec(definition + code, names)
    return names["answer"]


def test_duckdb_answers_as_sqlite(analysis: Path, expected: dict[str, Rows]) -> None:
    with tables(analysis) as connection:
        given = {
            question: plain(connection.execute(sql).fetchall()) for question, sql in DUCKDB.items()
        }
    assert given == expected


def test_pandas_answers_as_sqlite(analysis: Path, expected: dict[str, Rows]) -> None:
    answers = {question: answered(code, analysis) for question, code in PANDAS.items()}
    assert {type(answer) for answer in answers.values()} == {pandas.DataFrame}
    for question, answer in answers.items():
        assert plain(answer.itertuples(index=False, name=None)) == expected[question]


def test_polars_answers_as_sqlite(analysis: Path, expected: dict[str, Rows]) -> None:
    answers = {question: answered(code, analysis) for question, code in POLARS.items()}
    assert {type(answer) for answer in answers.values()} == {polars.DataFrame}
    for question, answer in answers.items():
        assert plain(answer.rows()) == expected[question]


def test_percentiles_are_values_that_were_measured() -> None:
    assert numpy.quantile([1, 2, 3, 4], 0.5, method="inverted_cdf") == 2
    assert polars.Series([1, 2, 3, 4]).quantile(0.5, "equiprobable") == 2
