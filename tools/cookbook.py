"""The cook-book: questions, the SQL that answers them, and its rows on the demo; `tools.reference`
writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from recorder.projections.views.cookbook import COOKBOOK, Question
from recorder.store.engine import engine_name
from recorder.store.location import database_url
from recorder.store.queries.query_process import open_query
from tools import demo

ENGINES = {"sqlite": "In a file", "postgresql": "On PostgreSQL", "duckdb": "In DuckDB"}


def shown_rows(
    entry: Question, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> list[list[str]]:
    """Return the rows as the page has them."""
    return [
        [
            "…" if name in entry.differing else _cell(value)
            for name, value in zip(columns, row, strict=True)
        ]
        for row in rows
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else str(value).replace("|", "\\|").replace("\n", " ")
    )


Results = Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]
"""The columns and rows of each question."""


def results(
    ask: Callable[[str], tuple[Sequence[str], Sequence[Sequence[Any]]]], engine: str
) -> Results:
    """Return what a database answers; `ask` returns the columns and rows of SQL."""
    return {entry.question: ask(entry.written(engine)) for entry in COOKBOOK}


def page() -> str:
    """Return the page, with what the session of a new demo answers."""
    return written(asked(demo.database()))


def asked(database: Path | URL) -> Results:
    """Return what a log answers to the questions."""
    with open_query(database_url(database)) as query:

        def ask(sql: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            result = query.ask(sql, {})
            return result.columns, list(result.rows)

        return results(ask, engine_name(database_url(database)))


def written(found: Results) -> str:
    """Return the page with these answers."""
    parts = [
        "# Cook-book\n",
        "Each question has its result on the session that `recorder demo` records. The SQL is the same in a file, on\n"
        "PostgreSQL and in DuckDB, unless there is one for each. `…` differs from one run of the demo to the next.\n"
        "[SQL](../sql.md) explains `recorder query`.\n",
    ]
    for entry in COOKBOOK:
        columns, rows = found[entry.question]
        table = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        table += [f"| {' | '.join(row)} |" for row in shown_rows(entry, columns, rows)]
        parts += [f"## {entry.question}\n", *_queries(entry)]
        parts += ["\n".join(table) + "\n" if rows else "No rows: the demo has none.\n"]
    return "\n".join(parts)


def _queries(entry: Question) -> list[str]:
    if isinstance(entry.sql, str):
        return [f"```sql\n{entry.sql}\n```\n"]
    return [
        f"{place}:\n\n```sql\n{entry.written(engine)}\n```\n" for engine, place in ENGINES.items()
    ]
