"""`docs/sql.md` is what the views are, and its queries answer."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from recorder.glossary import MEANINGS
from recorder.schema import SEARCH, dead_letters, rebuilds
from recorder.views import VIEWS
from tests.projected_rows import a_conversation, written
from tests.sql_docs import PAGE, page

EXAMPLES = re.findall(r"^```sql\n(.*?)^```", page(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with written(tmp_path / "log.db") as connection:
        a_conversation(connection)
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        yield connection


def test_the_page_is_the_one_that_the_views_make() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.sql_docs`"


def test_every_view_has_an_example_of_its_own() -> None:
    for view in VIEWS:
        assert re.search(rf"\b{view.name}\b", view.example)
        assert view.example in page()
    assert len(EXAMPLES) == len(VIEWS) + 1


@pytest.mark.parametrize("sql", EXAMPLES, ids=["search", *(view.name for view in VIEWS)])
def test_every_example_finds_something(db: sqlite3.Connection, sql: str) -> None:
    assert db.execute(sql, {"session": "run-1"}).fetchall()


def test_the_page_names_what_is_not_a_view() -> None:
    for name in (SEARCH, rebuilds.name, dead_letters.name):
        assert f"`{name}`" in page()


def test_no_meaning_is_of_a_column_that_is_not_there() -> None:
    names = {name for view in VIEWS for name in (*view.columns, *(f"{view.name}.{column}" for column in view.columns))}
    assert set(MEANINGS) <= names
