"""The panels of the home page: SQL on the documented views, and how a page draws what it returns.

Rules of this file:

* A panel is data. Its numbers are those of its SQL, which the page shows and `recorder query` runs.
* Days are in UTC, as those of `recorder usage --by day`; the first day is whole.
* A percentile is the smallest value that at least so many percent of the values do not exceed (nearest rank), because
  SQLite has no function for percentiles.
"""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from recorder.errors import RecorderError
from recorder.projections.views.latency import PERCENTS, nearest_rank
from recorder.projections.views.parts import Either, written
from recorder.store.queries.costs import has_prices
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import list_sessions
from recorder.store.queries.usage import DAY_NS
from recorder.ui.sql import Questions, command_line

_DAY = Either(
    "date(started_ns / 1000000000, 'unixepoch')",
    "to_char(to_timestamp(started_ns / 1000000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
)


class Panel(NamedTuple):
    """A question with its picture. In the SQL, `{day}` is the date of `started_ns`, `:since` a wall time in ns."""

    id: str
    title: str
    unit: str  # tokens, ns, picousd or exchanges: decides how a page writes the numbers
    sql: str
    chart: Mapping[str, Any]
    note: str | None = None
    needs_prices: bool = False  # not shown if there are none

    def statement(self, engine: str) -> str:
        """Return its SQL as an engine takes it."""
        return textwrap.dedent(self.sql).strip().replace("{day}", written(_DAY, engine))


_SELECTED = ",\n      ".join(f"{nearest_rank(percent, 'ns', 'place', 'n')} AS p{percent}_ns" for percent in PERCENTS)
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


def _chart(kind: str, *series: tuple[str, str], x: str = "day", **more: str) -> Mapping[str, Any]:
    """Return how a page draws the rows: columns along `x`, each with its label."""
    columns = [{"column": column, "label": label} for column, label in series]
    return {"kind": kind, "x": x, **more, "series": columns}


_PERCENTILE_LINES = _chart("lines", ("p50_ns", "median"), ("p90_ns", "90 %"), ("p99_ns", "99 %"))

PANELS = (
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
        SELECT {day} AS day, count(cost_picousd) AS priced, count(*) - count(cost_picousd) AS without_cost,
          sum(input_picousd) AS input_picousd, sum(cache_read_picousd) AS cache_read_picousd,
          sum(cache_write_picousd) AS cache_write_picousd, sum(reasoning_picousd) AS reasoning_picousd,
          sum(output_picousd) AS output_picousd, sum(other_picousd) AS other_picousd,
          sum(cost_picousd) AS cost_picousd
        FROM costs WHERE started_ns >= :since GROUP BY 1 ORDER BY 1
        """,
        _chart(
            "bars",
            ("input_picousd", "uncached input"),
            ("cache_read_picousd", "cache reads"),
            ("reasoning_picousd", "reasoning"),
            ("output_picousd", "visible output"),
            ("cache_write_picousd", "cache writes"),
            ("other_picousd", "searches and requests"),
        ),
        "In US dollars, by the prices that were valid when it was recorded; a picodollar is 10⁻¹² US dollars. "
        "Exchanges without a known cost are left out.",
        needs_prices=True,
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
        "Tools that fail",
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
        "A call failed if the client, or the provider's tool, marked its result as an error.",
    ),
)


async def home(questions: Questions, log: LogReader, days: int) -> dict[str, Any]:
    """Return the panels over the last days, today included, in the form that `/api/home` has."""
    since_ns = (time.time_ns() // DAY_NS - days + 1) * DAY_NS
    shown = PANELS if await has_prices(log) else [panel for panel in PANELS if not panel.needs_prices]
    panels = await asyncio.gather(*(_answer(questions, panel, log.engine, since_ns) for panel in shown))
    return {"days": days, "since_ns": since_ns, "is_empty": not await list_sessions(log, 1), "panels": panels}


async def _answer(questions: Questions, panel: Panel, engine: str, since_ns: int) -> dict[str, Any]:
    """Return a panel with its rows, or with the reason why there are none: one that fails does not stop the others."""
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
