"""The dialect of DuckDB in SQLAlchemy: SQLite's, with what DuckDB writes in another way.

Rules of this file:

* DuckDB understands almost every statement of recorder as it is written for SQLite. What it does not is changed here,
  and only if some statement has it.
* It only reads, so it begins and ends no transaction: each statement sees the archive as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import CompoundSelect, Engine, LargeBinary, Select, create_engine, func, select, union_all
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler, SQLiteDialect
from sqlalchemy.pool import StaticPool

from recorder.archive.place import DIALECT
from recorder.store.schema import tables_of
from recorder.store.search import INDEXES, Indexed, SearchIndex

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class DuckdbCompiler(SQLiteCompiler):
    """The compiler of statements."""

    def visit_length_func(self, function: Any, **options: Any) -> str:
        """Write the length of bytes, which is another function than that of a text."""
        [argument] = function.clauses
        name = "octet_length" if isinstance(argument.type, LargeBinary) else "length"
        return f"{name}{self.function_argspec(function, **options)}"

    def visit_empty_set_expr(self, element_types: Any, **options: Any) -> str:
        """Write the list of an `IN` that is empty: a NULL has the type of whatever it is compared with."""
        return f"SELECT {', '.join('NULL' for _ in element_types or [None])} WHERE 1 <> 1"


class DuckdbDialect(SQLiteDialect):
    """The dialect, with values by position: `$1`, `$2`."""

    name = DIALECT
    driver = "recorder"
    statement_compiler = DuckdbCompiler
    default_paramstyle = "numeric_dollar"
    supports_statement_cache = True

    def __init__(self, dbapi: Any = None, **options: Any) -> None:
        super().__init__(**options)  # without the driver, of which it would take the version of SQLite
        self.dbapi = dbapi

    @classmethod
    def import_dbapi(cls) -> Any:
        import duckdb

        return duckdb

    def initialize(self, connection: Any) -> None:
        """Do not read the version of a server: there is none."""


_NAME = f"{DuckdbDialect.name}.{DuckdbDialect.driver}"
registry.register(_NAME, __name__, DuckdbDialect.__name__)


class _Connection:
    """A connection as SQLAlchemy's pool takes it: each cursor is one of DuckDB's own."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    def cursor(self) -> DuckDBPyConnection:
        made = self._connection.cursor()
        made.execute("SET integer_division = true")  # as in the other engines
        return made

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


def duckdb_engine(connection: DuckDBPyConnection) -> Engine:
    """Return an engine over an open connection, which stays its owner's."""
    url = f"{_NAME.replace('.', '+')}://"
    return create_engine(url, creator=lambda: _Connection(connection), poolclass=StaticPool)


def _sessions(words: str) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(*(_sessions_of(index, words.replace("\0", " ").split()) for index in INDEXES))


def _sessions_of(index: Indexed, words: list[str]) -> Select[*tuple[Any, ...]]:
    """Select the sessions with a row that has all words somewhere: an archive has no index of words."""
    rows = tables_of[index.projection.name]
    texts = _plain(func.concat_ws(" ", *(rows.c[name] for name in index.columns.split(", "))))
    return select(rows.c.session_id).where(*(func.contains(texts, _plain(word.removesuffix("*"))) for word in words))


def _plain(text: Any) -> Any:
    return func.lower(func.strip_accents(text))


SEARCH = SearchIndex((), _sessions)
