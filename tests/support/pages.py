"""The pages of the documentation, README first, and the blocks of code in them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.corpus import ROOT

FOLDER = ROOT / "docs"
INDEX = FOLDER / "index.md"
PAGES = [ROOT / "README.md", *sorted(path for path in FOLDER.rglob("*.md") if path != INDEX)]


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    """Return the code of each block in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
