"""Statements at the driver, and the expressions that many of them share: written once, compiled on
first use.

Most are SQL that every engine takes as it is, DuckDB too. Where engines differ, a function of the
engine's name gives the text, or `OfEngine` a part of it; what follows from a table's columns is
SQLAlchemy's. Values are given by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    Boolean,
    ColumnClause,
    ColumnElement,
    FromClause,
    Row,
    TextClause,
    and_,
    bindparam,
    literal_column,
    text,
)
from sqlalchemy.dialects import registry
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ClauseElement

from recorder.model.events import BODY_KINDS
from recorder.store.schema import ID, events

S = TypeVar("S", bound=msgspec.Struct)

Written = ClauseElement | str  # a text has its values as `:name`


class Statement:
    """One statement, compiled for each engine that runs it when it first does."""

    def __init__(
        self, written: Written | Callable[[str], Written], *, is_long: bool = False
    ) -> None:
        """`written` may be a function of the engine's name.

        Of one that `is_long` the rows are never in memory all at once, which takes a server more
        questions.
        """
        self._written, self.is_long = written, is_long
        self._texts: dict[str, str] = {}
        self._positional: dict[str, tuple[str, list[str]]] = {}

    def text(self, engine: str) -> str:
        """Return the SQL for the driver of an engine (`engine_name`)."""
        if engine not in self._texts:
            self._texts[engine] = str(self._compiled(engine))
        return self._texts[engine]

    def positional(self, engine: str) -> tuple[str, list[str]]:
        """Return the SQL with `?` for each value, and the names of the values in their order."""
        if engine not in self._positional:
            compiled = self._compiled(engine, "qmark")
            self._positional[engine] = str(compiled), compiled.positiontup
        return self._positional[engine]

    def _compiled(self, engine: str, paramstyle: str = "") -> Any:
        written = self._written
        if not isinstance(written, ClauseElement | str):
            written = written(engine)
        clause = text(written) if isinstance(written, str) else written
        return clause.compile(dialect=dialect(engine, paramstyle))


Step = tuple[Statement, Any]
"""A statement and its values by name, or a list of such values: then it is run for each, and gives
no rows.
"""


class SqlForms(NamedTuple):
    """SQL in which an engine differs from others."""

    driver: str  # as SQLAlchemy names it
    paramstyle: str  # of its values by name
    # Reads the events of a session at `:places`, a JSON array of objects with `x`, an exchange, and
    # `pos`.
    at_places: str
    contains: str  # the condition that a text, or some bytes, `{whole}` contains `{part}`
    # the time by the clock of the server, in nanoseconds since the epoch; a file has no clock
    clock_ns: str
    # the nanoseconds since `{heard}`, a time by that clock, less those in which the server was away
    silence_ns: str
    # selects a row that no other database has, however its URL is written; a file has its path
    identity: str | None
    # of the scratch tables, and of the log, on a `scratch_connection`
    scratch_schemas: tuple[str, str]


_NS = "CAST(extract(epoch FROM {}) * 1000000000 AS BIGINT)".format
FORMS: Mapping[str, SqlForms] = {
    "sqlite": SqlForms(
        driver="sqlite",
        paramstyle="named",
        at_places="""json_each(:places) AS k CROSS JOIN events AS e WHERE e.session_id = :session_id
    AND e.exchange_id = json_extract(k.value, '$.x') AND e.pos = json_extract(k.value, '$.pos')""",
        contains="instr({whole}, {part}) > 0",
        clock_ns="NULL",
        silence_ns="NULL",
        identity=None,
        scratch_schemas=("main", "log"),
    ),
    "postgresql": SqlForms(
        driver="postgresql.psycopg",
        paramstyle="pyformat",
        at_places="""json_to_recordset(CAST(:places AS json)) AS k (x uuid, pos bigint)
