"""SQL of a page: its parameters, and the command that gives the same rows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from recorder.errors import UsageError
from recorder.store.location import database_url, default_url
from recorder.ui.sql import checked_question, command_line


def test_a_text_is_a_number_where_an_option_is_one() -> None:
    params = {"a": "42", "b": "007", "c": "0.5", "d": 7, "e": None, "f": "1795420212876613189"}
    expected = {"a": 42, "b": "007", "c": 0.5, "d": 7, "e": None, "f": 1795420212876613189}
    assert checked_question({"sql": "select :a", "params": params}) == ("select :a", expected)


@pytest.mark.parametrize(
    "body", [None, [], {}, {"sql": 1}, {"sql": "x", "params": {"a": [1]}}, {"sql": "x", "more": 1}]
)
def test_another_body_is_refused(body: object) -> None:
    with pytest.raises(UsageError, match="params"):
        checked_question(body)


def test_a_command_names_the_database_and_its_values_but_no_password(tmp_path: Path) -> None:
    url = database_url(tmp_path / "it's.db")
    words = shlex.split(command_line(url, "select :x, ':y'", {"x": "a b"}))
    assert words == [
        "recorder",
        "query",
        "select :x, ':y'",
        "-p",
        "x",
        "a b",
        "--db",
        str(tmp_path / "it's.db"),
    ]
    assert "--db" not in command_line(default_url(), "select 1")
    line = command_line(database_url("postgresql://me:hidden@db.example/log"), "select 1")
    assert "me@db.example/log" in line
    assert "hidden" not in line
    assert "***" not in line
    line = command_line(
        database_url("postgresql://me@db.example/log?password=hidden&sslmode=require"), "select 1"
    )
    assert "sslmode=require" in line
    assert "hidden" not in line
