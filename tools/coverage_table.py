"""Prints what the tests of a run reached, by folder of `recorder/`:
`python -m tools.coverage_table < coverage.json`.

`coverage json` writes what it reads; `make coverage` runs both.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any


class Reached:
    """How many lines and branches there are, and how many of them a test has taken."""

    def __init__(self) -> None:
        self.lines = self.lines_reached = 0
        self.branches = self.branches_reached = 0

    def add(self, summary: Mapping[str, int]) -> None:
        """Count a file, by its `summary` in the report."""
        self.lines += summary["num_statements"]
        self.lines_reached += summary["covered_lines"]
        self.branches += summary["num_branches"]
        self.branches_reached += summary["covered_branches"]

    def row(self, name: str) -> str:
        lines = _percent(self.lines_reached, self.lines)
        branches = _percent(self.branches_reached, self.branches)
        return f"{name:<20}{self.lines:>8}{lines:>8}{self.branches:>10}{branches:>8}\n"


def _percent(part: int, whole: int) -> str:
    """Rounded down: 100 % is all of it."""
    return f"{100 * part // whole} %" if whole else "-"


def table(report: Mapping[str, Any]) -> str:
    """Return the table for a report of `coverage json`: a line for each folder, and the files
    beside them in one.
    """
    folders: dict[str, Reached] = defaultdict(Reached)
    whole = Reached()
    for path, file in report["files"].items():
        _, folder, *inside = PurePath(path).parts
        name = folder if inside else "(no folder)"
        folders[name].add(file["summary"])
        whole.add(file["summary"])

    head = f"{'folder':<20}{'lines':>8}{'':>8}{'branches':>10}\n"
    rows = [folders[name].row(name) for name in sorted(folders)]
    return head + "".join(rows) + whole.row("all")


if __name__ == "__main__":
    sys.stdout.write(table(json.load(sys.stdin)))