CROSS JOIN events AS e WHERE e.session_id = CAST(:session_id AS uuid) AND e.exchange_id = k.x AND e.pos = k.pos""",
        contains="position({part} IN {whole}) > 0",
        clock_ns=_NS("clock_timestamp()"),
        silence_ns=f"{_NS('clock_timestamp()')} - greatest({{heard}}, {_NS('pg_postmaster_start_time()')})",
        identity="SELECT CAST(pg_postmaster_start_time() AS text), current_database()",
        scratch_schemas=("pg_temp", "recorder"),
    ),
}
"""By the name of the engine (`engine_name`)."""


@cache
def dialect(engine: str, paramstyle: str = "") -> Any:
    """Return SQLAlchemy's dialect; its placeholders take values by name, unless `paramstyle` says
    otherwise.
    """
    forms = FORMS[engine]
    return registry.load(forms.driver)(paramstyle=paramstyle or forms.paramstyle)


SAVEPOINT = Statement("SAVEPOINT attempt")
ROLLBACK_TO = Statement("ROLLBACK TO attempt")
RELEASE = Statement("RELEASE attempt")


def constant(value: str | int) -> ColumnClause[Any]:
    """Return a word or number of this program as a part of the statement: no value is given when it
    is run.
    """
    return literal_column(f"'{value}'" if isinstance(value, str) else str(value))


def struct_of(kind: type[S], row: Row[Any]) -> S:
    """Return the struct whose fields are columns of a row, by their names: in any order, and with
    others beside.
    """
    columns = row._mapping
    return kind(**{name: columns[name] for name in kind.__struct_fields__})


@cache
def _conversions(kind: type[msgspec.Struct]) -> list[tuple[int, Callable[[Any], Any]]]:
    """Return the places of the fields that an engine gives as something else: 1 for a flag, and a
    view of bytes.
    """
    fields = enumerate(msgspec.structs.fields(kind))
    return [(place, _CONVERSIONS[each.type]) for place, each in fields if each.type in _CONVERSIONS]


_CONVERSIONS: Mapping[Any, Callable[[Any], Any]] = {
    bool: bool,
    bool | None: lambda value: None if value is None else bool(value),
    bytes: bytes,
}


def structs_of(kind: type[S], rows: Iterable[Sequence[Any]]) -> list[S]:
    """Return the structs whose fields are the columns of rows, in order, as the folds make them.

    By their places: to go by names takes ten times as long.
    """
    conversions = _conversions(kind)
    structs = []
    for row in rows:
        values = list(row)
        for place, convert in conversions:
            values[place] = convert(values[place])
        structs.append(kind(*values))
    return structs


OF_EXCHANGE = "session_id = :session_id AND exchange_id = :exchange_id"
"""The condition that a row is of the exchange whose ids are given as values."""


def columns_of(table: FromClause, alias: str) -> str:
    """Return the columns of a table under another name, in the order of its struct."""
    return ", ".join(f"{alias}.{column.name}" for column in table.c)


def size_of(column: str, engine: str) -> str:
    """Return the length of bytes in the SQL of an engine, or of DuckDB."""
    return f"{'octet_length' if engine == 'duckdb' else 'length'}({column})"


def of_named(sql: str) -> TextClause:
    """Return a statement whose value `session_ids` is a list of ids."""
    return text(sql).bindparams(bindparam("session_ids", type_=ID, expanding=True))


def change_of(table: str, names: Iterable[str]) -> Statement:
    """Return the update of columns of the rows of an exchange, whose values are given as `new_` and
    their names.
    """
    values = ", ".join(f"{name} = :new_{name}" for name in names)
    return Statement(f"UPDATE {table} SET {values} WHERE {OF_EXCHANGE}")


def of_session(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row is of the session whose id is given as the value
    `session_id`.
    """
    return table.c.session_id == bindparam("session_id")


def of_exchange(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row is of the exchange whose `session_id` and `exchange_id` are
    given as values.
    """
    return and_(of_session(table), table.c.exchange_id == bindparam("exchange_id"))


def of_same_exchange(table: FromClause, other: FromClause) -> ColumnElement[bool]:
    """Return the condition that rows of two tables are of one exchange."""
    return and_(
        table.c.session_id == other.c.session_id, table.c.exchange_id == other.c.exchange_id
    )


IS_END = events.c.kind == constant("end")
"""A row of `events` is the end of its exchange. A constant: an index of SQLite is on the rows that
have it.
"""


class OfEngine(ColumnElement[Any]):
    """A condition or a value whose SQL differs by engine, as a part of a statement."""

    inherit_cache = False  # its text is not part of a key

    def __init__(self, written: Callable[[str], str]) -> None:
        """`written` is a function of the engine's name."""
        self.written = written


@compiles(OfEngine)
def _of_engine(element: OfEngine, compiler: Any, **options: Any) -> str:
    sql: str = compiler.process(text(element.written(compiler.dialect.name)), **options)
    return sql


def has_ended(exchange: str) -> str:
    """Return the condition that an exchange has its `end`, for any engine; the index `events_end`
    answers it.

    `exchange` is the name of a table in the query, with the two ids. Notes may follow an `end`: a
    look at the last event does not do. The same of events in memory is
    `recorder.model.events.has_ended`.
    """
    key = f"ended.session_id = {exchange}.session_id AND ended.exchange_id = {exchange}.exchange_id"
    return f"EXISTS (SELECT 1 FROM events AS ended WHERE {key} AND ended.kind = 'end')"


HAS_ENDED: ColumnElement[bool] = literal_column(has_ended("exchanges"), Boolean)
"""The log has the end of an exchange, a row of `exchanges`."""

ENDED_EXCHANGES = Statement(
    "SELECT exchange_id FROM events WHERE session_id = :session_id AND kind = 'end' ORDER BY exchange_id"
)
"""The ids of a session's exchanges that have ended."""

_KINDS = ", ".join(f"'{kind}'" for kind in sorted(BODY_KINDS))
IS_OF_BODY = f"kind IN ({_KINDS})"
"""An event, whose name may stand before this with a dot, has bytes of the decoded body of a
response.
"""

HAS_PRICES = text("SELECT EXISTS (SELECT 1 FROM prices)")
"""Whether there is any price: without one, no cost is known."""

ATTACHED_ARCHIVES = text("SELECT url FROM archives ORDER BY attached_ns, url")
"""The URLs of a log's archives, in the order in which they were attached."""
