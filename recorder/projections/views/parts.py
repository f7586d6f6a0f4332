"""The definition of a view, and the expressions and joins that several views share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from recorder.model.facts import Usage, UsageDetails
from recorder.projections.rows import (
    DAY,
    SHARES,
    TABLES,
    completeness_sql,
    same_response_sql,
    whole,
)


class Either(NamedTuple):
    """An expression that engines write differently.

    DuckDB takes that of SQLite if it has none of its own.
    """

    sqlite: str
    postgresql: str
    duckdb: str | None = None


Expression = str | Either


def written(expression: Expression, engine: str) -> str:
    """Return an expression as an engine takes it: `sqlite`, `postgresql` or `duckdb`."""
    return (
        expression
        if isinstance(expression, str)
        else str(getattr(expression, engine) or expression.sqlite)
    )


class View(NamedTuple):
    """One view: `SELECT` its columns `FROM` a source."""

    name: str
    row: str  # what a row is, as a sentence
    columns: Mapping[str, Expression]  # the expression that each column is
    source: Expression
    example: Expression

    def statement(self, engine: str) -> str:
        """Return the statement that creates it in `sqlite`, `postgresql` or `duckdb`."""
        columns = {name: written(each, engine) for name, each in self.columns.items()}
        selected = ",\n    ".join(
            name if expression == name else f"{expression} AS {name}"
            for name, expression in columns.items()
        )
        return (
            f"CREATE VIEW {self.name} AS\nSELECT {selected}\n{written(self.source, engine).strip()}"
        )


def of(table: str, columns: str) -> dict[str, str]:
    return {name: f"{table}.{name}" for name in columns.split()}


def ids(table: str) -> dict[str, str]:
    return {
        "session_id": f"{table}.session_id",
        "session_name": "s.name",
        "exchange_id": f"{table}.exchange_id",
    }


def same_exchange(one: str, other: str) -> str:
    return f"{one}.session_id = {other}.session_id AND {one}.exchange_id = {other}.exchange_id"


# Tables: s sessions, x exchanges, e events, and of the projections p exchanges, i items, u usage, t
# timing.
SESSION = "JOIN sessions AS s ON s.session_id = {0}.session_id".format


_RANKS = [f"({', '.join(completeness_sql(table))})" for table in ("o", "p")]
BETTER = f"""FROM {TABLES["exchanges"]} AS o WHERE {same_response_sql("o", "p")} AND {_RANKS[0]} > {_RANKS[1]}"""
# `coalesce` keeps an engine from the index by response: a session in which thousands of exchanges
# say the same id, and none retrieves it, would be gone through for each of them.
_RETRIEVED = f"""SELECT 1 FROM {TABLES["exchanges"]} AS r
    WHERE r.session_id = p.session_id AND r.is_retrieval = 1 AND coalesce(r.response_id, '') = p.response_id"""
NOT_SUPERSEDED = f"(NOT EXISTS ({_RETRIEVED}) OR NOT EXISTS (SELECT 1 {BETTER}))"
"""True for an exchange that no other supersedes."""
_BEST_FIRST = ", ".join(f"{each} DESC" for each in completeness_sql("o"))


def counts_once(table: str) -> str:
    """Return the same as `NOT_SUPERSEDED`, for a table whose rows are mostly of sessions that
    retrieve nothing: those are recognized by an index of a few rows, and no row of an exchange is
    read for them.
    """
    is_retrieved = f"""SELECT 1 FROM {TABLES["exchanges"]} AS r
        WHERE r.session_id = {table}.session_id AND r.is_retrieval = 1"""
    is_superseded = f"""SELECT 1 FROM {TABLES["exchanges"]} AS p WHERE {same_exchange("p", table)}
        AND EXISTS (SELECT 1 {BETTER})"""
    return f"(NOT EXISTS ({is_retrieved}) OR NOT EXISTS ({is_superseded}))"


SUPERSEDED = f"""SELECT p.session_id, p.exchange_id
    FROM {TABLES["exchanges"]} AS r CROSS JOIN {TABLES["exchanges"]} AS p
    WHERE r.is_retrieval = 1 AND p.session_id = r.session_id AND p.response_id = r.response_id
        AND EXISTS (SELECT 1 {BETTER})"""
"""The exchanges of all sessions that are superseded: of few rows, listed once for all that a sum
goes through. (A file joins them in the order in which they are written.)
"""
SUPERSEDED_BY = f"(SELECT o.exchange_id {BETTER} ORDER BY {_BEST_FIRST} LIMIT 1)"

ITEMS = f"""
FROM {TABLES["items"]} AS i
JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "i")}
JOIN exchanges AS x ON {same_exchange("x", "i")}
{SESSION("i")}
"""
MODEL = "coalesce(p.response_model, p.request_model)"

TOKENS = " ".join(Usage.__struct_fields__)
USAGE_DETAILS = " ".join(UsageDetails.__struct_fields__)


def total(value: str) -> Either:
    """Return the sum of a column as a bigint: PostgreSQL sums to numbers of any length, which
    programs read as decimals.
    """
    return Either(f"sum({value})", f"CAST(sum({value}) AS BIGINT)")


_COUNTED = ("session_id", "exchange_id", "started_ns", "client", "model", *TOKENS.split())


def _counted() -> Either:
    own = ", ".join(f"u.{name} AS {name}" for name in _COUNTED)
    rows = f"""(SELECT {own}, u.outcome AS outcome, u.reported AS reported
    FROM {TABLES["usage"]} AS u WHERE (u.model IS NOT NULL OR u.reported = 1)
    AND (u.session_id, u.exchange_id) NOT IN ({SUPERSEDED})) AS counted"""
    is_reported = "CASE WHEN u.usage_raw IS NULL THEN 0 ELSE 1 END"
    older = f"""(SELECT {own}, p.status AS outcome, {is_reported} AS reported
    FROM usage AS u JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "u")}) AS counted"""
    return Either(rows, rows, older)


COUNTED = _counted()
"""The rows of the view `usage` with what sums take of them, out of one table, which has an index
with all of that. The rows of an older recorder in an archive lack some columns, so DuckDB asks the
view itself.
"""
SUMS: dict[str, Expression] = {name: total(name) for name in TOKENS.split()}


def share(part: str, whole: str) -> str:
    both = f"FILTER (WHERE {part} IS NOT NULL AND {whole} IS NOT NULL)"
    return f"CAST(sum({part}) {both} AS DOUBLE PRECISION) / nullif(sum({whole}) {both}, 0)"


def added(column: str, of_rows: str) -> Either:
    """Return the sum of a column of `DAILY`; DuckDB has in its place an aggregate of rows of
    `usage`.
    """
    return total(column)._replace(duckdb=of_rows)


def added_share(name: str) -> Either:
    parts = f"CAST(sum({name}_part) AS DOUBLE PRECISION) / nullif(sum({name}_whole), 0)"
    return Either(parts, parts, share(*SHARES[name]))


USAGE_SUMS: dict[str, Expression] = {
    "exchanges": added("exchanges", "count(*)"),
    "reported": added("reported", "count(usage_raw)"),
    **{name: added(name, f"sum({name})") for name in TOKENS.split()},
    **{name: added_share(name) for name in SHARES},
}


def count_of(kind: str) -> str:
    return f"(SELECT count(*) FROM {TABLES['items']} AS i WHERE {same_exchange('i', 'x')} AND i.kind = '{kind}')"


def listed(value: str, source: str) -> Either:
    """Return the values of a session, each once, in order of their first exchange."""
    values = f"""(SELECT {value} AS value {source}
        WHERE x.session_id = s.session_id AND {value} IS NOT NULL
        GROUP BY {value} ORDER BY min(x.started_ns), {value})"""
    return Either(
        f"(SELECT group_concat(value, ', ') FROM {values})",
        f"(SELECT string_agg(value, ', ') FROM {values} AS listed)",
    )


# Of a response that is retrieved later, its results may have come before that.
FIRST_STARTED = f"""coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN {TABLES["exchanges"]} AS q
        ON {same_exchange("q", "f")} WHERE q.session_id = p.session_id AND q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)"""


def first_result(of_thread: bool) -> str:
    """Return the first of the results of a call that come after it, from any thread or from its
    own.
    """
    source = f" JOIN exchanges AS y ON {same_exchange('y', 'n')}" if of_thread else ""
    condition = (
        "\n        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')" if of_thread else ""
    )
    return f"""(SELECT n.digest FROM {TABLES["results"]} AS n{source} WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > {FIRST_STARTED}{condition}
        ORDER BY n.started_ns, n.digest LIMIT 1)"""


# Of a call that has no output of its own. An agent that begins with the history of another one
# sends the same call, with the result that it was aborted: what the call's own thread sends stands.
# Most is read only of a call that has a result at all.
_IS_ANSWERED = f"""EXISTS (SELECT 1 FROM {TABLES["results"]} AS m WHERE m.session_id = i.session_id
        AND m.call_key = i.call_key)"""
RESULT_DIGEST = f"""CASE WHEN i.output IS NULL AND {_IS_ANSWERED}
        THEN (SELECT coalesce({first_result(True)},
        {first_result(False)}) FROM exchanges AS x JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "x")}
        WHERE {same_exchange("x", "i")}) END"""
# The exchange of a call is looked up where it matters, and not joined: a server takes a join by two
# columns for a few rows, and would go through all sessions for each of them.
CALL_STARTED = f"(SELECT x.started_ns FROM exchanges AS x WHERE {same_exchange('x', 'i')})"
CALLS = f"""FROM {TABLES["items"]} AS i
{SESSION("i")}
WHERE i.kind = 'tool_call' AND {counts_once("i")}"""
IS_TURNS = "coalesce(p.purpose, 'turn') = 'turn'"
"""True for an exchange of a person's turn: not of a sub-agent, and none that the client makes on
its own.
"""
GENERATES = """CASE WHEN coalesce(p.purpose, 'turn') IN ('probe', 'prewarm')
        OR (p.http_status = 101 AND x.method <> 'WEBSOCKET') THEN 0 ELSE 1 END"""
"""1 for an exchange that asks for an answer: not a probe, not a prewarm, and not the connection
that turns are on.
"""
ENDED = "max(x.started_ns + coalesce(t.duration_ns, 0))"
FOLDED = f"FROM exchanges AS x JOIN {TABLES['exchanges']} AS p ON {same_exchange('p', 'x')}"


_BESIDES = {
    name: f"LEFT JOIN {TABLES[name]} AS {alias} ON {same_exchange(alias, 'x')}"
    for name, alias in (("exchanges", "p"), ("usage", "u"), ("timing", "t"))
}
SESSIONS_GROUPED = f"""FROM sessions AS s
LEFT JOIN exchanges AS x ON x.session_id = s.session_id
{chr(10).join(_BESIDES.values())}
GROUP BY s.session_id, s.name, s.created_ns, s.origin, s.source"""


def of_session(value: str, *besides: str) -> Either:
    """Return an aggregate over the exchanges of a session and what some projections have besides.

    It is a query of its own: of the sessions with the most tokens, only those shown are looked at
    for the rest. DuckDB reads columns, and has all aggregates from one pass (`SESSIONS_GROUPED`).
    """
    joins = "".join(f" {_BESIDES[name]}" for name in besides)
    own = f"(SELECT {value} FROM exchanges AS x{joins} WHERE x.session_id = s.session_id)"
    return Either(own, own, value)


def tokens_of_session(name: str) -> Either:
    """Return the sum of a session's tokens."""
    source = f"FROM {TABLES['usage']} AS u WHERE u.session_id = s.session_id AND {counts_once('u')}"
    sums = total(f"u.{name}")
    of_session = [f"(SELECT {each} {source})" for each in (sums.sqlite, sums.postgresql)]
    return Either(
        of_session[0], of_session[1], f"sum(CASE WHEN {NOT_SUPERSEDED} THEN u.{name} END)"
    )


