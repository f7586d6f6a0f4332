"""The view of requests that were sent again after they failed, with what the failed attempts used.

Two exchanges of a session have the same logical request if the digests of their requests are equal
(`recorder.projections.parameters`). One is a retry of the last one before it with that request if that one failed, or
if the client counts itself as a retry: it may have given up on an answer that was recorded as complete. A request that
has no digest, because nothing is to be generated, is compared by its method and target, and only the client's count
makes it a retry.
"""

from __future__ import annotations

from recorder.projections import TABLES
from recorder.projections.views.parts import FOLDED, MODEL, SESSION, TOKENS, ids, of, same_exchange
from recorder.projections.views.view import View

FAILED = "p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL"

_REQUEST = "coalesce(q.request_digest, CASE WHEN x.attempt IS NOT NULL THEN x.method || ' ' || x.target END)"
_SENT = f"""SELECT x.session_id AS session_id, x.exchange_id AS exchange_id, {_REQUEST} AS request,
            CASE WHEN x.attempt > 0 THEN 1 ELSE 0 END AS is_counted, CASE WHEN {FAILED} THEN 1 ELSE 0 END AS has_failed
        {FOLDED}
        LEFT JOIN {TABLES["parameters"]} AS q ON {same_exchange("q", "x")}
        WHERE p.is_retrieval = 0"""

_BY_REQUEST = "OVER (PARTITION BY session_id, request ORDER BY exchange_id)"
_BY_CHAIN = "OVER (PARTITION BY session_id, request, chain ORDER BY exchange_id)"
_AFTER = f"""SELECT a.*, lag(exchange_id) {_BY_REQUEST} AS retried_exchange_id,
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
        **ids("x"),
        **of("x", "started_ns provider api client thread_id attempt"),
        **of("p", "purpose"),
        "model": MODEL,
        "status": "p.status",
        **of("r", "retried_exchange_id first_exchange_id attempt_number"),
        **{f"retried_{name}": f"e.{name}" for name in ("status", "http_status", "error_type", "error")},
        "waited_ns": "x.started_ns - (y.started_ns + t.duration_ns)",
        "wasted_ns": "t.duration_ns",
        **{f"wasted_{name}": f"u.{name}" for name in TOKENS.split()},
    },
    f"""FROM ({_NUMBERED}) AS r
JOIN exchanges AS x ON {same_exchange("x", "r")}
JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "r")}
JOIN exchanges AS y ON y.session_id = r.session_id AND y.exchange_id = r.retried_exchange_id
JOIN {TABLES["exchanges"]} AS e ON {same_exchange("e", "y")}
{SESSION("x")}
LEFT JOIN {TABLES["usage"]} AS u ON {same_exchange("u", "y")}
LEFT JOIN {TABLES["timing"]} AS t ON {same_exchange("t", "y")}
WHERE r.is_after_failure = 1""",
    """SELECT retried_status, retried_error_type, count(*) AS retries, sum(wasted_total_tokens) AS wasted_tokens
FROM retries GROUP BY 1, 2 ORDER BY retries DESC;""",
)
