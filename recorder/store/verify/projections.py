"""What a rebuild would write for a session, made in scratch tables beside the log, against what stands there.

The projector itself writes it: the log's tables are only read, and those that it writes are the scratch ones, which
have the same names. The full-text index is not made and not judged: it is no more than a list of words that
`recorder db rebuild` makes anew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Table

from recorder.store.postgres.ddl import SCHEMA
from recorder.store.projector import Projector
from recorder.store.schema import dead_letters, rebuilds, tables_of
from recorder.store.sql import ENDED_EXCHANGES, KEEP, SAVE, UNDO, Statement
from recorder.store.verify.connection import VerifyConnection

COMPARED = (*tables_of.values(), dead_letters)
MADE = (*COMPARED, rebuilds)
"""What a scratch connection must have of its own."""

_SIDES = {"sqlite": ("main", "log"), "postgresql": ("pg_temp", SCHEMA)}


class Difference(NamedTuple):
    """A table that does not have for an exchange what its events come to."""

    exchange_id: str
    table: str


def _compared(table: Table) -> Statement:
    """The exchanges of which one side has a row that the other has not."""
    columns = ", ".join(f'"{column.name}"' for column in table.c)
    rows = f"SELECT {columns} FROM {{}}.{table.name} WHERE session_id = :session_id"
    only = "SELECT exchange_id FROM ({} EXCEPT {}) AS rest"
    written = {}
    for engine, sides in _SIDES.items():
        made, stored = (rows.format(side) for side in sides)
        written[engine] = f"{only.format(made, stored)} UNION {only.format(stored, made)}"
    return Statement(written)


_COMPARED = {table.name: _compared(table) for table in COMPARED}


class ProjectionVerifier:
    """Projections of a log, made again and thrown away. Used from one thread; a `recorder.store.projector.Database`."""

    def __init__(self, scratch: VerifyConnection) -> None:
        self._scratch, self.engine = scratch, scratch.engine
        self._projector = Projector(self)

    def differences(self, session_id: str) -> list[Difference]:
        """Of one session, as it stands at this moment: a transaction that lasts as long as its fold does."""
        with self._scratch.transaction():
            for (exchange_id,) in list(self.ask(ENDED_EXCHANGES, {"session_id": session_id})):
                self._projector.project(session_id, exchange_id)
            return sorted(self._differences(session_id))

    def _differences(self, session_id: str) -> Iterator[Difference]:
        for table, statement in _COMPARED.items():
            for (exchange_id,) in self.ask(statement, {"session_id": session_id}):
                yield Difference(exchange_id, table)

    # -- what the projector works on

    def run(self, statement: Statement, values: Any) -> None:
        self._scratch.run(statement, values)

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        return self._scratch.ask(statement, values)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        self.run(SAVE, {})
        try:
            yield
        except BaseException:
            self.run(UNDO, {})
            self.run(KEEP, {})
            raise
        self.run(KEEP, {})
