"""What a view is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class View(NamedTuple):
    """One view: `SELECT` its columns `FROM` a source."""

    name: str
    row: str  # what a row is, as a sentence
    columns: Mapping[str, str]  # the expression that each column is
    source: str
    example: str

    @property
    def statement(self) -> str:
        """What creates it."""
        selected = ",\n    ".join(
            name if expression == name else f"{expression} AS {name}" for name, expression in self.columns.items()
        )
        return f"CREATE VIEW {self.name} AS\nSELECT {selected}\n{self.source.strip()}"
