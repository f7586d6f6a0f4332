"""The statements that keep the full-text indexes with the rows whose words they have."""

from __future__ import annotations

from functools import partial
from typing import Literal

from recorder.store.engine import schema_named
from recorder.store.search import INDEXES
from recorder.store.sql import Statement


def of_each(name: Literal["add", "remove", "remove_session"]) -> list[Statement]:
    """Return one of the statements of an index for each of `INDEXES`."""
    return [Statement(partial(_statement, name, number)) for number in range(len(INDEXES))]


def _statement(name: str, number: int, engine: str) -> str:
    statement: str = getattr(schema_named(engine).search().statements[number], name)
    return statement
