"""`recorder query`: SQL in, rows out. What a statement may do is tested in
tests/integration/store/test_query.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recorder.commands import query as command
from recorder.projections.views.contract import VIEWS
from recorder.store.schema import STALE
from recorder.store.write.projector import START
from tests.support.rows import a_conversation, written
from tests.support.server import Ran, run
from tests.support.superuser import asked


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "log.db"
    with written(path) as connection:
        a_conversation(connection)
    return path


def test_a_value_is_found(path: Path) -> None:
    sql = (
        "SELECT sum(total_tokens) AS n FROM usage WHERE session_name = :name AND total_tokens > :n"
    )
    assert (
        run(path, "query", sql, "-p", ":name", "run-1", "-p", "n", "13", "--csv").text == "n\n14\n"
    )


@pytest.mark.long
def test_the_examples_of_the_help_answer(path: Path) -> None:
    shown = (command.command.help or "").splitlines()
    [by_model] = [line for line in shown if "usage_by_model" in line]
    assert run(path, "query", by_model.split('"')[1]).code == 0
    texts = run(
        path,
        "query",
        "select text from messages where session_name = :s",
        "-p",
        "s",
        "run-1",
        "--jsonl",
    )
    assert texts.text == '{"text":"The dice are gone."}\n'


def test_views_that_show_less_than_the_log_holds_are_said(path: Path) -> None:
    asked(path, "INSERT INTO rebuilds VALUES ('projections', ?, ?)", *START)
    try:
        assert run(path, "query", "SELECT 1 AS a") == Ran(0, b"a\n1\n", f"{STALE}\n")
    finally:
        asked(path, "DELETE FROM rebuilds")


@pytest.mark.parametrize(
    "arguments",
    [
        ["SELECT 1", "--json", "--csv"],
        ["--json", "--jsonl", "SELECT 1"],
        ["--list", "--csv"],
        ["--list", "x"],
    ],
)
def test_what_makes_no_sense_is_a_matter_of_usage(path: Path, arguments: list[str]) -> None:
    ran = run(path, "query", *arguments)
    assert (ran.code, ran.out) == (2, b"")


def test_the_list_names_every_view_and_column_without_a_database(tmp_path: Path) -> None:
    listed = run(tmp_path / "none.db", "query", "--list").text
    described = json.loads(run(tmp_path / "none.db", "query", "--list", "--json").out)
    assert [each["view"] for each in described] == [view.name for view in VIEWS]
    for view, each in zip(VIEWS, described, strict=True):
        assert [column["name"] for column in each["columns"]] == list(view.columns)
        assert f"\n{view.name}\n" in f"\n{listed}"