# Of days since 1970 the date, by arithmetic: SQLite and DuckDB have no function for it in common.
# Years begin in March, so that a leap day is the last one; 146,097 days are 400 years.
_IN_ERA = "SELECT *, (days + 719468) % 146097 AS in_era\nFROM {0}".format
_YEARS = f"in_era - {whole('in_era', 1460)} + {whole('in_era', 36524)} - {whole('in_era', 146096)}"
_IN_YEAR = f"in_era - 365 * year_of_era - {whole('year_of_era', 4)} + {whole('year_of_era', 100)}"


def dated(table: str) -> str:
    """Return a table that has `days`, with `date` besides, as YYYYMMDD.

    Its rows are distinct. To say so keeps SQLite from putting each expression in place of its name
    in the next one.
    """
    years = f"SELECT DISTINCT *, {whole(_YEARS, 365)} AS year_of_era\nFROM ({_IN_ERA(table)}) AS a"
    in_year = f"SELECT DISTINCT *, {_IN_YEAR} AS in_year\nFROM ({years}) AS b"
    months = f"SELECT *, {whole('5 * in_year + 2', 153)} AS months\nFROM ({in_year}) AS c"
    year = f"year_of_era + 400 * {whole('(days + 719468)', 146097)} + CASE WHEN months < 10 THEN 0 ELSE 1 END"
    month = "months + CASE WHEN months < 10 THEN 3 ELSE -9 END"
    day = f"in_year - {whole('153 * months + 2', 5)} + 1"
    date = f"100000000 + 10000 * ({year})\n    + 100 * ({month}) + {day}"
    return f"SELECT *, CAST({date} AS TEXT) AS date\nFROM ({months}) AS d"


