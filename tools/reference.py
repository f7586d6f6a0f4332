"""Writes the pages that are made of the program: `python -m tools.reference`, which is a part of
`make docs`.

They are in `docs/reference`, which git ignores: the command line, keys of JSON, rules, cases,
views. Pages that people write link to them, and they link back. `demo.html` is a session of the
demo, which a page has in a frame.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools import (
    cli_docs,
    cookbook,
    demo,
    json_docs,
    lint_docs,
    probe_docs,
    probe_faults_docs,
    sql_docs,
)

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "cli": cli_docs.page,
    "cook-book": cookbook.page,
    "json": json_docs.page,
    "lint-rules": lint_docs.page,
    "probe-cases": probe_docs.page,
    "probe-faults": probe_faults_docs.page,
    "sql-views": sql_docs.page,
}


def write(folder: Path = FOLDER) -> None:
    """Write all pages, and remove those that are gone."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        if path.stem not in PAGES:
            path.unlink()
    for name, page in PAGES.items():
        path = folder / f"{name}.md"
        path.write_text(page())
        sys.stdout.write(f"{path.name}\n")
    (folder / "demo.html").write_text(demo.session_file())


if __name__ == "__main__":
    write()
