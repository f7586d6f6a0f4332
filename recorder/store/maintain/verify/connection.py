"""The connection that `recorder.store.maintain.verify.log` reads a log with, on either engine, for one thread.

Rules of this file:

* A transaction sees the log as it is at one moment, and is rolled back at its end.
* A scratch connection has empty tables with the names of some of the log's, in front of these: rows written there are
  deleted at the end of the transaction, and the log's own tables have the name of their schema.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import URL, Table

from recorder.store.engine import engine_of
from recorder.store.sql import Statement, Step


class VerifyConnection(Protocol):
    """A connection that only reads the log. Everything raises the errors of recorder."""

    engine: str  # as SQLAlchemy names its dialect

    def transaction(self) -> AbstractContextManager[None]:
        """Give all statements inside the same moment."""

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """Yield the rows of a statement as they are read; a long one inside a transaction, and closed by the caller."""

    def run(self, statement: Statement, values: Any) -> None:
        """Write to the tables of a scratch connection."""

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        """Run statements one after another, those too that write to tables of a scratch connection; return the rows."""

    def damage(self) -> list[str]:
        """Return the damage that the engine itself finds, a sentence each."""

    def orphans(self) -> list[str]:
        """Return the rows of the log that no view shows, because what they belong to was removed: a sentence each."""

    def search_damage(self) -> list[str]:
        """Return the full-text indexes that do not have the words of their rows, a sentence each."""


def opened(url: URL) -> AbstractContextManager[VerifyConnection]:
    """Open a log. Raises `NotFoundError` if nothing was recorded there, `StoreError` if it cannot be read here."""
    return engine_of(url).verify_connection(url)


def scratch(url: URL, tables: Sequence[Table]) -> AbstractContextManager[VerifyConnection]:
    """Open a connection that can write to tables of those names. Raises `RecorderError` if they cannot be made."""
    return engine_of(url).scratch_connection(url, tables)
