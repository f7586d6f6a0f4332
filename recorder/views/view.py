"""What a view is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Either(NamedTuple):
    """An expression that engines write differently."""

    sqlite: str
    postgresql: str


Expression = str | Either


class View(NamedTuple):
    """One view: `SELECT` its columns `FROM` a source."""

    name: str
    row: str  # what a row is, as a sentence
    columns: Mapping[str, Expression]  # the expression that each column is
    source: str
    example: str

    def statement(self, engine: str) -> str:
        """What creates it in `sqlite` or `postgresql`."""
        written = {
            name: getattr(each, engine) if isinstance(each, Either) else each for name, each in self.columns.items()
        }
        selected = ",\n    ".join(
            name if expression == name else f"{expression} AS {name}" for name, expression in written.items()
        )
        return f"CREATE VIEW {self.name} AS\nSELECT {selected}\n{self.source.strip()}"
