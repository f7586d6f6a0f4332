"""SQL of the people who look: what `recorder query` may do, within the limits of a page; and that
of the home page.

Rules of this file:

* Each question has a connection of its own that can only read (`recorder.store.queries.query`), and
  a thread that waits for it.
* What somebody typed runs in a process of its own (`recorder.store.queries.query_process`). The
  viewer's own statements, of which a page has many at once, are known to be short, and do without.
* It is about the log alone, without its archives.
* A question whose client has left is stopped, and so are all of them when the viewer stops.
* A panel of the home page is data. Its numbers are those of its SQL, which the page shows and
  `recorder query` runs; only a title that no view has yet is read from the log.
* Days are in UTC, as those of `recorder usage --by day`; the first day is whole.
* A percentile is the smallest value that at least so many percent of the values do not exceed
  (nearest rank), because SQLite has no function for percentiles.
"""

from __future__ import annotations

import asyncio
import shlex
import textwrap
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sqlalchemy import URL, text

from recorder.archive.place import database_name, database_of, dialect_of, is_archive
from recorder.errors import RecorderError, UsageError
from recorder.model.events import PROBE
from recorder.model.text import json_value
from recorder.program import load
from recorder.projections.views.columns import described
from recorder.projections.views.contract import PERCENTS, VIEWS, nearest_rank
from recorder.projections.views.cookbook import COOKBOOK
from recorder.projections.views.parts import Either, written
from recorder.store.engine import address_of
from recorder.store.location import default_url
from recorder.store.queries.costs import has_prices
from recorder.store.queries.open_session import asked_in
from recorder.store.queries.query import STOPPED, Query, QueryResult, Value, values_of
from recorder.store.queries.query_process import OWN_ENGINE, open_query
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import list_sessions
from recorder.store.queries.usage import DAY_NS

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
        return await self._answer(
            _Question(open_query(self.url, self._opener), self.url, sql, values)
        )

    async def ask_own(self, sql: str, values: Mapping[str, Value]) -> Json:
        """Return the rows of a statement of ours.

        Raise `RecorderError` with the engine's objection.
        """
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

    def __init__(
        self,
        opening: AbstractContextManager[Query],
        url: URL,
        sql: str,
        values: Mapping[str, Value],
    ) -> None:
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


def examples(url: URL) -> list[Json]:
    """Return the questions of the cook-book, with the SQL that answers each on the engine of a log."""
    return [{"question": each.question, "sql": each.written(dialect_of(url))} for each in COOKBOOK]


def checked_question(body: Any) -> tuple[str, dict[str, Value]]:
    """Return the SQL and the values of a request's body. Raise `UsageError` for any other.

    A text is read as `recorder query -p` reads it, so that the command in the answer has the same
    values.
    """
    if (
        not isinstance(body, dict)
        or not isinstance(body.get("sql"), str)
        or body.keys() - {"sql", "params"}
    ):
        raise UsageError('Send {"sql": "select …", "params": {"name": value}}.')
    params = body.get("params") or {}
    is_fit = isinstance(params, dict) and all(
        isinstance(value, int | float | str | None) for value in params.values()
    )
    if not is_fit:
        raise UsageError("params is an object of names with a number, a text or null each.")
    return body["sql"], values_of(params)


# -- the panels of the home page


_DAY = Either(
    "date(started_ns / 1000000000, 'unixepoch')",
    "to_char(to_timestamp(started_ns / 1000000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
)


class Panel(NamedTuple):
    """A question with its picture.

    In the SQL, `{day}` is the date of `started_ns`, `:since` a wall time in ns.
    """

    id: str
    title: str
    # tokens, ns, picousd, exchanges or calls: decides how a page writes the numbers; a list has
    # none
    unit: str
    sql: str
    chart: Mapping[str, Any]
    note: str | None = None
    needs_prices: bool = False  # not shown if there are none

    def statement(self, engine: str) -> str:
        """Return its SQL as an engine takes it."""
        return textwrap.dedent(self.sql).strip().replace("{day}", written(_DAY, engine))


