"""The views of requests: what was asked for, what answers cost by that, and what was sent again."""

from __future__ import annotations

from recorder.projections.rows import TABLES, ParametersRow
from recorder.projections.views.parts import (
    FOLDED,
    MODEL,
    REQUESTED,
    SESSION,
    SUMS,
    TOKENS,
    View,
    ids,
    of,
    same_exchange,
    share,
)

_OF_EXCHANGE = ("session_id", "exchange_id")
_PARAMETERS = " ".join(name for name in ParametersRow.__struct_fields__ if name not in _OF_EXCHANGE)

REQUESTS = View(
    "requests",
    "A request for a generation: its parameters, what is in it, and the exchange that it continues. It may have only "
    "what is new since then.",
    {
        **ids("x"),
        **of("x", "started_ns api"),
        "model": MODEL,
        **of("r", "previous_response_id conversation_id previous_exchange_id depth is_complete"),
        **of("r", "input_items logical_items is_prewarm"),
        **of("p", "user_text is_turn request_model stream"),
        **of("q", _PARAMETERS),
    },
    f"""{FOLDED}
JOIN {TABLES["requests"]} AS r ON {same_exchange("r", "x")}
{SESSION("x")}
LEFT JOIN {TABLES["parameters"]} AS q ON {same_exchange("q", "x")}
WHERE p.is_retrieval = 0""",
    """SELECT session_name, reasoning_effort, max_output_tokens, tools, tool_names, new_user_text
FROM requests WHERE tools > 0 ORDER BY started_ns DESC LIMIT 10;""",
)

REASONING_BY_EFFORT = View(
    "reasoning_by_effort",
    "The reasoning of a model at one requested effort.",
    {
        "model": "u.model",
        "reasoning_effort": "e.effort",
        "exchanges": "count(*)",
        "reported": "count(u.usage_raw)",
        "output_tokens": SUMS["output_tokens"],
        "reasoning_output_tokens": SUMS["reasoning_output_tokens"],
        "reasoning_share": share("reasoning_output_tokens", "output_tokens"),
        "ttft_avg_ns": "CAST(round(avg(t.ttft_ns)) AS BIGINT)",
        "duration_avg_ns": "CAST(round(avg(t.duration_ns)) AS BIGINT)",
    },
    f"""FROM usage AS u
JOIN ({REQUESTED}) AS e ON {same_exchange("e", "u")}
LEFT JOIN {TABLES["timing"]} AS t ON {same_exchange("t", "u")}
GROUP BY u.model, e.effort""",
    """SELECT model, reasoning_effort, exchanges, reasoning_output_tokens, ttft_avg_ns / 1e9 AS ttft_s
FROM reasoning_by_effort ORDER BY model, reasoning_output_tokens DESC;""",
)

# -- retries

# Two exchanges of a session have the same logical request if the digests of their requests are equal. One is a retry of
# the last one before it with that request if that one failed, or if the client counts itself as a retry: it may have
# given up on an answer that was recorded as complete. A request that has no digest, because nothing is to be generated,
# is compared by its method and target, and only the client's count makes it a retry.
#
# Costs are joined to all exchanges, not to retries alone: for these SQLite makes no index, but a scan for each.

_FAILED = "p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL"

_REQUEST = "coalesce(q.request_digest, CASE WHEN x.attempt IS NOT NULL THEN x.method || ' ' || x.target END)"
_SENT = f"""SELECT x.session_id AS session_id, s.name AS session_name, x.exchange_id AS exchange_id,
            {_REQUEST} AS request, CASE WHEN x.attempt > 0 THEN 1 ELSE 0 END AS is_counted,
            CASE WHEN {_FAILED} THEN 1 ELSE 0 END AS has_failed, c.cost_picousd AS cost_picousd
        {FOLDED}
        {SESSION("x")}
        LEFT JOIN {TABLES["parameters"]} AS q ON {same_exchange("q", "x")}
        LEFT JOIN costs AS c ON {same_exchange("c", "x")}
        WHERE p.is_retrieval = 0"""

# By the name too, so that one session is found by it before there are windows.
_BY_REQUEST = "OVER (PARTITION BY session_id, session_name, request ORDER BY exchange_id)"
_BY_CHAIN = "OVER (PARTITION BY session_id, session_name, request, chain ORDER BY exchange_id)"
_AFTER = f"""SELECT a.*, lag(exchange_id) {_BY_REQUEST} AS retried_exchange_id,
        lag(cost_picousd) {_BY_REQUEST} AS wasted_picousd,
        CASE WHEN is_counted = 1 OR lag(has_failed) {_BY_REQUEST} = 1 THEN 1 ELSE 0 END AS is_after_failure
    FROM ({_SENT}) AS a WHERE request IS NOT NULL"""
_CHAINED = f"""SELECT b.*, sum(1 - CASE WHEN retried_exchange_id IS NULL THEN 0 ELSE is_after_failure END)
        {_BY_REQUEST} AS chain
    FROM ({_AFTER}) AS b"""
_NUMBERED = f"""SELECT c.*, first_value(exchange_id) {_BY_CHAIN} AS first_exchange_id,
        row_number() {_BY_CHAIN} AS attempt_number
    FROM ({_CHAINED}) AS c"""

RETRIES = View(
    "retries",
    "A request that was sent again after it failed, or that its client counts as a retry, with the attempt before it.",
    {
        **of("r", "session_id session_name exchange_id"),
        **of("x", "started_ns provider api client thread_id attempt"),
        **of("p", "purpose"),
        "model": MODEL,
        "status": "p.status",
        **of("r", "retried_exchange_id first_exchange_id attempt_number"),
        **{
            f"retried_{name}": f"e.{name}"
            for name in ("status", "http_status", "error_type", "error")
        },
        "waited_ns": "x.started_ns - (y.started_ns + t.duration_ns)",
        "wasted_ns": "t.duration_ns",
        **{f"wasted_{name}": f"u.{name}" for name in TOKENS.split()},
        "wasted_cost_picousd": "r.wasted_picousd",
        "wasted_cost_usd": "CAST(r.wasted_picousd AS DOUBLE PRECISION) / 1000000000000",
    },
    f"""FROM ({_NUMBERED}) AS r
JOIN exchanges AS x ON {same_exchange("x", "r")}
JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "r")}
JOIN exchanges AS y ON y.session_id = r.session_id AND y.exchange_id = r.retried_exchange_id
JOIN {TABLES["exchanges"]} AS e ON {same_exchange("e", "y")}
LEFT JOIN {TABLES["usage"]} AS u ON {same_exchange("u", "y")}
LEFT JOIN {TABLES["timing"]} AS t ON {same_exchange("t", "y")}
WHERE r.is_after_failure = 1""",
    """SELECT retried_status, retried_error_type, count(*) AS retries, sum(wasted_total_tokens) AS wasted_tokens
FROM retries GROUP BY 1, 2 ORDER BY retries DESC;""",
)
