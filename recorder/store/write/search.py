"""The statements that keep the full-text indexes with the rows whose words they have."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Literal

from recorder.store.engine import schema_named
from recorder.store.search import INDEXES, SearchStatements
from recorder.store.sql import Statement


def of_each(name: Literal["add", "remove", "remove_session"]) -> list[Statement]:
    """Return one of the statements of an index for each of `INDEXES`."""
    return [_statement(number, attrgetter(name)) for number in range(len(INDEXES))]


def _statement(number: int, one: Callable[[SearchStatements], str]) -> Statement:
    return Statement(lambda engine: one(schema_named(engine).search().statements[number]))
