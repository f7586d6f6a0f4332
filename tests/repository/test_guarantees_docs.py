"""Every guarantee stands in `docs/guarantees.md`, with tests that exist, or with the reason why it
does not hold.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.corpus import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
SECURITY = (ROOT / "SECURITY.md").read_text()

COUNTS = {"A": 10, "B": 16, "C": 11, "D": 17, "E": 13}
NUMBERS = {f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)}
NOT_HELD, NOT_PROMISED = "Not held", "What is not promised"


def section(title: str) -> str:
    """The text below a heading."""
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(text: str) -> dict[str, list[str]]:
    """The rows of its tables, by their numbers."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]
    return {
        row[0].strip("| "): row[1:]
        for row in cells
        if re.fullmatch(r"[A-E]\d+", row[0].strip("| "))
    }


GROUPS = dict(re.findall(r"^## (([A-E])\. .*)$", PAGE, re.MULTILINE))
HELD = {number: row for title in GROUPS for number, row in rows(section(title)).items()}
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def named_in(path: Path) -> set[str]:
    """The names of the tests of a module."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def test_every_test_that_is_named_exists() -> None:
    assert NAMED
    assert [f"{path}::{name}" for path, name in NAMED if name not in named_in(ROOT / path)] == []


def test_every_number_has_its_row_or_a_reason() -> None:
    missing = rows(section(NOT_HELD))
    assert HELD.keys() | missing.keys() == NUMBERS
    assert HELD.keys().isdisjoint(missing)
    assert all(reason and reason.endswith(".") for (reason,) in missing.values())


def test_every_row_stands_in_its_group_and_names_a_test() -> None:
    for title, group in GROUPS.items():
        for number, (promise, held_by) in rows(section(title)).items():
            assert number.startswith(group)
            assert len(promise) > 20
            assert re.fullmatch(r"(`tests/[\w/]+\.py::test_\w+`(, | |$))+", held_by), number


def test_what_is_not_promised_is_said() -> None:
    assert len(re.findall(r"^\* \*\*", section(NOT_PROMISED), re.MULTILINE)) >= 5


def test_what_security_names_exists() -> None:
    for path in re.findall(r"`(tests/[\w/]+\.py)`", SECURITY) + re.findall(
        r"\]\((docs/[\w.]+)\)", SECURITY
    ):
        assert (ROOT / path).exists(), path


def test_the_readme_leads_to_both() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "(docs/guarantees.md)" in readme
    assert "(SECURITY.md)" in readme
