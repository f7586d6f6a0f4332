"""The bill of materials of the wheel is that of today, and whole."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.corpus import ROOT
from tools import sbom
from tools.vendored import packages

WRITTEN: dict[str, Any] = json.loads(sbom.PLACE.read_text())
COMPONENTS = {each["bom-ref"]: each for each in WRITTEN["components"]}


@pytest.mark.skipif(importlib.util.find_spec("backports") is None, reason="not all distributions are here")
def test_the_bill_of_materials_is_current() -> None:
    assert sbom.PLACE.read_text() == sbom.text(), "write it again: python -m tools.sbom"


def test_it_names_what_users_install_in_the_versions_that_are_tested() -> None:
    pins = sbom.pins()
    for extra, scope in [("", "required"), ("archive", "optional"), ("mcp", "optional")]:
        asked = sbom.PROJECT["optional-dependencies"][extra] if extra else sbom.PROJECT["dependencies"]
        for name in (canonicalize_name(Requirement(text).name) for text in asked):
            assert COMPONENTS[sbom.purl(name, pins[name])]["scope"] == scope


def test_it_names_no_tool_of_those_who_work_on_it() -> None:
    assert not {each["name"] for each in WRITTEN["components"]} & {"pytest", "ruff", "mypy", "sphinx", "chdb"}


def test_what_the_wheel_contains_of_others_is_named_file_by_file() -> None:
    for package in packages():
        component = COMPONENTS[f"pkg:npm/{package['name']}@{package['version']}"]
        named = {each["name"] for each in component["components"]}
        assert named == {f"recorder/ui/vendor/{each['file']}" for each in package["files"]}
        assert all((ROOT / name).is_file() for name in named)


def test_every_component_is_reached_from_the_wheel() -> None:
    """Nothing is in the list that nothing asks for, and nothing is asked for that is not in the list."""
    edges = {each["ref"]: each["dependsOn"] for each in WRITTEN["dependencies"]}
    reached, waiting = set[str](), [WRITTEN["metadata"]["component"]["bom-ref"]]
    while waiting:
        ref = waiting.pop()
        waiting += set(edges.get(ref, [])) - reached
        reached |= {ref}
    assert reached - {WRITTEN["metadata"]["component"]["bom-ref"]} == COMPONENTS.keys()
