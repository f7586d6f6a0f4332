"""The recipes of `docs/analytics.md` give the rows of SQLite, and the page has them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pytest

from recorder.store.location import database_url
from tests.support.analytics import RECIPES, Recipe, plain, section
from tests.support.corpus import ROOT
from tests.support.exports import filled, tables
from tests.support.server import run

PAGE = ROOT / "docs" / "analytics.md"


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


def expected(log: Path, recipe: Recipe) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(log)) as connection:
        rows = plain(connection.execute(recipe.sqlite).fetchall())
    assert rows, "nothing that could differ"
    return rows


def answered(code: str, analysis: Path) -> Any:
    """What the code leaves in `answer`, with the functions that the page defines."""
    before = PAGE.read_text().partition("## Ten questions")[0].replace("analysis/", f"{analysis}/")
    library = "pl" if "pl." in code else "pd"
    (definition,) = [block for block in re.findall(r"```python\n(.*?)```", before, re.S) if f"{library}." in block]
    names: dict[str, Any] = {}
    exec(definition + code, names)
    return names["answer"]


def test_there_are_ten_and_the_page_has_them() -> None:
    assert len(RECIPES) == 10
    assert section() in PAGE.read_text()


def test_duckdb_answers_as_sqlite(log: Path, analysis: Path) -> None:
    with tables(analysis) as connection:
        for recipe in RECIPES:
            found = plain(connection.execute(recipe.duckdb).fetchall())
            assert found == expected(log, recipe), recipe.question


def test_pandas_answers_as_sqlite(log: Path, analysis: Path) -> None:
    for recipe in RECIPES:
        answer = answered(recipe.pandas, analysis)
        assert isinstance(answer, pandas.DataFrame)
        assert plain(answer.itertuples(index=False, name=None)) == expected(log, recipe), recipe.question


def test_polars_answers_as_sqlite(log: Path, analysis: Path) -> None:
    for recipe in RECIPES:
        answer = answered(recipe.polars, analysis)
        assert isinstance(answer, polars.DataFrame)
        assert plain(answer.rows()) == expected(log, recipe), recipe.question


def test_percentiles_are_values_that_were_measured() -> None:
    assert numpy.quantile([1, 2, 3, 4], 0.5, method="inverted_cdf") == 2
    assert polars.Series([1, 2, 3, 4]).quantile(0.5, "equiprobable") == 2
