"""SQL of the user's own on a connection of DuckDB, which is closed to everything but what it has
attached.

Rules of this file:

* One call, one statement, which selects: DuckDB's own parser says so, and names what it reads. What
  it may name is a list: the tables and views that recorder made in the connection, and the
  functions of `recorder.store.duckdb.functions`. Everything else is refused: tables of DuckDB, of a
  catalog, of a server.
* Names are compared as DuckDB compares them: letters of ASCII in any case, all others exactly.
* Behind that list are the locks of DuckDB: what the connection has open already, no extension, no
  variable of Python, no other setting.
* A value is what SQLite would give: a sum is an integer, a fraction a float, a flag 0 or 1,
  everything else a text.
* A statement that gives no row in time is interrupted, and so is one that somebody stops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from recorder.errors import RecorderError, UsageError
from recorder.model.text import safe_text
from recorder.store.duckdb.functions import FUNCTIONS, ROW_FUNCTIONS
from recorder.store.queries.query import (
    NO_SQL,
    Row,
    Value,
    WatchedQuery,
    first_word,
)
from recorder.store.schema import REBUILD_IS_DUE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = 256  # that are fetched at once
SPILL = "4GB"  # on disk, past the limit of memory: the whole log of a small team, sorted

_ANALYZE = re.compile(r"\s*explain(\s+analyze)?\b", re.IGNORECASE)
_REFERENCES = {
    "BASE_TABLE",
    "EMPTY",
    "EXPRESSION_LIST",
    "JOIN",
    "PIVOT",
    "SHOW_REF",
    "SUBQUERY",
    "TABLE_FUNCTION",
}
_OWN_SCHEMAS = {("", ""), ("", "main"), ("memory", "main"), ("", "memory")}


class DuckdbQuery(WatchedQuery):
    """A `recorder.store.queries.query.Query` of a connection that has the tables and views of a log
    in its search path.
    """

    def __init__(self, connection: DuckDBPyConnection, is_stale: str = REBUILD_IS_DUE) -> None:
        """Open what is in memory to statements, and lock the settings of the connection.

        `is_stale` is the statement for the method of that name.
        """
        super().__init__()
        self._connection, self._stale = connection, is_stale
        own = "SELECT table_name FROM information_schema.tables WHERE table_catalog = 'memory'"
        self._relations = frozenset(
            _folded(str(name)) for (name,) in connection.execute(own).fetchall()
        )
        connection.execute("SET integer_division = true")  # as in the other engines
        connection.execute(f"SET max_temp_directory_size = '{SPILL}'")
        connection.execute("SET lock_configuration = true")

    def is_stale(self) -> bool:
        [(is_stale,)] = self._connection.execute(self._stale).fetchall()
        return bool(is_stale)

    def _interrupt(self) -> None:
        self._connection.interrupt()

    def _checked(self, sql: str, values: dict[str, Value]) -> dict[str, Value]:
        """Return the values that a statement has names for.

        Raise if it is not one statement that only reads.
        """
        with _explained():
            statements = self._connection.extract_statements(sql)
        if not statements:
            raise UsageError(NO_SQL)
        if len(statements) > 1:
            raise RecorderError("`recorder query` runs one statement at a time.")
        try:
            self._require_select(sql)
        except RecursionError as error:
            raise RecorderError("The statement nests too deep.") from error
        names = statements[0].named_parameters
        if any(name.isdecimal() for name in names):
            raise UsageError(
                "A `?` has no name: write `:name`, and give its value with `-p NAME VALUE`."
            )
        if missing := sorted(names - values.keys()):
            raise RecorderError(f"{missing[0]} has no value: give it with `-p NAME VALUE`.")
        return {name: values[name] for name in names}

    def _require_select(self, sql: str) -> None:
        """Raise `RecorderError` if a statement does anything but read recorder's tables and views."""
        explained = _ANALYZE.match(sql)
        parse = "SELECT json_serialize_sql(CAST(? AS VARCHAR))"
        [(text,)] = self._connection.execute(
            parse, [sql[explained.end() :] if explained else sql]
        ).fetchall()
        tree = json.loads(text)
        if tree["error"] or not tree["statements"]:
            raise RecorderError(f"`recorder query` only reads: {first_word(sql)} is refused.")
        for node, defined in _nodes(tree["statements"], frozenset()):
            if "function_name" in node:
                _require_function(str(node["function_name"]), FUNCTIONS)
            elif "alias" in node and "sample" in node:  # as all have that stand after FROM
                self._require_reference(node, defined)

    def _require_reference(self, node: Mapping[str, Any], defined: frozenset[str]) -> None:
        """Raise `RecorderError` if what stands after FROM is not recorder's, or of the statement
        itself.

        `defined` are the names that WITH gave there.
        """
        kind = node["type"]
        if kind == "TABLE_FUNCTION":
            _require_function(str(node["function"]["function_name"]), ROW_FUNCTIONS)
        elif kind == "BASE_TABLE":
            schema = (_folded(node["catalog_name"]), _folded(node["schema_name"]))
            name = _folded(node["table_name"])
            is_defined = schema == ("", "") and name in defined
            if not is_defined and (schema not in _OWN_SCHEMAS or name not in self._relations):
                raise RecorderError(
                    f"`recorder query` reads the tables and views of recorder: {_written(node)} is not one of them; "
                    "`recorder query --list` names the views."
                )
        elif kind not in _REFERENCES or (kind == "SHOW_REF" and node["query"] is None):
            raise RecorderError(
                "`recorder query` reads tables and views: `recorder query --list` names the views."
            )

    def _answer(self, sql: str, values: dict[str, Value], timeout_s: float) -> Generator[Row]:
        text = _TOKEN.sub(_for_driver, sql.replace("\0", "\ufffd"))
        checked = self._checked(text, values)
        with self._reported(timeout_s):
            result = self._connection.execute(text, checked)
            names = [column[0] for column in result.description or ()]
        yield tuple(names)
        while True:
            with self._reported(timeout_s):
                page = result.fetchmany(ROWS)
            if not page:
                return
            for row in page:
                yield tuple(map(_value, row))

    @contextmanager
    def _reported(self, timeout_s: float) -> Iterator[None]:
        import duckdb

        try:
            with self._in_time(timeout_s), _explained():
                yield
        except (duckdb.InterruptException, RuntimeError) as error:
            raise self._interrupted(timeout_s) from error


