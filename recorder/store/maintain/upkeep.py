"""The parts of an engine that prove, check and copy a log: what they must have, and how they are asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import URL, Table

from recorder.store.engine import Backup, Progress, engine_name, part

if TYPE_CHECKING:
    from recorder.store.maintain.checks import Check, CheckResult
    from recorder.store.maintain.log_probe import LogProbe
    from recorder.store.sql import Statement, Step


class VerifyConnection:
    """A `recorder.store.engine.Database` that only reads, for one thread. Everything raises the errors of recorder.

    A transaction sees the log as it is at one moment, and is rolled back at its end. A scratch connection has empty
    tables with the names of some of the log's, in front of these: rows written there are deleted at the end of the
    transaction, and the log's own tables have the name of their schema.
    """

    driver: ModuleType
    """The `connection` module of the engine, which runs statements."""

    begin: str | bytes
    """Begins a transaction."""

    def __init__(self, place: Any, connection: Any) -> None:
        """`place` is where the log is, as the engine's `translated` takes it."""
        self._place, self._connection = place, connection

    @property
    def engine(self) -> str:
        return str(self.driver.ENGINE)

    def translated(self) -> AbstractContextManager[None]:
        translated: AbstractContextManager[None] = self.driver.translated(self._place)
        return translated

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Give all statements inside the same moment."""
        with self.translated():
            self._connection.execute(self.begin)
            try:
                yield
            finally:
                self._connection.rollback()

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """Yield the rows of a statement as they are read; a long one inside a transaction, and closed by the caller."""
        with self.translated():
            yield from self.driver.rows(self._connection, statement, values)

    def run(self, statement: Statement, values: Any) -> None:
        self.run_all([(statement, values)])

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        with self.translated():
            answers: list[list[Sequence[Any]]] = self.driver.run_all(self._connection, steps)
            return answers

    def damage(self) -> list[str]:
        """Return the damage that the engine itself finds, a sentence each."""
        return []

    def orphans(self) -> list[str]:
        """Return the rows of the log that no view shows, because what they belong to was removed: a sentence each."""
        return []

    def search_damage(self) -> list[str]:
        """Return the full-text indexes that do not have the words of their rows, a sentence each."""
        raise NotImplementedError


class Verifying(Protocol):
    """Connections that prove a log."""

    def verify_connection(self, url: URL) -> AbstractContextManager[VerifyConnection]:
        """Open a connection that proves a log. Raise `NotFoundError` or `StoreError` if there is none to read."""

    def scratch_connection(self, url: URL, tables: Sequence[Table]) -> AbstractContextManager[VerifyConnection]:
        """Open one that can also write to empty tables of these names, which are dropped at the end.

        What is written to the full-text indexes is dropped. Raise `RecorderError` if the tables cannot be made.
        """


class Upkeep(Protocol):
    """The checks and the copy of a log."""

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


def verifying_of(url: URL) -> Verifying:
    verifying: Verifying = part(engine_name(url), "verify")
    return verifying


def upkeep_of(url: URL) -> Upkeep:
    upkeep: Upkeep = part(engine_name(url), "upkeep")
    return upkeep


def opened(url: URL) -> AbstractContextManager[VerifyConnection]:
    """Open a log to prove it. Raise `NotFoundError` if there is none, `StoreError` if it cannot be read here."""
    return verifying_of(url).verify_connection(url)
