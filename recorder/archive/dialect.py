"""The dialect of DuckDB in SQLAlchemy: SQLite's, with what DuckDB writes in another way.

Rules of this file:

* DuckDB understands almost every statement of recorder as it is written for SQLite. What it does not is changed here,
  and only if some statement has it.
* It only reads, so it begins and ends no transaction: each statement sees the archive as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import CompoundSelect, LargeBinary, Select, func, select, union_all
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler, SQLiteDialect
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData

from recorder.archive.place import DIALECT
from recorder.store.engine import ReadRows
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
    statement_compiler = DuckdbCompiler
    default_paramstyle = "numeric_dollar"


_DIALECT = DuckdbDialect()


def rows_of(connection: DuckDBPyConnection, statement: Any, values: Mapping[str, Any]) -> ReadRows:
    """Return all rows of a statement."""
    compiled = statement.compile(dialect=_DIALECT).construct_expanded_state(values)
    result = connection.execute(compiled.statement, compiled.positional_parameters)
    names = [name for name, *_ in result.description]
    return IteratorResult(SimpleResultMetaData(names), iter(result.fetchall()))


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
