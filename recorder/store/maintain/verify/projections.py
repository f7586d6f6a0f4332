"""Projections of a session, computed again in scratch tables and compared with those in the log.

The projector itself writes them: the log's tables are only read, and those that it writes are the scratch ones, which
have the same names. The full-text index is neither made nor compared: it is only a list of words that `recorder db
rebuild` makes anew.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from sqlalchemy import Table

from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.maintain.verify.session_rows import differing_keys
from recorder.store.schema import dead_letters, rebuilds, tables_of
from recorder.store.sql import ENDED_EXCHANGES, FORMS, Statement
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
    """Projections that are computed again and thrown away."""

    def __init__(self, scratch: VerifyConnection) -> None:
        self._scratch, self._projector = scratch, Projector(scratch)

    def differences(self, session_id: str) -> list[ProjectionDifference]:
        """Return the differences of one session at this moment, in one transaction as long as its fold."""
        key = {"session_id": session_id}
        with self._scratch.transaction():
            ended = [(session_id, str(exchange_id)) for (exchange_id,) in self._scratch.ask(ENDED_EXCHANGES, key)]
            self._projector.project_all(ended, in_order=True)
            answers = self._scratch.run_all([(statement, key) for statement in _COMPARED.values()])
        found = []
        for table, exchanges in zip(_COMPARED, answers, strict=True):
            found += [ProjectionDifference(exchange_id, table) for (exchange_id,) in exchanges]
        return sorted(found)
