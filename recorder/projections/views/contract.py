"""The SQL views: recordings as tables for users. Their names and columns are a contract;
`docs/sql.md` is its text.

Must not know: the database. It has texts of SQL only.

Rules of this file:

* Data only: for each view the meaning of a row, the sources of its columns, and a query that shows
  its use.
* The meaning of a column is in `recorder.projections.views.columns`.
* The table of a projection changes with its version; a view keeps its name and its columns.
* A column is added at the end of its view: a server replaces a view where it stands, and takes new
  columns only there.
* A log has the views of the recorder that made or upgraded it. A released view changes with a
  revision that calls `recreate`, and has none of its text.
* A response may be retrieved again, as a whole or from where a stream was cut. Of the exchanges
  with one response the one that has most of it supersedes the others
  (`recorder.projections.exchanges`): items, tokens and all sums leave them out, or they would count
  twice.
* SQLite and DuckDB have the same text where that is possible: DuckDB reads a file with our views as
  its own. So there is no subquery in the condition of a `LEFT JOIN`, no division with a remainder,
  no function that only one of them has.
* A percentile is the smallest value that at least so many percent of the values do not exceed
  (nearest rank): it is a value that was measured, and SQLite has no function for percentiles. Ranks
  are of rows that have the value, by a window for each measure.
"""

from __future__ import annotations

from recorder.projections.rows import AVOIDABLE, DAY, TABLES
from recorder.projections.views.cost import COSTS
from recorder.projections.views.parts import (
    BY_DAY,
    CALL_STARTED,
    CALLS,
    DAILY,
    DATE,
    ENDED,
    FOLDED,
    GENERATES,
    IS_TURNS,
    ITEMS,
    MODEL,
    NOT_SUPERSEDED,
    RESULT_DIGEST,
    SESSION,
    SESSIONS_GROUPED,
    SUPERSEDED_BY,
    TOKENS,
    USAGE_DETAILS,
    USAGE_SUMS,
    Either,
    View,
    count_of,
    counts_once,
    dated,
    ids,
    listed,
    of,
    of_session,
    same_exchange,
    tokens_of_session,
    written,
)
from recorder.projections.views.requests import REASONING_BY_EFFORT, REQUESTS, RETRIES

MEASURES = {"ttft": "ttft_ns", "duration": "duration_ns", "silence": "longest_silence_ns"}
"""The columns of the view `latency`, by how those of their percentiles begin."""
PERCENTS = (50, 90, 99)


def nearest_rank(percent: int, value: str, rank: str, count: str) -> str:
    """Return the aggregate that is a percentile, of rows with a value, its rank and the count of
    values.
    """
    return f"min(CASE WHEN {rank} * 100 >= {count} * {percent} THEN {value} END)"


PERCENTILES = {
    f"{name}_p{percent}_ns": nearest_rank(percent, column, f"{name}_rank", f"{name}_count")
    for name, column in MEASURES.items()
    for percent in PERCENTS
}
COUNTS = {"exchanges": "count(*)", "measured": "count(ttft_ns)"}


def _ranked(key: str, value: str) -> str:
    """Return the answers among the rows of `latency`, with their ranks and the counts of values,
    among those of one origin and key.
    """
    group = f"origin, {key}"
    windows = ",\n        ".join(
        f"count({column}) OVER (PARTITION BY {group}) AS {name}_count,\n        "
        f"row_number() OVER (PARTITION BY {group}, CASE WHEN {column} IS NULL THEN 1 ELSE 0 END ORDER BY {column}) "
        f"AS {name}_rank"
        for name, column in MEASURES.items()
    )
    measures = ", ".join(MEASURES.values())
    values = f"(SELECT origin, {value}, {measures} FROM latency WHERE generates = 1) AS l"
    return f"(SELECT {group}, {measures},\n        {windows}\n    FROM {values})"


_SUMS = ",\n    ".join(f"{each} AS {name}" for name, each in {**COUNTS, **PERCENTILES}.items())


def _of_days(day: str) -> str:
    """Return the percentiles of each day since 1970 (UTC)."""
    return (
        f"(SELECT origin, days,\n    {_SUMS}\nFROM {_ranked('days', f'{day} AS days')} AS r "
        f"GROUP BY origin, days) AS u"
    )


