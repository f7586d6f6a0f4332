"""SQL of the people who look: what `recorder query` may do, within the limits of a page.

Rules of this file:

* Each question has a connection of its own that can only read (`recorder.store.queries.query`), and a thread that
  waits for it.
* What somebody typed runs in a process of its own (`recorder.store.queries.query_process`). The viewer's own
  statements, of which a page has many at once, are known to be short, and do without.
* It is about the log alone, without its archives.
* A question whose client has left is stopped, and so are all of them when the viewer stops.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import URL

from recorder.archive.place import database_name, database_of, dialect_of, is_archive
from recorder.errors import RecorderError, UsageError
from recorder.model.text import json_value
from recorder.program import load
from recorder.projections.views.columns import described
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import address_of
from recorder.store.location import default_url
from recorder.store.queries.query import STOPPED, Query, QueryResult, Value, value_of
from recorder.store.queries.query_process import OWN_ENGINE, open_query

Json = dict[str, Any]

AT_ONCE = 4  # questions: each computes on a processor, and the proxy of this machine needs one too
TIMEOUT_S = 30.0  # for the first row, and for all of them: a person waits for it
MOST_ROWS = 10_000  # of an answer: more than anyone reads, and what a table in a page can hold
MOST_BYTES = 8 * 2**20
SECRETS = ("password", "sslpassword")  # of libpq, which a URL may have in its query


class Questions:
    """All questions of one viewer, few at a time."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._opener = "recorder.archive.sql:open_attached" if is_archive(url) else OWN_ENGINE
        self._pool = ThreadPoolExecutor(AT_ONCE, "query")
        self._asked: set[_Question] = set()

    async def ask(self, sql: str, values: Mapping[str, Value]) -> Json:
        """Return the rows of a statement that somebody typed, as far as they fit into an answer.

        Raise `RecorderError` with the engine's objection.
        """
        return await self._answer(_Question(open_query(self.url, self._opener), self.url, sql, values))

    async def ask_own(self, sql: str, values: Mapping[str, Value]) -> Json:
        """Return the rows of a statement of ours. Raise `RecorderError` with the engine's objection."""
        return await self._answer(_Question(load(self._opener)(self.url), self.url, sql, values))

    async def _answer(self, question: _Question) -> Json:
        self._asked.add(question)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, question.answer)
        finally:
            question.stop()
            self._asked.discard(question)

    def close(self) -> None:
        """Stop all questions, and take no more."""
        for question in self._asked:
            question.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Question:
    """One statement, which another thread may stop."""

    def __init__(self, opening: AbstractContextManager[Query], url: URL, sql: str, values: Mapping[str, Value]) -> None:
        self._opening = opening
        self._url, self._sql, self._values = url, sql, values
        self._is_stopped = False
        self._query: Query | None = None

    def answer(self) -> Json:
        began = time.monotonic()
        with self._opening as self._query:
            if self._is_stopped:
                raise RecorderError(STOPPED)
            result = self._query.ask(self._sql, self._values, TIMEOUT_S)
            rows, is_all = _held(result, began + TIMEOUT_S)
        return {
            "columns": result.columns,
            "rows": rows,
            "is_all": is_all,
            "elapsed_ms": round((time.monotonic() - began) * 1e3, 1),
            "command": command_line(self._url, self._sql, self._values),
        }

    def stop(self) -> None:
        self._is_stopped = True
        if self._query is not None:
            self._query.stop()


def _held(result: QueryResult, until_s: float) -> tuple[list[list[Any]], bool]:
    """Return the rows that fit into an answer and come in time, and whether these are all."""
    held: list[list[Any]] = []
    size_bytes = 0
    for row in result.rows:
        size_bytes += sum(map(_size_bytes, row))
        if len(held) == MOST_ROWS or size_bytes > MOST_BYTES or time.monotonic() > until_s:
            return held, False
        held.append([json_value(value) for value in row])
    return held, True


def _size_bytes(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 8


def command_line(url: URL, sql: str, values: Mapping[str, Value] | None = None) -> str:
    """Return the `recorder query` that gives the same rows. Never with a password."""
    words = ["recorder", "query", sql]
    for name, value in (values or {}).items():
        words += ["-p", name, str(value)]
    return shlex.join([*words, *database_words(url)])


def database_words(url: URL) -> list[str]:
    """Return the words of a command line that name a database; none for the default one.

    A password is left out: libpq reads PGPASSWORD and ~/.pgpass.
    """
    if url == default_url():
        return []
    is_file = bool(address_of(database_of(url)).files(database_of(url)))
    named = url.difference_update_query(SECRETS)._replace(password=None)
    return ["--db", database_name(url) if is_file else named.render_as_string()]


def views(url: URL) -> list[Json]:
    """Return the views with the meaning of their columns: `recorder query --list --json`."""
    return [described(view, dialect_of(url)) for view in VIEWS]


def checked_question(body: Any) -> tuple[str, dict[str, Value]]:
    """Return the SQL and the values of a request's body. Raise `UsageError` for any other.

    A text is read as `recorder query -p` reads it, so that the command in the answer has the same values.
    """
    if not isinstance(body, dict) or not isinstance(body.get("sql"), str) or body.keys() - {"sql", "params"}:
        raise UsageError('Send {"sql": "select …", "params": {"name": value}}.')
    params = body.get("params") or {}
    is_fit = isinstance(params, dict) and all(isinstance(value, int | float | str | None) for value in params.values())
    if not is_fit:
        raise UsageError("params is an object of names with a number, a text or null each.")
    values: dict[str, Value] = dict(params)
    for name, value in params.items():
        if isinstance(value, str):
            values[name] = value_of(value)
    return body["sql"], values
