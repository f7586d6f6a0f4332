"""Tests for `docs/probe-litellm.md`: the report of a gateway that nobody here wrote, made by `tools.litellm_probe`."""

from __future__ import annotations

import re

import pytest

from recorder.lint.linter import RULES
from recorder.probe.apis import APIS
from recorder.probe.rules import BY_ID
from tools.litellm_probe import PAGE, ROUTES, block

KNOWN = {rule.id for rule in RULES} | set(BY_ID)


def _named(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]{2}\d{3}\b", text))


def _explained(name: str) -> set[str]:
    """The rules that the table behind a report explains."""
    page = PAGE.read_text()
    behind = page[block(page, name).end() :]
    rows = re.match(r"\n(?:[^#<|\n].*\n|\n)*((?:\|.*\n)+)", behind)
    assert rows, f"there is no table behind the report of {name}"
    return set(re.findall(r"^\| ([A-Z]{2}\d{3}) ", rows[1], re.MULTILINE))


@pytest.mark.parametrize("name", ROUTES)
def test_each_finding_of_a_report_is_explained_behind_it_and_no_other(name: str) -> None:
    found = set(re.findall(r"^(?:error|warning|note) +([A-Z]{2}\d{3})", block(PAGE.read_text(), name)[1], re.MULTILINE))
    assert found == _explained(name) != set()


def test_the_page_names_rules_that_there_are() -> None:
    assert _named(PAGE.read_text()) <= KNOWN


def test_all_apis_are_proved() -> None:
    assert {route.api for route in ROUTES.values()} == set(APIS)