_SELECTED = ",\n      ".join(
    f"{nearest_rank(percent, 'ns', 'place', 'n')} AS p{percent}_ns" for percent in PERCENTS
)
_PERCENTILES = f"""
    WITH ranked AS (
      SELECT day, ns, row_number() OVER (PARTITION BY day ORDER BY ns) AS place, count(*) OVER (PARTITION BY day) AS n
      FROM (
        SELECT {{day}} AS day, COLUMN AS ns
        FROM latency WHERE started_ns >= :since AND origin = 'live' AND COLUMN IS NOT NULL
      ) AS measured
    )
    SELECT day, max(n) AS exchanges,
      {_SELECTED}
    FROM ranked GROUP BY day ORDER BY day
"""


def _chart(kind: str, *series: tuple[str, str], x: str = "day", **more: Any) -> Mapping[str, Any]:
    """Return how a page draws the rows: columns along `x`, each with its label; `by` are other ways
    to divide them.
    """
    columns = [{"column": column, "label": label} for column, label in series]
    return {"kind": kind, "x": x, **more, "series": columns}


_PERCENTILE_LINES = _chart("lines", ("p50_ns", "median"), ("p90_ns", "90 %"), ("p99_ns", "99 %"))

_LIST: Mapping[str, Any] = {"kind": "list"}

PANELS = (
    Panel(
        "latest",
        "Latest sessions",
        "",
        f"""
        SELECT s.session_id, s.session_name, s.title, s.models, s.turns, s.total_tokens, s.errors, u.used_ns
        FROM (
          SELECT session_id, max(started_ns) AS used_ns FROM exchange_summary WHERE started_ns >= :since
            AND session_id IN (SELECT session_id FROM session_summary WHERE source <> '{PROBE}')
          GROUP BY session_id ORDER BY 2 DESC LIMIT 8
        ) AS u JOIN session_summary AS s ON s.session_id = u.session_id
        ORDER BY u.used_ns DESC, s.session_id DESC
        """,
        _LIST,
    ),
    Panel(
        "tokens",
        "Tokens a day",
        "tokens",
        """
        SELECT {day} AS day, count(*) AS exchanges,
          sum(input_tokens) - coalesce(sum(cache_read_input_tokens), 0) AS uncached_input,
          sum(cache_read_input_tokens) AS cached_input,
          sum(reasoning_output_tokens) AS reasoning,
          sum(output_tokens) - coalesce(sum(reasoning_output_tokens), 0) AS visible_output
        FROM usage WHERE started_ns >= :since GROUP BY 1 ORDER BY 1
        """,
        _chart(
            "bars",
            ("uncached_input", "uncached input"),
            ("cached_input", "cached input"),
            ("reasoning", "reasoning"),
            ("visible_output", "visible output"),
        ),
    ),
    Panel(
        "costs",
        "Cost a day",
        "picousd",
        """
        SELECT {day} AS day, coalesce(model, 'unknown') AS model, coalesce(client, 'unknown') AS client,
          count(cost_picousd) AS priced, count(*) - count(cost_picousd) AS without_cost,
          sum(input_picousd) AS input_picousd, sum(cache_read_picousd) AS cache_read_picousd,
          sum(cache_write_picousd) AS cache_write_picousd, sum(reasoning_picousd) AS reasoning_picousd,
          sum(output_picousd) AS output_picousd, sum(other_picousd) AS other_picousd,
          sum(cost_picousd) AS cost_picousd
        FROM costs WHERE started_ns >= :since GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        """,
        _chart(
            "bars",
            ("input_picousd", "uncached input"),
            ("cache_read_picousd", "cache reads"),
            ("reasoning_picousd", "reasoning"),
            ("output_picousd", "visible output"),
            ("cache_write_picousd", "cache writes"),
            ("other_picousd", "searches and requests"),
            by=("model", "client"),
            total="cost_picousd",
        ),
        "In US dollars, by the prices that were valid when it was recorded; a picodollar is 10⁻¹² US dollars. "
        "Exchanges without a known cost are left out.",
        needs_prices=True,
    ),
    Panel(
        "misses",
        "Cache misses that cost most",
        "",
        """
        SELECT m.session_id, m.session_name, m.exchange_id, m.model, m.class, m.path, m.missed_tokens,
          m.missed_tokens * c.uncached_token_picousd AS cost_picousd
        FROM cache_misses AS m
        LEFT JOIN costs AS c ON c.session_id = m.session_id AND c.exchange_id = m.exchange_id
        WHERE m.started_ns >= :since AND m.missed_tokens > 0
        ORDER BY coalesce(m.missed_tokens * c.uncached_token_picousd, 0) DESC, m.missed_tokens DESC, m.exchange_id
        LIMIT 8
        """,
        _LIST,
        "What the provider's prompt cache could have had: each by its first difference from an earlier request.",
    ),
    Panel(
        "ttft",
        "Time to first token",
        "ns",
        _PERCENTILES.replace("COLUMN", "ttft_ns"),
        _PERCENTILE_LINES,
        "From the request to the first token of reasoning, text or arguments. Live recordings only.",
    ),
    Panel(
        "silence",
        "Longest silence of an exchange",
        "ns",
        _PERCENTILES.replace("COLUMN", "longest_silence_ns"),
        _PERCENTILE_LINES,
        "The longest time between two events of a response. Live recordings only.",
    ),
    Panel(
        "errors",
        "Errors a day",
        "exchanges",
        """
        SELECT {day} AS day, coalesce(error_type, error_code, status) AS kind, count(*) AS exchanges
        FROM exchange_summary
        WHERE started_ns >= :since AND (error IS NOT NULL OR status NOT IN ('completed', 'incomplete'))
          AND NOT (status = 'client_disconnect' AND coalesce(purpose, 'turn') <> 'turn')
        GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2
        """,
        _chart("bars", ("exchanges", "exchanges"), split="kind"),
        "Without the exchanges of no turn that a client broke off itself.",
    ),
    Panel(
        "tools",
        "Tools",
        "calls",
        """
        SELECT coalesce(c.name, c.type) AS tool, count(*) AS calls, count(c.output) AS answered,
          count(CASE WHEN c.failed = 1 THEN 1 END) AS failed,
          CAST(avg(c.latency_ns) AS BIGINT) AS latency_avg_ns
        FROM tool_calls AS c
        JOIN exchange_summary AS x ON x.session_id = c.session_id AND x.exchange_id = c.exchange_id
        WHERE x.started_ns >= :since
        GROUP BY 1 ORDER BY 4 DESC, 2 DESC, 1 LIMIT 12
        """,
        _chart("ranking", ("failed", "failed"), x="tool", of="calls"),
        "Those that fail most, then those that are called most. A call failed if the client, or the provider's tool, "
        "marked its result as an error.",
    ),
)


