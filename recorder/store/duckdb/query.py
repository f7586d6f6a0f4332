"""SQL of the user's own on a connection of DuckDB, which is closed to everything but what it has attached.

Rules of this file:

* One call, one statement, which selects: DuckDB's own parser says so, and names what it reads. A function that gives
  rows reads files, other databases or the settings, so only those of a short list may stand there.
* Behind that list are the locks of DuckDB: no file outside of the folders that an archive has, no extension, no
  variable of Python, no other setting.
* A value is what SQLite would give: a sum is an integer, a fraction a float, a flag 0 or 1, everything else a text.
* A statement that gives no row in time is interrupted, and so is one that somebody stops.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from recorder.errors import RecorderError, UsageError
from recorder.store.duckdb.connection import quoted
from recorder.store.query import STOPPED, TIMEOUT_S, QueryResult, Row, Value, distinct, first_word
from recorder.store.schema import REBUILD_IS_DUE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOOK_S = 0.1  # between two looks at whether somebody stops the statement
ROWS = 256  # that are fetched at once

TABLE_FUNCTIONS = {"generate_series", "json_each", "json_tree", "range", "unnest"}
_ANALYZE = re.compile(r"\s*explain(\s+analyze)?\b", re.IGNORECASE)
_CATALOG = "__ducklake_metadata"  # the tables of a catalog: they are of DuckLake, and of whatever else is there


class DuckdbQuery:
    """A `recorder.store.query.Query` of a connection that has the tables and views of a log in its search path."""

    def __init__(
        self, connection: DuckDBPyConnection, folders: Sequence[str] = (), is_stale: str = REBUILD_IS_DUE
    ) -> None:
        """Close the connection to everything else: of it nothing can be undone.

        `folders` are those that it may read: paths, or places on S3, each with a slash at its end. `is_stale` is the
        statement for the method of that name.
        """
        self._connection, self._stale = connection, is_stale
        self._until_s = float("inf")
        self._is_stopped = False
        self._open_rows: Generator[Row] | None = None
        connection.execute("SET python_enable_replacements = false")
        connection.execute(f"SET allowed_directories = [{', '.join(map(quoted, folders))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def is_stale(self) -> bool:
        row = self._connection.execute(self._stale).fetchone()
        return bool(row and row[0])

    def ask(self, sql: str, values: Mapping[str, Value] | None = None, timeout_s: float = TIMEOUT_S) -> QueryResult:
        sql = sql.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        text = _TOKEN.sub(_for_driver, sql)
        if self._open_rows is not None:
            self._open_rows.close()
        rows = self._open_rows = self._rows(text, self._checked(text, dict(values or {})), timeout_s)
        return QueryResult([str(name) for name in next(rows)], rows)

    def stop(self) -> None:
        self._is_stopped = True

    def _checked(self, sql: str, values: dict[str, Value]) -> dict[str, Value]:
        """Return the values that a statement has names for. Raise if it is not one statement that only reads."""
        with _explained():
            statements = self._connection.extract_statements(sql)
        if not statements:
            raise UsageError("There is no SQL to run: `recorder query --list` names the views.")
        if len(statements) > 1:
            raise RecorderError("`recorder query` runs one statement at a time.")
        self._require_select(sql)
        names = statements[0].named_parameters
        if any(name.isdecimal() for name in names):
            raise UsageError("A `?` has no name: write `:name`, and give its value with `-p NAME VALUE`.")
        if missing := sorted(names - values.keys()):
            raise RecorderError(f"{missing[0]} has no value: give it with `-p NAME VALUE`.")
        return {name: values[name] for name in names}

    def _require_select(self, sql: str) -> None:
        """Raise `RecorderError` if a statement does anything but read the tables and views that are attached."""
        explained = _ANALYZE.match(sql)
        parse = "SELECT json_serialize_sql(CAST(? AS VARCHAR))"
        [(text,)] = self._connection.execute(parse, [sql[explained.end() :] if explained else sql]).fetchall()
        tree = json.loads(text)
        if tree["error"] or not tree["statements"]:
            raise RecorderError(f"`recorder query` only reads: {first_word(sql)} is refused.")
        for node in _nodes(tree["statements"]):
            if node.get("type") == "TABLE_FUNCTION" and (name := _function(node)) not in TABLE_FUNCTIONS:
                raise RecorderError(f"`recorder query` reads tables and views: the function {name} is refused.")
            if any(str(node.get(key, "")).startswith(_CATALOG) for key in ("catalog_name", "schema_name")):
                raise RecorderError("`recorder query` reads tables and views of recorder, and not those of a catalog.")

    def _rows(self, sql: str, values: dict[str, Value], timeout_s: float) -> Generator[Row]:
        """Yield the names of the columns, then the rows."""
        with self._watched(timeout_s) as alive:
            with self._reported(timeout_s):
                result = self._connection.execute(sql, values)
                names = [column[0] for column in result.description or ()]
            yield tuple(distinct(names))
            while True:
                with self._reported(timeout_s):
                    alive()
                    page = result.fetchmany(ROWS)
                if not page:
                    return
                for row in page:
                    yield tuple(map(_value, row))

    @contextmanager
    def _watched(self, timeout_s: float) -> Iterator[Callable[[], None]]:
        """Interrupt a statement that gives no row for so long. Yields the function that begins the time again."""
        ended = threading.Event()

        def alive() -> None:
            self._until_s = time.monotonic() + timeout_s

        def watch() -> None:
            while not ended.wait(LOOK_S):
                if self._is_late():
                    self._connection.interrupt()

        alive()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield alive
        finally:
            ended.set()
            watcher.join()

    def _is_late(self) -> bool:
        return self._is_stopped or time.monotonic() >= self._until_s

    @contextmanager
    def _reported(self, timeout_s: float) -> Iterator[None]:
        """Explain an interrupt: by a time limit, by `stop`, or by the user."""
        import duckdb

        try:
            with _explained():
                yield
        except (duckdb.InterruptException, RuntimeError) as error:
            if self._is_stopped:
                raise RecorderError(STOPPED) from error
            if self._is_late():
                raise RecorderError(
                    f"The statement gave no row for {timeout_s:g} s: --timeout gives it more."
                ) from error
            raise KeyboardInterrupt from error
        finally:
            self._until_s = float("inf")  # what is done with a row takes its time


@contextmanager
def _explained() -> Iterator[None]:
    """Turn DuckDB's objections to a statement into `RecorderError`. What is of its memory or a file is left."""
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.IOException):
        raise
    except duckdb.Error as error:
        text = re.sub(r"\s+", " ", str(error).partition("\n\nLINE")[0].partition("\nLINE")[0]).rstrip(".")
        text = text.partition(" Error: ")[2] or text
        if "pytz" in text:
            text = "A time with a zone cannot be shown: write CAST(… AS TEXT)"
        elif isinstance(error, duckdb.CatalogException) and text.startswith("Table"):
            text = f"{text.partition('Did you mean')[0].strip().rstrip('!')}; `recorder query --list` names the views"
        raise RecorderError(f"{text}.") from error


# A value by name, or something that may contain what looks like one: texts, names, comments, casts. A slice has a
# number or a name before its colon, a key of a struct has that too, or a text.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|::"""
    r"""|(?<![\w\])'"]):(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL,
)


def _for_driver(match: re.Match[str]) -> str:
    return f"${match['name']}" if match["name"] else match[0]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a statement as DuckDB parsed it."""
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(child)


def _function(node: Mapping[str, Any]) -> str:
    return str(node["function"].get("function_name", "")).lower()


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
