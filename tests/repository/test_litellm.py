"""Tests for `docs/probe-litellm.md`: it explains the reports of a gateway that
`tools.litellm_probe` has probed.
"""

from __future__ import annotations

import re

import pytest

from recorder.lint.linter import RULES
from recorder.probe.apis import APIS
from recorder.probe.rules import BY_ID
from tools.litellm_probe import PAGE, ROUTES, report_of

KNOWN = {rule.id for rule in RULES} | set(BY_ID)
ROW = re.compile(r"^\| ([A-Z]{2}\d{3}) ", re.MULTILINE)
ALL_ROUTES, *SECTIONS = PAGE.read_text().split("\n## ")[1:]


def test_every_route_has_a_section() -> None:
    assert len(SECTIONS) == len(ROUTES)


@pytest.mark.parametrize(
    ("name", "section"), [*zip(ROUTES, SECTIONS, strict=True)], ids=list(ROUTES)
)
def test_each_finding_of_a_report_is_explained_and_no_other(name: str, section: str) -> None:
    found = re.findall(
        r"^(?:error|warning|note) +([A-Z]{2}\d{3})", report_of(name).read_text(), re.MULTILINE
    )
    explained = ROW.findall(section)
    assert explained
    assert set(found) - set(ROW.findall(ALL_ROUTES)) == set(explained)


def test_the_page_names_rules_that_there_are() -> None:
    assert set(re.findall(r"\b[A-Z]{2}\d{3}\b", PAGE.read_text())) <= KNOWN


def test_all_apis_of_the_page_are_proved() -> None:
    assert {route.api for route in ROUTES.values()} == set(APIS) - {
        "gemini-interactions",
        "openai-agents",
        "anthropic-sessions",
        "bedrock-converse",
        "bedrock-invoke",
        "ollama",
    }
