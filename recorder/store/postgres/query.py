"""SQL of the user's own on PostgreSQL, on a connection that only reads: a
`recorder.store.engine.Querying`.

Rules of this file:

* The transaction is read-only, and what runs in it is one statement of a reading kind: the extended
  protocol takes no second one, so no statement can end the transaction and begin another.
* The rights are those of the role `recorder_reader`, wherever the user may take that role. A user
  who is a superuser is as safe as the words he types: give programs a separate login.
* A statement that gives no row in time is cancelled at the server, and so is one that somebody
  interrupts.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from sqlalchemy import URL

from recorder.errors import RecorderError, UsageError
from recorder.store.engine import READER_ROLE, DuckdbSource
from recorder.store.postgres.connection import conninfo, translated
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.postgres.schema import open_log
from recorder.store.queries.query import (
    NO_SQL,
    STOP_S,
    Row,
    Value,
    WatchedQuery,
    first_word,
)
from recorder.store.schema import REBUILD_IS_DUE

READS = {"SELECT", "WITH", "VALUES", "TABLE", "EXPLAIN"}

_SETTINGS = {
    # a reader who went away must not keep old rows alive
    "idle_in_transaction_session_timeout": "'10min'",
}
_OF_THE_STATEMENT = (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError)
_IS_READER = f"""SELECT pg_has_role(oid, 'MEMBER') AND has_schema_privilege(oid, '{SCHEMA}', 'USAGE')
FROM pg_roles WHERE rolname = '{READER_ROLE}'"""


class PostgresQuery(WatchedQuery):
    """A `recorder.store.queries.query.Query` of a database on a server;
    `with PostgresQuery.open(url) as query:`.
    """

    def __init__(self, url: URL, connection: psycopg.Connection) -> None:
        super().__init__()
        self._url, self._connection = url, connection

    @classmethod
    @contextmanager
    def open(cls, url: URL) -> Iterator[PostgresQuery]:
        """Raise `NotFoundError` if nothing was recorded there, `StoreError` if it cannot be read
        here.
        """
        with (
            translated(url),
            open_log(url, _SETTINGS, application_name="recorder query") as connection,
        ):
            if (member := connection.execute(_IS_READER.encode()).fetchone()) and member[0]:
                connection.execute(f"SET ROLE {READER_ROLE}".encode())
            connection.autocommit = False  # what a statement sets is rolled back after it
            query = cls(url, connection)
            try:
                yield query
            finally:
                query.let_go()

    def is_stale(self) -> bool:
        with translated(self._url):
            row = self._connection.execute(REBUILD_IS_DUE.encode()).fetchone()
            return bool(row and row[0])

    def _interrupt(self) -> None:
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=STOP_S)

    def _answer(self, sql: str, values: dict[str, Value], timeout_s: float) -> Generator[Row]:
        word = first_word(sql)
        if not word:
            raise UsageError(NO_SQL)
        if word not in READS:
            raise RecorderError(f"`recorder query` only reads: {word} is refused.")
        text = _TOKEN.sub(_for_driver, sql.replace("\0", "\ufffd")).encode()
        with self._explained(timeout_s), self._connection.cursor() as cursor:
            stream: Any = cursor.stream(text, values)
            with closing(stream) as rows:
                with self._in_time(timeout_s):
                    row = next(rows, None)
                    if row is None:  # of no rows the stream has no names
                        cursor.execute(text, values)
                yield tuple(column.name for column in cursor.description or [])
                while row is not None:
                    yield row
                    with self._in_time(timeout_s):
                        row = next(rows, None)

    @contextmanager
    def _explained(self, timeout_s: float) -> Iterator[None]:
        try:
            with translated(self._url):
                try:
                    yield
                except errors.QueryCanceled as error:
                    raise self._interrupted(timeout_s) from error
                except errors.ReadOnlySqlTransaction as error:
                    raise RecorderError("`recorder query` only reads.") from error
                except _OF_THE_STATEMENT as error:
                    raise RecorderError(_sentence(error)) from error
        finally:
            if not self._connection.closed:
                self._connection.rollback()


query = PostgresQuery.open


def duckdb_source(url: URL) -> DuckdbSource:
    return DuckdbSource(("postgres-scanner",), "postgres", conninfo(url), SCHEMA)


# A value by name, or something that may contain what looks like one: texts, names, comments, casts.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|::|:(?P<name>[A-Za-z_]\w*)|%""",
    re.DOTALL,
)


def _for_driver(match: re.Match[str]) -> str:
    return f"%({match['name']})s" if match["name"] else match[0].replace("%", "%%")


def _sentence(error: psycopg.Error) -> str:
    text = re.sub(r"\s+", " ", error.diag.message_primary or str(error)).rstrip(".")
    if "query parameter missing" in text:
        return f"{text.partition(': ')[2]} has no value: give it with `-p NAME VALUE`."
    if isinstance(error, errors.UndefinedTable):
        return f"{text}; `recorder query --list` names the views."
    return f"{text}."