LATENCY = (
    View(
        "latency_by_model",
        "The percentiles of the times of a model, of recordings of one origin.",
        {"model": "model", "origin": "origin", **COUNTS, **PERCENTILES},
        f"FROM {_ranked('model', 'model')} AS r GROUP BY origin, model",
        """SELECT model, exchanges, ttft_p50_ns / 1e9 AS median_s, ttft_p99_ns / 1e9 AS slow_s
FROM latency_by_model WHERE origin = 'live' ORDER BY ttft_p99_ns DESC;""",
    ),
    View(
        "latency_by_day",
        "The percentiles of the times of a day, of recordings of one origin.",
        {
            "day": DATE,
            "origin": "origin",
            **{name: name for name in (*COUNTS, *PERCENTILES)},
        },
        Either(
            f"FROM ({dated(_of_days(DAY))}) AS dates",
            f"FROM {_of_days('started_ns / 86400000000000')}",
        ),
        """SELECT day, exchanges, ttft_p50_ns / 1e9 AS ttft_s, silence_p99_ns / 1e9 AS silence_s
FROM latency_by_day WHERE origin = 'live' ORDER BY day;""",
    ),
)


__all__ = ["VIEWS", "View", "written"]

# By the index, event by event; DuckDB has no index, and would compare each event with all of its
# exchange.
_GAP = f"""e.t_ns - (SELECT earlier.t_ns FROM events AS earlier WHERE {same_exchange("earlier", "e")}
        AND earlier.pos < e.pos AND earlier.kind = 'frame' ORDER BY earlier.pos DESC LIMIT 1)"""

_ASKED_FIRST = f"""(SELECT p.user_text {FOLDED} WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN {IS_TURNS} THEN 0 ELSE 1 END, x.started_ns, x.exchange_id
        LIMIT 1)"""
# For a recording without requests, such as an imported stream. It is cut before it is made one
# line: a text is long.
_ANSWERED_FIRST = f"""(SELECT trim(replace(substr(i.text, 1, 200), '\n', ' ')) FROM {TABLES["items"]} AS i
        WHERE i.session_id = s.session_id AND i.kind = 'message' AND i.text <> ''
        ORDER BY i.exchange_id, i.item LIMIT 1)"""
_CLASSES = ", ".join(f"'{each}'" for each in AVOIDABLE)

