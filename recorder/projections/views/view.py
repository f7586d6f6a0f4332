"""The definition of a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Either(NamedTuple):
    """An expression that engines write differently. DuckDB takes that of SQLite if it has none of its own."""

    sqlite: str
    postgresql: str
    duckdb: str | None = None


Expression = str | Either


def written(expression: Expression, engine: str) -> str:
    """Return an expression as an engine takes it: `sqlite`, `postgresql` or `duckdb`."""
    return expression if isinstance(expression, str) else str(getattr(expression, engine) or expression.sqlite)


class View(NamedTuple):
    """One view: `SELECT` its columns `FROM` a source."""

    name: str
    row: str  # what a row is, as a sentence
    columns: Mapping[str, Expression]  # the expression that each column is
    source: Expression
    example: Expression

    def statement(self, engine: str) -> str:
        """Return the statement that creates it in `sqlite`, `postgresql` or `duckdb`."""
        columns = {name: written(each, engine) for name, each in self.columns.items()}
        selected = ",\n    ".join(
            name if expression == name else f"{expression} AS {name}" for name, expression in columns.items()
        )
        return f"CREATE VIEW {self.name} AS\nSELECT {selected}\n{written(self.source, engine).strip()}"
