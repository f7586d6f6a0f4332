"""The views of requests: what was asked for, and what answers cost by that."""

from __future__ import annotations

from recorder.projections import TABLES
from recorder.projections.parameters import ParametersRow
from recorder.projections.views.parts import FOLDED, MODEL, SESSION, SUMS, ids, of, same_exchange, share
from recorder.projections.views.view import View

_OF_EXCHANGE = ("session_id", "exchange_id")
_PARAMETERS = " ".join(name for name in ParametersRow.__struct_fields__ if name not in _OF_EXCHANGE)

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
"""The parameters by which tokens are summed, of every exchange; a retrieved response has those of its request."""

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