VIEWS = (
    View(
        "messages",
        "A message of a model.",
        {
            **ids("i"),
            **of(
                "i",
                "item output_index item_id role phase status text refusal annotations logprobs began_ns ended_ns"
                " thread_id",
            ),
        },
        f"{ITEMS} WHERE i.kind = 'message' AND {NOT_SUPERSEDED}",
        "SELECT session_name, role, text FROM messages WHERE text LIKE '%dice%' ORDER BY exchange_id, item;",
    ),
    View(
        "reasoning",
        "A piece of a model's reasoning: its summary, its raw text, or only that there was some.",
        {
            **ids("i"),
            **of(
                "i",
                "item output_index item_id status summary summary_text text encrypted began_ns ended_ns thread_id",
            ),
        },
        f"{ITEMS} WHERE i.kind = 'reasoning' AND {NOT_SUPERSEDED}",
        """SELECT session_name, encrypted, (ended_ns - began_ns) / 1e9 AS took_s, coalesce(text, summary_text)
FROM reasoning ORDER BY took_s DESC LIMIT 10;""",
    ),
    View(
        "tool_calls",
        "A call of a tool, with its result: of the provider's own tool, or of the client's tool in a later request.",
        {
            **ids("i"),
            "session_name": "i.session_name",
            **of(
                "i", "item output_index item_id type name call_id arguments arguments_json status"
            ),
            "output": "coalesce(i.output, r.output)",
            "failed": "coalesce(i.failed, r.failed)",
            "output_exchange_id": "r.exchange_id",
            "latency_ns": f"""CASE WHEN i.output IS NOT NULL THEN i.ended_ns - i.began_ns
        WHEN r.started_ns IS NULL THEN NULL
        WHEN r.started_ns >= {CALL_STARTED} + i.ended_ns THEN r.started_ns - ({CALL_STARTED} + i.ended_ns) END""",
            **of("i", "began_ns ended_ns thread_id"),
        },
        f"""FROM (SELECT i.*, s.name AS session_name,
    {RESULT_DIGEST} AS told
{CALLS}) AS i
LEFT JOIN {TABLES["results"]} AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told""",
        Either(
            """SELECT name, json_extract(arguments_json, '$.command') AS command, output, latency_ns / 1e9 AS took_s
FROM tool_calls WHERE failed = 1 OR latency_ns > 1e9;""",
            """SELECT name, CAST(arguments_json AS json) ->> 'command' AS command, output, latency_ns / 1e9 AS took_s
FROM tool_calls WHERE failed = 1 OR latency_ns > 1e9;""",
        ),
    ),
    View(
        "tool_phases",
        "A step of a tool of the provider, as the stream reports it: in progress, searching, generating, completed, …",
        {
            **ids("h"),
            **of("h", "step output_index item_id type phase detail began_ns ended_ns"),
            "duration_ns": "h.ended_ns - h.began_ns",
        },
        f"""FROM {TABLES["phases"]} AS h
JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "h")}
{SESSION("h")}
WHERE {NOT_SUPERSEDED}""",
        """SELECT type, phase, count(*) AS times, avg(duration_ns) / 1e9 AS took_s
FROM tool_phases WHERE ended_ns IS NOT NULL GROUP BY type, phase;""",
    ),
    View(
        "other_items",
        "Another item of a response than a message, reasoning or tool call: tools of a server, a request for approval.",
        {
            **ids("i"),
            **of(
                "i",
                "item output_index item_id type name call_id status text arguments arguments_json",
            ),
            **of("i", "output failed began_ns ended_ns thread_id"),
        },
        f"{ITEMS} WHERE i.kind = 'other' AND {NOT_SUPERSEDED}",
        "SELECT session_name, name, arguments, output FROM other_items WHERE type = 'mcp_approval_request';",
    ),
    View(
        "usage",
        "The tokens of an exchange that requested a generation, or reported tokens.",
        {
            **ids("x"),
            **of("x", "started_ns provider api client"),
            **of("p", "request_model response_model"),
            "model": MODEL,
            **of("u", f"{TOKENS} usage_raw partial {USAGE_DETAILS}"),
            **of("u", "billed_input_tokens billed_output_tokens"),
            **of("p", "owner team tags"),
        },
        f"""{FOLDED}
JOIN {TABLES["usage"]} AS u ON {same_exchange("u", "x")}
{SESSION("x")}
WHERE coalesce(p.request_model, p.response_model, u.usage_raw) IS NOT NULL
    AND coalesce(u.model, CASE WHEN u.reported = 0 THEN NULL ELSE '' END) IS NOT NULL AND {NOT_SUPERSEDED}""",
        """SELECT client, count(*) AS exchanges, sum(total_tokens) AS tokens
FROM usage WHERE session_name = :session GROUP BY client;""",
    ),
    View(
        "exchange_summary",
        "An exchange; open and failed ones are included.",
        {
            **ids("x"),
            **of(
                "x",
                "started_ns provider api method target client client_version thread_id turn_id attempt",
            ),
            **of(
                "p", "owner team tags purpose parent_thread_id stream request_model response_model"
            ),
            "model": MODEL,
            **of("p", "response_id status http_status finish_reason"),
            **of("p", "error_type error_code error_param error user_text is_turn"),
            "superseded_by": SUPERSEDED_BY,
            "lossless": "p.lossless",
            "messages": count_of("message"),
            "reasoning": count_of("reasoning"),
            "tool_calls": count_of("tool_call"),
            "anomalies": f"(SELECT count(*) FROM {TABLES['anomalies']} AS a WHERE {same_exchange('a', 'x')})",
            **of("u", f"{TOKENS} partial"),
            **of("t", "ttft_ns duration_ns"),
            "content": "p.content",
        },
        f"""FROM exchanges AS x
{SESSION("x")}
LEFT JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "x")}
LEFT JOIN {TABLES["usage"]} AS u ON {same_exchange("u", "x")}
LEFT JOIN {TABLES["timing"]} AS t ON {same_exchange("t", "x")}""",
        """SELECT session_name, model, status, error, user_text, duration_ns / 1e9 AS took_s
FROM exchange_summary WHERE status NOT IN ('completed', 'incomplete') OR error IS NOT NULL;""",
    ),
    REQUESTS,
    View(
        "session_summary",
        "A session, with sums over its exchanges.",
        {
            "session_id": "s.session_id",
            "session_name": "s.name",
            **of("s", "created_ns origin source"),
            "title": f"coalesce({_ASKED_FIRST}, {_ANSWERED_FIRST})",
            "started_ns": of_session("min(x.started_ns)"),
            "ended_ns": of_session(ENDED, "timing"),
            "duration_ns": of_session(f"{ENDED} - min(x.started_ns)", "timing"),
            "exchanges": of_session("count(x.exchange_id)"),
            "turns": of_session(
                f"count(DISTINCT CASE WHEN {IS_TURNS} THEN x.turn_id END) + count(CASE WHEN x.turn_id IS NULL "
                f"AND p.is_turn = 1 AND {IS_TURNS} AND coalesce(x.attempt, 0) = 0 THEN 1 END)",
                "exchanges",
            ),
            "threads": of_session("count(DISTINCT x.thread_id)"),
            "models": listed(MODEL, FOLDED),
            "tools": listed(
                "i.name",
                f"FROM {TABLES['items']} AS i JOIN exchanges AS x ON {same_exchange('x', 'i')}",
            ),
            "tool_calls": f"""(SELECT count(*) FROM {TABLES["items"]} AS i WHERE i.session_id = s.session_id
        AND i.kind = 'tool_call' AND {counts_once("i")})""",
            "clients": listed("x.client", "FROM exchanges AS x"),
            "errors": of_session(
                "count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) "
                f"AND (p.status <> 'client_disconnect' OR p.status IS NULL OR {IS_TURNS}) THEN 1 END)",
                "exchanges",
            ),
            **{name: tokens_of_session(name) for name in TOKENS.split()},
            "answers": of_session(
                f"count(CASE WHEN {GENERATES} = 1 THEN p.exchange_id END)", "exchanges"
            ),
        },
        Either("FROM sessions AS s", "FROM sessions AS s", SESSIONS_GROUPED),
        """SELECT session_name, title, turns, tools, total_tokens, duration_ns / 1e9 AS took_s
FROM session_summary ORDER BY total_tokens DESC LIMIT 10;""",
    ),
    View(
        "usage_by_day",
        "The tokens of a day.",
        {
            "day": DATE,
            **{name: name for name in USAGE_SUMS},
        },
        Either(
            f"FROM ({BY_DAY.sqlite}) AS dates",
            f"FROM {BY_DAY.postgresql}",
            f"FROM ({BY_DAY.duckdb}) AS dates",
        ),
        "SELECT day, input_tokens, output_tokens, reasoning_share FROM usage_by_day ORDER BY day;",
    ),
    View(
        "usage_by_model",
        "The tokens of a model.",
        {"model": "model", **USAGE_SUMS},
        Either(
            f"FROM {DAILY.sqlite} GROUP BY model",
            f"FROM {DAILY.postgresql} GROUP BY model",
            "FROM usage GROUP BY model",
        ),
        "SELECT model, exchanges, total_tokens, round(100 * cached_share) AS cached_percent FROM usage_by_model;",
    ),
    REASONING_BY_EFFORT,
    COSTS,
    RETRIES,
    View(
        "latency",
        "The times of an exchange since it began, and how evenly it was served.",
        {
            **ids("t"),
            "origin": "s.origin",
            **of("x", "started_ns provider api"),
            "model": MODEL,
            **of(
                "t",
                "head_ns first_byte_ns first_event_ns first_reasoning_ns first_text_ns first_arguments_ns",
            ),
            **of("t", "ttft_ns last_event_ns duration_ns longest_silence_ns stalls events bytes"),
            **of("t", "events_per_s bytes_per_s gap_p50_ns gap_p95_ns gap_p99_ns"),
            "generates": GENERATES,
        },
        f"""{FOLDED}
JOIN {TABLES["timing"]} AS t ON {same_exchange("t", "x")}
{SESSION("x")}""",
        """SELECT model, count(*) AS exchanges, avg(ttft_ns) / 1e9 AS ttft_s, max(longest_silence_ns) / 1e9 AS silence_s
FROM latency WHERE origin = 'live' AND ttft_ns IS NOT NULL GROUP BY model;""",
    ),
    *LATENCY,
    View(
        "event_gaps",
        "An SSE event, or a message over WebSocket, and the silence before it, for all exchanges, open ones included.",
        {
            **ids("e"),
            **of("e", "pos type t_ns"),
            "gap_ns": Either(
                _GAP,
                _GAP,
                "e.t_ns - lag(e.t_ns) OVER (PARTITION BY e.session_id, e.exchange_id ORDER BY e.pos)",
            ),
        },
        f"FROM events AS e {SESSION('e')} WHERE e.kind = 'frame'",
        "SELECT session_name, pos, type, gap_ns / 1e9 AS gap_s FROM event_gaps ORDER BY gap_ns DESC LIMIT 10;",
    ),
    View(
        "tool_stats",
        "A tool: the number of its calls, of results and of errors, and its latency.",
        {
            "name": "name",
            "type": "type",
            "calls": "count(*)",
            "answered": "count(output)",
            "failed": "count(CASE WHEN failed = 1 THEN 1 END)",
            "sessions": "count(DISTINCT session_id)",
            "exchanges": "count(DISTINCT exchange_id)",
            "latency_avg_ns": "CAST(round(avg(latency_ns)) AS BIGINT)",
            "latency_max_ns": "max(latency_ns)",
            "arguments_bytes": Either(
                "CAST(sum(length(hex(arguments))) / 2 AS BIGINT)",
                "CAST(sum(octet_length(arguments)) AS BIGINT)",
            ),
        },
        "FROM tool_calls GROUP BY name, type",
        "SELECT name, calls, failed, latency_avg_ns / 1e9 AS took_s FROM tool_stats ORDER BY calls DESC;",
    ),
    View(
        "anomalies",
        "A fault of a stream: content that contradicts itself, is missing, or is not understood.",
        {**ids("a"), **of("a", "anomaly kind pos count detail")},
        f"FROM {TABLES['anomalies']} AS a {SESSION('a')}",
        "SELECT kind, detail, sum(count) AS times FROM anomalies GROUP BY kind, detail ORDER BY times DESC;",
    ),
    View(
        "event_payloads",
        "The JSON payload of an event as text.",
        {
            **ids("e"),
            **of("e", "pos type"),
            "payload": Either(
                "CAST(substr(e.raw, e.data_start + 1, e.data_length) AS TEXT)",
                "recorder_text(substr(e.raw, CAST(e.data_start + 1 AS INTEGER), CAST(e.data_length AS INTEGER)))",
                "try(decode(array_slice(e.raw, e.data_start + 1, e.data_start + e.data_length)))",
            ),
        },
        "FROM events AS e LEFT JOIN sessions AS s ON s.session_id = e.session_id WHERE e.data_start IS NOT NULL",
        """SELECT type, count(*) AS events, avg(length(payload)) AS length
FROM event_payloads GROUP BY type ORDER BY events DESC;""",
    ),
    View(
        "cache_misses",
        "A request for which the provider's prompt cache had less than it could have had, and why.",
        {
            **ids("c"),
            **of("c", "started_ns provider api"),
            "model": "c.model",
            "class": "c.cache_class",
            "is_avoidable": f"CASE WHEN c.cache_class IN ({_CLASSES}) THEN 1 ELSE 0 END",
            "input_tokens": "c.input_tokens",
            "could_tokens": "c.could_tokens",
            "cached_tokens": "c.cached_tokens",
            "missed_tokens": "c.missed_tokens",
            "is_estimate": "c.is_estimate",
            "since_use_ns": "c.since_use_ns",
            "path": "c.path",
            "previous_exchange_id": "c.previous_exchange_id",
            "common_bytes": "c.common_bytes",
            "prompt_bytes": "c.prompt_bytes",
        },
        f"""FROM {TABLES["prompts"]} AS c
{SESSION("c")}
WHERE c.cache_class IS NOT NULL AND c.cache_class <> 'hit' AND c.cache_class <> 'first'""",
        """SELECT class, path, count(*) AS times, sum(missed_tokens) AS missed
FROM cache_misses GROUP BY class, path ORDER BY missed DESC;""",
    ),
)