_FIRST = text("SELECT min(started_ns) FROM exchanges")


async def home(questions: Questions, log: LogReader, days: int) -> dict[str, Any]:
    """Return the panels over the last days, today included, in the form that `/api/home` has."""
    since_ns = (time.time_ns() // DAY_NS - days + 1) * DAY_NS
    shown = (
        PANELS if await has_prices(log) else [panel for panel in PANELS if not panel.needs_prices]
    )
    panels = await asyncio.gather(
        *(_answer(questions, panel, log.engine, since_ns) for panel in shown)
    )
    await _name_open_sessions(log, panels[0])
    [(first_ns,)] = await log.rows(_FIRST)
    return {
        "days": days,
        "since_ns": since_ns,
        "from_ns": max(since_ns, (first_ns or 0) // DAY_NS * DAY_NS),
        "is_empty": not await list_sessions(log, 1),
        "panels": panels,
    }


async def _name_open_sessions(log: LogReader, latest: Json) -> None:
    """Fill the title and the models of sessions in which nothing has ended: views know them from
    then on.
    """
    for row in latest["rows"]:
        of_session = dict(zip(latest["columns"], row, strict=True))
        if of_session["title"] is None:
            asked = await asked_in(log, of_session["session_id"])
            of_session |= {
                "title": asked.title,
                "models": of_session["models"] or ", ".join(asked.models),
            }
            row[:] = of_session.values()


async def _answer(questions: Questions, panel: Panel, engine: str, since_ns: int) -> dict[str, Any]:
    """Return a panel with its rows, or with the reason why there are none: one that fails does not
    stop the others.
    """
    sql, values = panel.statement(engine), {"since": since_ns}
    described = {name: getattr(panel, name) for name in ("id", "title", "unit", "note", "chart")}
    described |= {"sql": sql, "params": values}
    try:
        return {**described, **await questions.ask_own(sql, values), "error": None}
    except RecorderError as error:
        return {
            **described,
            "columns": [],
            "rows": [],
            "command": command_line(questions.url, sql, values),
            "error": str(error),
        }