DATE = Either(
    "substr(date, 2, 4) || '-' || substr(date, 6, 2) || '-' || substr(date, 8)",
    "to_char(to_timestamp(days * 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
)
"""The day of a row as a text: of `date`, as `dated` makes it, or on a server of `days`."""

DAILY_KEYS: Mapping[str, Expression] = {
    "days": Either(DAY, "started_ns / 86400000000000"),
    **{name: name for name in ("model", "client", "outcome")},
}
"""The columns of `DAILY` besides its sums, in the order of an index, so that a file need not sort.
"""


def _parts(name: str) -> dict[str, str]:
    """Return the two sums that a share is of, over the rows that have both."""
    both = " AND ".join(f"{column} IS NOT NULL" for column in SHARES[name])
    sums = (f"sum(CASE WHEN {both} THEN {column} END)" for column in SHARES[name])
    return dict(zip((f"{name}_part", f"{name}_whole"), sums, strict=True))


DAILY_SUMS = {
    "exchanges": "count(*)",
    "reported": "count(CASE WHEN reported = 1 THEN 1 END)",
    **{name: f"sum({name})" for name in TOKENS.split()},
    **{column: value for name in SHARES for column, value in _parts(name).items()},
}


def _daily(engine: str) -> str:
    """Return the sums of the rows of `COUNTED`, of each day, model, client and outcome."""
    keys = {name: written(key, engine) for name, key in DAILY_KEYS.items()}
    columns = ",\n    ".join(f"{value} AS {name}" for name, value in {**keys, **DAILY_SUMS}.items())
    return f"(SELECT {columns}\nFROM {written(COUNTED, engine)}\nGROUP BY {', '.join(keys.values())}) AS daily"


