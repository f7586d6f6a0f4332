"""`recorder.commands.terminal.options`: one form of output, in whichever spelling it is asked for."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from recorder.commands.terminal.options import format_option
from recorder.errors import UsageError


@click.command()
@format_option("json", "jsonl", "csv")
def command(format: str) -> None:
    click.echo(format)


def written(words: str, variables: dict[str, str], file: dict[str, Any]) -> str:
    options: dict[str, Any] = {
        "auto_envvar_prefix": "X",
        "default_map": file,
        "catch_exceptions": False,
    }
    return CliRunner().invoke(command, words.split(), env=variables, **options).output.strip()


@pytest.mark.parametrize(
    ("words", "variables", "file", "format"),
    [
        ("", {}, {}, "table"),
        ("--json", {}, {}, "json"),
        ("--json --format json", {}, {}, "json"),
        ("--format csv", {"X_JSONL": "1"}, {"json": True}, "csv"),
        ("--format table", {}, {"json": True}, "table"),
        ("", {"X_FORMAT": "jsonl"}, {"json": True}, "jsonl"),
        ("", {"X_JSON": "0"}, {"format": "csv"}, "csv"),
    ],
)
def test_what_is_typed_wins_over_a_variable_and_that_over_a_file(
    words: str, variables: dict[str, str], file: dict[str, Any], format: str
) -> None:
    assert written(words, variables, file) == format


@pytest.mark.parametrize("words", ["--json --csv", "--csv --format json", "--json --format table"])
def test_two_forms_at_once_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="are different formats: choose one"):
        written(words, {}, {})
