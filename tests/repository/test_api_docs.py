"""docs/api.md names what is public in Python: no name more, no name less."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

import recorder.errors
import recorder.testing
from recorder import pytest_plugin
from recorder.recordings.session import RecordedSession
from recorder.testing import settings
from recorder.testing.fixture import Replay
from tests.support.console import PAGES, blocks
from tests.support.corpus import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
SHOWN = [page.read_text() for page in PAGES]
MODULES = ("recorder.testing", "recorder.cassettes.sse_jsonl")
IMPORT = re.compile(r"^from (recorder[\w.]*) import (.+)$", re.MULTILINE)


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the tables of a section, without their heads."""
    lines = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in re.findall(r"^\|.*\|$", section(title), re.M)
    ]
    heads = {number - 1 for number, row in enumerate(lines) if set(row[0]) <= {"-"}}
    return [
        row for number, row in enumerate(lines) if number not in heads and number - 1 not in heads
    ]


def named(title: str) -> dict[str, list[str] | None]:
    """The names of a section's first column, each with its parameters if it has any."""
    found: dict[str, list[str] | None] = {}
    for row in rows(title):
        for name, _, parameters in re.findall(r"`@?([\w.-]+)(\((.*?)\))?`", row[0]):
            found[name] = parameters.split(", ") if parameters else None
    return found


def parameters(of: Any) -> list[str]:
    return [name for name in inspect.signature(of).parameters if name != "self"]


@pytest.mark.parametrize("module", MODULES)
def test_a_public_function_has_the_parameters_that_its_page_shows(module: str) -> None:
    for name, shown in named(f"`{module}`").items():
        public = getattr(import_module(module), name)
        assert shown == (parameters(public) if inspect.isfunction(public) else None), name


def test_all_names_of_the_testing_package_are_on_the_page() -> None:
    assert set(named("`recorder.testing`")) == set(recorder.testing.__all__)


def test_all_names_of_the_package_are_on_the_page() -> None:
    assert recorder.__all__ == ["__version__"]
    assert all(f"`recorder.{name}`" in PAGE for name in recorder.__all__)


def test_every_import_that_the_documentation_shows_is_of_a_public_name() -> None:
    public = {module: set(named(f"`{module}`")) for module in MODULES} | {
        "recorder.errors": {row[0].strip("`") for row in rows("`recorder.errors`")}
    }
    shown = [
        match
        for page in SHOWN
        for block in blocks(page, "python")
        for match in IMPORT.findall(block)
    ]
    assert shown
    for module, names in shown:
        assert {name.strip() for name in names.split(",")} <= public.get(module, set()), (
            f"from {module} import {names}"
        )


def test_the_page_has_the_whole_pytest_plugin() -> None:
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    fixture = type(pytest_plugin.recorder_replay)
    fixtures = {name for name, value in vars(pytest_plugin).items() if isinstance(value, fixture)}
    options = {name for option in parser.getgroup("recorder").options for name in option.names()}
    replay = {name for name in dir(Replay) if not name.startswith("_")} - {
        "variables",
        "explanation",
        "close",
    }
    shown = named("The pytest plugin")
    assert set(shown) - replay == fixtures | options | set(parser._inidict) | {
        "pytest.mark.recorder"
    }
    assert shown["pytest.mark.recorder"] == list(settings.KEYWORDS)
    assert replay <= set(shown)
    for name in replay:
        member = inspect.getattr_static(Replay, name)
        taken = parameters(member) if inspect.isfunction(member) else None
        assert shown[name] == (taken or None), name
    [contents] = [row[1] for row in rows("The pytest plugin") if row[0] == "`session`"]
    assert all(
        hasattr(RecordedSession, name) or name == "events"
        for name in re.findall(r"`(\w+)`", contents)
    )


def test_the_page_has_the_tree_of_exceptions() -> None:
    real = {
        (f"`{name}`", f"`{value.__mro__[1].__name__}`", str(getattr(value, "exit_code", "")))
        for name, value in vars(recorder.errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert {tuple(row[:3]) for row in rows("`recorder.errors`")} == real
