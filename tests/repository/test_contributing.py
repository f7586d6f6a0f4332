"""CONTRIBUTING.md has the map of the house: each folder, in the order in which they import, and the
pure ones.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.repository.test_layers import PACKAGE, PURE, ROW
from tests.support.corpus import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
MAP, TESTS = PAGE.partition("## Map of the house")[2], PAGE.partition("## Map of the house")[0]
ROW_OF_A_TABLE = re.compile(r"^\| `(\w+)` \| (.+) \|(.*)\|$", re.MULTILINE)
ROWS = {
    name: (text, re.findall(r"`(\w+)`", inside))
    for name, text, inside in ROW_OF_A_TABLE.findall(MAP)
}


def folders(at: Path) -> set[str]:
    """The folders there that have a file, here or below, which Python has not made."""
    files = [
        path.relative_to(at) for path in at.rglob("[!.]*.*") if "__pycache__" not in path.parts
    ]
    return {path.parts[0] for path in files if len(path.parts) > 1}


def test_every_folder_is_on_the_map() -> None:
    assert set(ROWS) == folders(PACKAGE)
    assert {name for name, *_ in ROW_OF_A_TABLE.findall(TESTS)} == folders(ROOT / "tests")


def test_every_folder_in_a_folder_is_on_the_map() -> None:
    assert {name: set(inside) for name, (_, inside) in ROWS.items()} == {
        name: folders(PACKAGE / name) for name in ROWS
    }


def test_a_folder_imports_from_those_above_it_on_the_map() -> None:
    order = [ROW[folder] for folder in ROWS]
    assert order == sorted(order)


def test_the_map_names_the_pure_folders() -> None:
    assert {folder for folder, (text, _) in ROWS.items() if text.endswith("; pure")} == PURE & set(
        ROWS
    )


def test_what_the_page_names_is_there() -> None:
    for path in re.findall(r"`((?:recorder|tests|docs|migrations)/[\w./]*)`", PAGE):
        is_made = path == "docs/reference"  # by `make docs`
        assert is_made or "/x.py" in path or "_x.py" in path or (ROOT / path).exists(), path
    for module in re.findall(r"`python -m ([\w.]+)`", PAGE):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def test_make_has_the_targets_that_the_page_names() -> None:
    shown = subprocess.run(
        ["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"^(?:`)?make ([a-z-]+)", PAGE, re.MULTILINE)) <= set(
        re.findall(r"^([a-z-]+)", shown, re.M)
    )
