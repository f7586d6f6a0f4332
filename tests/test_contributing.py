"""CONTRIBUTING.md has the map of the house: each folder, in the order in which they import, and the pure ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.corpus import ROOT
from tests.test_layers import PACKAGE, PURE, ROW

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ROWS = {
    name: (text, re.findall(r"`(\w+)`", inside))
    for name, text, inside in re.findall(r"^\| `(\w+)` \| (.+) \|(.*)\|$", PAGE, re.MULTILINE)
}


def folders(at: Path) -> set[str]:
    """The folders there that have a file."""
    return {path.name for path in at.iterdir() if path.is_dir() and any(path.glob("[!.]*.*"))} - {"__pycache__"}


def test_every_folder_is_on_the_map() -> None:
    assert set(ROWS) == folders(PACKAGE)


@pytest.mark.parametrize("folder", ROWS)
def test_every_folder_in_a_folder_is_on_the_map(folder: str) -> None:
    assert set(ROWS[folder][1]) == folders(PACKAGE / folder)


def test_a_folder_imports_from_those_above_it_on_the_map() -> None:
    order = [ROW[folder] for folder in ROWS]
    assert order == sorted(order)


def test_the_map_names_the_pure_folders() -> None:
    assert {folder for folder, (text, _) in ROWS.items() if text.endswith("; pure")} == PURE & set(ROWS)


def test_what_the_page_names_is_there() -> None:
    for path in re.findall(r"`((?:recorder|tests|docs|migrations)/[\w./]*)`", PAGE):
        assert "/x.py" in path or "_x.py" in path or (ROOT / path).exists(), path
    for module in re.findall(r"`python -m ([\w.]+)`", PAGE):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def test_make_has_the_targets_that_the_page_names() -> None:
    shown = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^(?:`)?make ([a-z-]+)", PAGE, re.MULTILINE)) <= set(re.findall(r"^([a-z-]+)", shown, re.M))
