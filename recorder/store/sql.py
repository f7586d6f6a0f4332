"""Statements at the driver, and the expressions that many of them share: written once, compiled on first use.

Most are SQLAlchemy's, and so the same everywhere. Where engines differ in kind (full-text search) the engine gives the
text. Values are always given by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnClause,
    ColumnElement,
    Row,
    Table,
    and_,
    bindparam,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ClauseElement

from recorder.store.engine import sql_forms
from recorder.store.schema import archives, events

S = TypeVar("S", bound=msgspec.Struct)

Written = ClauseElement | str  # a text has its values as `:name`


class Statement:
    """One statement, compiled for each engine that runs it when it first does."""

    def __init__(self, written: Written | Callable[[str], Written], more: str = "", *, is_long: bool = False) -> None:
        """`written` may be a function of the engine's name; `more` is put behind it. Of one that `is_long` the rows are
        never in memory all at once, which takes a server more questions.
        """
        self._written, self._more, self.is_long = written, more, is_long
        self._texts: dict[str, str] = {}
        self._positional: dict[str, tuple[str, list[str]]] = {}

    def text(self, engine: str) -> str:
        """Return the SQL for the driver of an engine (`engine_name`)."""
        if engine not in self._texts:
            self._texts[engine] = self._compiled(engine)
        return self._texts[engine]

    def positional(self, engine: str) -> tuple[str, list[str]]:
        """Return the SQL with `?` for each value, and the names of the values in their order."""
        if engine not in self._positional:
            parts: list[Any] = [clause.compile(dialect=dialect(engine, "qmark")) for clause in self._clauses(engine)]
            names = [name for part in parts for name in part.positiontup]
            self._positional[engine] = " ".join(map(str, parts)), names
        return self._positional[engine]

    def _compiled(self, engine: str) -> str:
        return " ".join(str(clause.compile(dialect=dialect(engine))) for clause in self._clauses(engine))

    def _clauses(self, engine: str) -> list[ClauseElement]:
        written = self._written
        if not isinstance(written, ClauseElement | str):
            written = written(engine)
        clause = text(written) if isinstance(written, str) else written
        return [clause, text(self._more)] if self._more else [clause]


Step = tuple[Statement, Any]
"""A statement and its values by name, or a list of such values: then it is run for each, and gives no rows."""


@cache
def dialect(engine: str, paramstyle: str = "") -> Any:
    """Return SQLAlchemy's dialect; its placeholders take values by name, unless `paramstyle` says otherwise."""
    return sql_forms(engine).dialect(paramstyle)


SAVE, UNDO, KEEP = (Statement(f"{verb} attempt") for verb in ("SAVEPOINT", "ROLLBACK TO", "RELEASE"))
"""Begin an attempt, undo it, and end it."""


def constant(value: str | int) -> ColumnClause[Any]:
    """Return a word or number of this program as a part of the statement: no value is given when it is run."""
    return literal_column(f"'{value}'" if isinstance(value, str) else str(value))


def struct_of(kind: type[S], row: Row[Any]) -> S:
    """Return the struct whose fields are columns of a row, by their names: in any order, and with others beside."""
    columns = row._mapping
    return kind(**{name: columns[name] for name in kind.__struct_fields__})


def of_exchange(table: Table) -> ColumnElement[bool]:
    """Return the condition that a row is of the exchange whose `session_id` and `exchange_id` are given as values."""
    return and_(table.c.session_id == bindparam("session_id"), table.c.exchange_id == bindparam("exchange_id"))


def of_same_exchange(table: Table, other: Table) -> ColumnElement[bool]:
    """Return the condition that rows of two tables are of one exchange."""
    return and_(table.c.session_id == other.c.session_id, table.c.exchange_id == other.c.exchange_id)


IS_END = events.c.kind == constant("end")
"""A row of `events` is the end of its exchange. A constant: an index of SQLite is on the rows that have it."""


class Contains(ColumnElement[bool]):
    """The condition that a text or some bytes contain others."""

    inherit_cache = False  # its parts are not part of a key; these statements are compiled once anyway
    type = Boolean()

    def __init__(self, whole: ColumnElement[Any], part: ColumnElement[Any]) -> None:
        self.whole, self.part = whole, part


@compiles(Contains)
def _contains(element: Contains, compiler: Any, **options: Any) -> str:
    whole, part = (compiler.process(each, **options) for each in (element.whole, element.part))
    return sql_forms(compiler.dialect.name).contains_sql.format(whole=whole, part=part)


class ServerTime(ColumnElement[int]):
    """The time by the clock of a server, in nanoseconds since the epoch; NULL in a file, which has no clock."""

    inherit_cache = False
    type = BigInteger()


@compiles(ServerTime)
def _server_time(_element: ServerTime, compiler: Any, **_options: Any) -> str:
    return sql_forms(compiler.dialect.name).clock_ns_sql


def has_ended(exchange: str) -> str:
    """Return the condition that an exchange has its `end`, for any engine; the index `events_end` answers it.

    `exchange` is the name of a table in the query, with the two ids. Notes may follow an `end`: a look at the last
    event does not do. The same of events in memory is `recorder.model.events.has_ended`.
    """
    key = f"ended.session_id = {exchange}.session_id AND ended.exchange_id = {exchange}.exchange_id"
    return f"EXISTS (SELECT 1 FROM events AS ended WHERE {key} AND ended.kind = 'end')"


HAS_ENDED: ColumnElement[bool] = literal_column(has_ended("exchanges"), Boolean)
"""The log has the end of an exchange, a row of `exchanges`."""

ENDED_EXCHANGES = Statement(
    "SELECT exchange_id FROM events WHERE session_id = :session_id AND kind = 'end' ORDER BY exchange_id"
)
"""The ids of a session's exchanges that have ended."""

ATTACHED_ARCHIVES = select(archives.c.url).order_by(archives.c.attached_ns, archives.c.url)
"""The URLs of a log's archives, in the order in which they were attached."""
