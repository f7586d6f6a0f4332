"""One connection that only reads, to a log on either engine, for one thread: what `recorder.store.verify.log` proves it
with.

Rules of this file:

* A transaction sees the log as it is at one moment, and is rolled back at its end.
* A scratch connection has empty tables with the names of some of the log's in front of these: what is written there is
  gone at the end of its transaction, and the log's own can be asked for by the name of their schema.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import URL, Table

from recorder.store.engine import engine_of
from recorder.store.sql import Statement


class Reader(Protocol):
    """All of it raises the errors of recorder."""

    engine: str  # as SQLAlchemy names its dialect

    def transaction(self) -> AbstractContextManager[None]:
        """What is asked inside is of one moment."""

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """The rows of a statement, as they are read. Of a long one inside a transaction, and to be closed."""

    def run(self, statement: Statement, values: Any) -> None:
        """Of a scratch connection: write."""

    def damage(self) -> list[str]:
        """What the engine itself has against what is stored."""


def opened(url: URL) -> AbstractContextManager[Reader]:
    """Raises `NotFoundError` if nothing was recorded there, `StoreError` if it cannot be read here."""
    return engine_of(url).verify_connection(url)


def scratch(url: URL, tables: Sequence[Table]) -> AbstractContextManager[Reader]:
    """One that can write to tables of those names. Raises `RecorderError` if they cannot be made."""
    return engine_of(url).scratch_connection(url, tables)