@contextmanager
def _explained() -> Iterator[None]:
    """Turn DuckDB's objections to a statement into `RecorderError`.

    What is of its memory or a file is left.
    """
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.IOException):
        raise
    except duckdb.Error as error:
        text = re.sub(
            r"\s+", " ", str(error).partition("\n\nLINE")[0].partition("\nLINE")[0]
        ).rstrip(".")
        text = text.partition(" Error: ")[2] or text
        if "pytz" in text:
            text = "A time with a zone cannot be shown: write CAST(… AS TEXT)"
        elif isinstance(error, duckdb.CatalogException) and text.startswith("Table"):
            text = f"{text.partition('Did you mean')[0].strip().rstrip('!')}; `recorder query --list` names the views"
        raise RecorderError(f"{text}.") from error
    except OverflowError as error:  # an interval that Python has no type for
        raise RecorderError("A value is too large for a row: write CAST(… AS TEXT).") from error


# A value by name, or something that may contain what looks like one: texts, names, comments, casts.
# A slice has a number or a name before its colon, a key of a struct has that too, or a text.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|::"""
    r"""|(?<![\w\])'"]):(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL,
)


def _for_driver(match: re.Match[str]) -> str:
    return f"${match['name']}" if match["name"] else match[0]


def _nodes(tree: Any, defined: frozenset[str]) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield all objects of a statement as DuckDB parsed it, each with the names that WITH has given
    where it stands.

    A name is known to what follows its definition, and inside of it only to the part that repeats:
    DuckDB looks for a name in the part before UNION among its own tables and views.
    """
    if isinstance(tree, list):
        for child in tree:
            yield from _nodes(child, defined)
    if not isinstance(tree, dict):
        return
    for definition in tree.get("cte_map", {}).get("map", ()):
        yield from _nodes(definition["value"], defined)
        defined |= {_folded(definition["key"])}
    yield tree, defined
    for key, child in tree.items():
        if key == "function" and tree.get("type") == "TABLE_FUNCTION":
            child = child["children"]  # the function itself gives rows: it is in another list
        if key == "right" and tree.get("type") == "RECURSIVE_CTE_NODE":
            yield from _nodes(child, defined | {_folded(tree["cte_name"])})
        elif key != "cte_map":
            yield from _nodes(child, defined)


def _folded(name: str) -> str:
    """Return a name as DuckDB compares it: a letter that is not of ASCII has no other case there."""
    return name.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _written(node: Mapping[str, Any]) -> str:
    names = [str(node[key]) for key in ("catalog_name", "schema_name", "table_name")]
    return safe_text(".".join(filter(None, names)))


def _require_function(name: str, allowed: frozenset[str]) -> None:
    is_operator = not (name[:1].isalpha() or name.startswith("_"))
    if _folded(name) in allowed or (is_operator and allowed is FUNCTIONS):
        return
    raise RecorderError(
        f"`recorder query` reads tables and views: the function {safe_text(name)} is refused."
    )


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str | bytes | float):
        return value
    if isinstance(value, int):  # and a flag
        return int(value)
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)
