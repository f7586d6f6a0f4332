"""Expressions and joins that several views share."""

from __future__ import annotations

from recorder.model.facts import Usage, UsageDetails
from recorder.projections import TABLES
from recorder.projections.exchanges import completeness_sql, same_response_sql
from recorder.projections.usage import SHARES
from recorder.projections.views.view import Either, Expression, written


def of(table: str, columns: str) -> dict[str, str]:
    return {name: f"{table}.{name}" for name in columns.split()}


def ids(table: str) -> dict[str, str]:
    return {"session_id": f"{table}.session_id", "session_name": "s.name", "exchange_id": f"{table}.exchange_id"}


def same_exchange(one: str, other: str) -> str:
    return f"{one}.session_id = {other}.session_id AND {one}.exchange_id = {other}.exchange_id"


# Tables: s sessions, x exchanges, e events, and of the projections p exchanges, i items, u usage, t timing.
SESSION = "JOIN sessions AS s ON s.session_id = {0}.session_id".format


_RANKS = [f"({', '.join(completeness_sql(table))})" for table in ("o", "p")]
BETTER = f"""FROM {TABLES["exchanges"]} AS o WHERE {same_response_sql("o", "p")} AND {_RANKS[0]} > {_RANKS[1]}"""
NOT_SUPERSEDED = f"NOT EXISTS (SELECT 1 {BETTER})"
_BEST_FIRST = ", ".join(f"{each} DESC" for each in completeness_sql("o"))
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
    """Return the sum of a column as a bigint: PostgreSQL sums to numbers of any length, which programs read as
    decimals.
    """
    return Either(f"sum({value})", f"CAST(sum({value}) AS BIGINT)")


SUMS: dict[str, Expression] = {name: total(name) for name in TOKENS.split()}


def share(part: str, whole: str) -> str:
    both = f"FILTER (WHERE {part} IS NOT NULL AND {whole} IS NOT NULL)"
    return f"CAST(sum({part}) {both} AS DOUBLE PRECISION) / nullif(sum({whole}) {both}, 0)"


USAGE_SUMS: dict[str, Expression] = {
    "exchanges": "count(*)",
    "reported": "count(usage_raw)",
    **SUMS,
    **{name: share(*columns) for name, columns in SHARES.items()},
}


def count_of(kind: str) -> str:
    return f"(SELECT count(*) FROM {TABLES['items']} AS i WHERE {same_exchange('i', 'x')} AND i.kind = '{kind}')"


def listed(value: str, source: str) -> Either:
    """Return the values of a session, each once, in order of their first exchange."""
    values = f"""(SELECT {value} AS value {source}
        WHERE x.session_id = s.session_id AND {value} IS NOT NULL
        GROUP BY {value} ORDER BY min(x.started_ns), {value})"""
    return Either(
        f"(SELECT group_concat(value, ', ') FROM {values})", f"(SELECT string_agg(value, ', ') FROM {values} AS listed)"
    )


# Of a response that is retrieved later, its results may have come before that.
FIRST_STARTED = f"""coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN {TABLES["exchanges"]} AS q
        ON {same_exchange("q", "f")} WHERE q.session_id = p.session_id AND q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)"""


def first_result(of_thread: bool) -> str:
    """Return the first of the results of a call that come after it, from any thread or from its own."""
    source = f" JOIN exchanges AS y ON {same_exchange('y', 'n')}" if of_thread else ""
    condition = "\n        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')" if of_thread else ""
    return f"""(SELECT n.digest FROM {TABLES["results"]} AS n{source} WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > {FIRST_STARTED}{condition}
        ORDER BY n.started_ns, n.digest LIMIT 1)"""


# Of a call that has no output of its own. An agent that begins with the history of another one sends the same call,
# with the result that it was aborted: what the call's own thread sends stands.
RESULT_DIGEST = f"CASE WHEN i.output IS NULL THEN coalesce({first_result(True)},\n        {first_result(False)}) END"
IS_TURNS = "coalesce(p.purpose, 'turn') = 'turn'"
"""True for an exchange of a person's turn: not of a sub-agent, and none that the client makes on its own."""
ENDED = "max(x.started_ns + coalesce(t.duration_ns, 0))"
FOLDED = f"FROM exchanges AS x JOIN {TABLES['exchanges']} AS p ON {same_exchange('p', 'x')}"


def whole(value: str, by: int) -> str:
    """Return a number that is not negative divided, without the rest: a `/` of DuckDB keeps it."""
    return f"CAST(({value} - ({value}) % {by}) / {by} AS BIGINT)"


DAY = whole("started_ns", 86_400_000_000_000)
"""Days since 1970 (UTC)."""

# Of days since 1970 the date, by arithmetic: SQLite and DuckDB have no function for it in common.
# Years begin in March, so that a leap day is the last one; 146,097 days are 400 years.
_IN_ERA = "SELECT *, (days + 719468) % 146097 AS in_era\nFROM {0}".format
_YEARS = f"in_era - {whole('in_era', 1460)} + {whole('in_era', 36524)} - {whole('in_era', 146096)}"
_IN_YEAR = f"in_era - 365 * year_of_era - {whole('year_of_era', 4)} + {whole('year_of_era', 100)}"


def dated(table: str) -> str:
    """Return a table that has `days`, with `date` besides, as YYYYMMDD."""
    years = f"SELECT *, {whole(_YEARS, 365)} AS year_of_era\nFROM ({_IN_ERA(table)}) AS a"
    in_year = f"SELECT *, {_IN_YEAR} AS in_year\nFROM ({years}) AS b"
    months = f"SELECT *, {whole('5 * in_year + 2', 153)} AS months\nFROM ({in_year}) AS c"
    year = f"year_of_era + 400 * {whole('(days + 719468)', 146097)} + CASE WHEN months < 10 THEN 0 ELSE 1 END"
    month = "months + CASE WHEN months < 10 THEN 3 ELSE -9 END"
    day = f"in_year - {whole('153 * months + 2', 5)} + 1"
    date = f"100000000 + 10000 * ({year})\n    + 100 * ({month}) + {day}"
    return f"SELECT *, CAST({date} AS TEXT) AS date\nFROM ({months}) AS d"


_SUMS_OF_DAYS = ",\n    ".join(f"{written(each, 'sqlite')} AS {name}" for name, each in USAGE_SUMS.items())
BY_DAY = dated(f"(SELECT {DAY} AS days,\n    {_SUMS_OF_DAYS}\nFROM usage GROUP BY 1) AS u")
"""The sums of each day, with its date: worked out once for a day, not for every exchange."""