DAILY = Either(_daily("sqlite"), _daily("postgresql"))
_SUMS_OF_DAYS = {
    engine: ",\n    ".join(
        f"{written(each, engine)} AS {name}" for name, each in USAGE_SUMS.items()
    )
    for engine in ("sqlite", "postgresql", "duckdb")
}
BY_DAY = Either(
    dated(f"(SELECT days,\n    {_SUMS_OF_DAYS['sqlite']}\nFROM {DAILY.sqlite} GROUP BY days) AS u"),
    f"(SELECT days,\n    {_SUMS_OF_DAYS['postgresql']}\nFROM {DAILY.postgresql} GROUP BY days) AS u",
    dated(f"(SELECT {DAY} AS days,\n    {_SUMS_OF_DAYS['duckdb']}\nFROM usage GROUP BY 1) AS u"),
)
"""The sums of each day, of which a file has the date besides: worked out once for a day, not for
every exchange.
"""

_REQUEST_OF_RESPONSE = f"""CASE WHEN p.is_retrieval = 0 THEN p.exchange_id ELSE (SELECT o.exchange_id
        FROM {TABLES["exchanges"]} AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND o.is_retrieval = 0 ORDER BY o.exchange_id LIMIT 1) END"""
"""The exchange that requested a response: of one that was retrieved later, another."""

REQUESTED = f"""
SELECT a.session_id AS session_id,
    a.exchange_id AS exchange_id,
    q.reasoning_effort AS effort,
    coalesce(t.response_service_tier, q.response_service_tier, q.service_tier) AS tier,
    q.tools AS tools
FROM (SELECT p.session_id AS session_id, p.exchange_id AS exchange_id, {_REQUEST_OF_RESPONSE} AS request_id
    FROM {TABLES["exchanges"]} AS p) AS a
LEFT JOIN {TABLES["parameters"]} AS q ON q.session_id = a.session_id AND q.exchange_id = a.request_id
LEFT JOIN {TABLES["parameters"]} AS t ON {same_exchange("t", "a")}
""".strip()
"""The parameters by which tokens are summed, of every exchange; a retrieved response has those of
its request.
"""
