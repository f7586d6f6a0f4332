"""Projections of a session, computed again in scratch tables and compared with those in the log.

The projector itself writes them: the log's tables are only read, and those that it writes are the scratch ones, which
have the same names. The full-text index is neither made nor compared: it is only a list of words that `recorder db
rebuild` makes anew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Table

from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.maintain.verify.session_rows import differing_keys
from recorder.store.schema import dead_letters, rebuilds, tables_of
from recorder.store.sql import ENDED_EXCHANGES, FORMS, RELEASE, ROLLBACK_TO, SAVEPOINT, Statement, Step
from recorder.store.write.projector import Projector

COMPARED = (*tables_of.values(), dead_letters)
MADE = (*COMPARED, rebuilds)
"""The tables that a scratch connection must have of its own."""


class ProjectionDifference(NamedTuple):
    """A table whose rows for an exchange are not what its events give."""

    exchange_id: str
    table: str


def _compared(table: Table, engine: str) -> str:
    schemas = FORMS[engine].scratch_schemas
    return differing_keys(table, schemas, "exchange_id", "WHERE session_id = :session_id")


_COMPARED = {table.name: Statement(partial(_compared, table)) for table in COMPARED}


class ProjectionVerifier:
    """Projections that are computed again and thrown away; a `recorder.store.write.projector.Database`, for one
    thread.
    """

    def __init__(self, scratch: VerifyConnection) -> None:
        self._scratch, self.engine = scratch, scratch.engine
        self._projector = Projector(self)

    def differences(self, session_id: str) -> list[ProjectionDifference]:
        """Return the differences of one session at this moment, in one transaction as long as its fold."""
        with self._scratch.transaction():
            ended = list(self.ask(ENDED_EXCHANGES, {"session_id": session_id}))
            self._projector.project_all([(session_id, str(exchange_id)) for (exchange_id,) in ended], in_order=True)
            return sorted(self._differences(session_id))

    def _differences(self, session_id: str) -> Iterator[ProjectionDifference]:
        found = self.run_all([(statement, {"session_id": session_id}) for statement in _COMPARED.values()])
        for table, exchanges in zip(_COMPARED, found, strict=True):
            for (exchange_id,) in exchanges:
                yield ProjectionDifference(exchange_id, table)

    # -- what the projector works on

    def run(self, statement: Statement, values: Any) -> None:
        self._scratch.run(statement, values)

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        return self._scratch.ask(statement, values)

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        return self._scratch.run_all(steps)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        self.run(SAVEPOINT, {})
        try:
            yield
        except BaseException:
            self.run(ROLLBACK_TO, {})
            self.run(RELEASE, {})
            raise
        self.run(RELEASE, {})
