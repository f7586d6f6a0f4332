"""The part of an engine that proves, checks and copies a log: what it must have, and how it is asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import URL, Table

from recorder.store.engine import Backup, Progress, engine_name, part

if TYPE_CHECKING:
    from recorder.store.maintain.checks import Check, CheckResult
    from recorder.store.maintain.log_probe import LogProbe
    from recorder.store.sql import Statement, Step


class VerifyConnection(Protocol):
    """A connection that only reads the log, for one thread. Everything raises the errors of recorder.

    A transaction sees the log as it is at one moment, and is rolled back at its end. A scratch connection has empty
    tables with the names of some of the log's, in front of these: rows written there are deleted at the end of the
    transaction, and the log's own tables have the name of their schema.
    """

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


class Upkeep(Protocol):
    """The proof, the checks and the copy of a log."""

    def verify_connection(self, url: URL) -> AbstractContextManager[VerifyConnection]:
        """Open a connection that proves a log. Raise `NotFoundError` or `StoreError` if there is none to read."""

    def scratch_connection(self, url: URL, tables: Sequence[Table]) -> AbstractContextManager[VerifyConnection]:
        """Open one that can also write to empty tables of these names, which are dropped at the end.

        Raise `RecorderError` if they cannot be made.
        """

    def log_probe(self, url: URL) -> LogProbe:
        """Return what reads the sums of ended exchanges for the metrics of a recorder."""

    def checks(self, url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
        """Yield the state of a log for `recorder doctor`, up to the first failure that prevents the others.

        It changes nothing. `more` are checks of the caller by name, which use the same connection.
        """

    def library_checks(self) -> Iterator[CheckResult]:
        """Yield the state of the library on this machine that the engine needs, if recorder depends on its version."""

    def file_checks(self, url: URL) -> Iterator[CheckResult]:
        """Yield the state of files that only this engine has beside a database."""

    def back_up(self, url: URL, target: Path, progress: Progress, *, force: bool) -> Backup:
        """Copy a database to a file. Raise `UsageError` where that is the task of another program."""


def upkeep_of(url: URL) -> Upkeep:
    upkeep: Upkeep = part(engine_name(url), "upkeep")
    return upkeep


def opened(url: URL) -> AbstractContextManager[VerifyConnection]:
    """Open a log to prove it. Raise `NotFoundError` if there is none, `StoreError` if it cannot be read here."""
    return upkeep_of(url).verify_connection(url)
