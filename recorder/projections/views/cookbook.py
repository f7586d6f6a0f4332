"""The cook-book: questions, and the SQL on the views that answers them. The viewer and a page of
the docs show it.
"""

from __future__ import annotations

from typing import NamedTuple

from recorder.projections.views.parts import Either, Expression, written


class Question(NamedTuple):
    """A question with its SQL."""

    question: str
    sql: Expression
    differing: tuple[str, ...] = ()  # columns that each run of the demo gives other values

    def written(self, engine: str) -> str:
        return written(self.sql, engine)


COOKBOOK = (
    Question(
        "Which models used the most tokens, and how much of their input came from a cache?",
        """SELECT model, exchanges, input_tokens, output_tokens,
    CAST(round(100 * cached_share) AS BIGINT) AS cached_percent
FROM usage_by_model ORDER BY total_tokens DESC, model;""",
    ),
    Question(
        "How many tokens went into reasoning, by the effort that was requested?",
        """SELECT reasoning_effort, model, exchanges, reasoning_output_tokens,
    CAST(round(100 * reasoning_share) AS BIGINT) AS percent
FROM reasoning_by_effort ORDER BY reasoning_output_tokens DESC, model;""",
    ),
    Question(
        "How many tokens did each session use, and what was it about?",
        """SELECT title, turns, exchanges, tool_calls, total_tokens
FROM session_summary ORDER BY total_tokens DESC;""",
    ),
    Question(
        "What did each model cost, and which models have no price?",
        """SELECT model, count(*) AS exchanges, sum(cost_picousd) / 1e12 AS usd, min(no_price) AS no_price
FROM costs GROUP BY model ORDER BY model;""",
    ),
    Question(
        "Why did the prompt cache miss, and how many tokens could have come from it?",
        """SELECT class, path, count(*) AS times, sum(missed_tokens) AS missed
FROM cache_misses GROUP BY class, path ORDER BY missed DESC, class;""",
    ),
    Question(
        "Which prompts mention a word?",
        """SELECT api, model, new_user_text
FROM requests WHERE lower(new_user_text) LIKE '%weather%' ORDER BY exchange_id;""",
    ),
    Question(
        "Which answers mention a word?",
        """SELECT model, count(*) AS answers, max(length(text)) AS longest
FROM messages JOIN usage USING (session_id, exchange_id) WHERE lower(text) LIKE '%jacket%' GROUP BY model;""",
    ),
    Question(
        "Which tools fail most?",
        """SELECT name, calls, answered, failed FROM tool_stats ORDER BY failed DESC, calls DESC, name;""",
    ),
    Question(
        "With what was a tool called, and what did it return?",
        """SELECT arguments, output, count(*) AS calls
FROM tool_calls WHERE name = 'get_weather' GROUP BY arguments, output ORDER BY arguments;""",
    ),
    Question(
        "Which tools are offered to a model, and which of them are never called?",
        Either(
            """SELECT tool, requests, (SELECT count(*) FROM tool_calls WHERE name = tool) AS calls
FROM (SELECT t.value AS tool, count(*) AS requests FROM requests AS r, json_each(r.tool_names) AS t GROUP BY 1) AS o
ORDER BY calls, requests DESC, tool;""",
            """SELECT tool, requests, (SELECT count(*) FROM tool_calls WHERE name = tool) AS calls
FROM (SELECT t.value AS tool, count(*) AS requests
    FROM requests AS r, json_array_elements_text(CAST(r.tool_names AS json)) AS t (value) GROUP BY 1) AS o
ORDER BY calls, requests DESC, tool;""",
            """SELECT tool, requests, (SELECT count(*) FROM tool_calls WHERE name = tool) AS calls
FROM (SELECT tool, count(*) AS requests
    FROM (SELECT unnest(from_json(tool_names, '["VARCHAR"]')) AS tool FROM requests) GROUP BY 1) AS o
ORDER BY calls, requests DESC, tool;""",
        ),
    ),
    Question(
        "Which turns took the most requests?",
        """SELECT u.user_text, count(*) AS requests, sum(u.total_tokens) AS tokens
FROM exchange_summary AS u WHERE u.user_text IS NOT NULL GROUP BY u.user_text ORDER BY 2 DESC, 3 DESC, 1;""",
    ),
    Question(
        "How long does each model take to its first token, and to the end?",
        """SELECT model, measured, ttft_p50_ns / 1e9 AS median_s, ttft_p99_ns / 1e9 AS slow_s,
    duration_p50_ns / 1e9 AS took_s
FROM latency_by_model WHERE origin = 'live' AND measured > 0 ORDER BY model;""",
        ("median_s", "slow_s", "took_s"),
    ),
    Question(
        "In which exchanges was there the longest silence?",
        """SELECT session_name, exchange_id, model, longest_silence_ns / 1e9 AS silence_s
FROM latency WHERE longest_silence_ns IS NOT NULL ORDER BY longest_silence_ns DESC LIMIT 1;""",
        ("session_name", "exchange_id", "model", "silence_s"),
    ),
    Question(
        "How fast do models write?",
        """SELECT u.model, sum(u.output_tokens) AS tokens,
    sum(u.output_tokens) / (sum(l.duration_ns) / 1e9) AS tokens_per_s
FROM usage AS u JOIN latency AS l ON l.session_id = u.session_id AND l.exchange_id = u.exchange_id
WHERE u.output_tokens > 0 GROUP BY u.model ORDER BY u.model;""",
        ("tokens_per_s",),
    ),
    Question(
        "How do exchanges end?",
        """SELECT status, http_status, lower(finish_reason) AS finish_reason, count(*) AS exchanges
FROM exchange_summary WHERE model IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3;""",
    ),
    Question(
        "What was sent again after an error or an abort, and what did the failed attempts use and cost?",
        """SELECT retried_status, retried_error_type, count(*) AS retries, sum(wasted_total_tokens) AS wasted_tokens,
    sum(wasted_cost_picousd) / 1e12 AS wasted_usd
FROM retries GROUP BY 1, 2 ORDER BY retries DESC;""",
    ),
    Question(
        "How much of a conversation is sent again, and how much only referred to?",
        """SELECT depth, count(*) AS requests, sum(input_items) AS items_sent, sum(logical_items) AS items_in_all
FROM requests GROUP BY depth ORDER BY depth;""",
    ),
    Question(
        "How large are the system prompt and the tools of a request, and how often do they change?",
        """SELECT api, max(system_bytes) AS system_bytes, count(DISTINCT system_digest) AS systems,
    max(tools_bytes) AS tools_bytes, count(DISTINCT tools_digest) AS tool_lists
FROM requests GROUP BY api ORDER BY api;""",
    ),
    Question(
        "With which parameters are models requested?",
        """SELECT request_model, reasoning_effort, max_output_tokens, stream, tools, count(*) AS requests
FROM requests GROUP BY 1, 2, 3, 4, 5 ORDER BY requests DESC, 1, 5;""",
    ),
    Question(
        "Which clients use which wire format?",
        """SELECT api, coalesce(client, 'unknown') AS client, count(*) AS exchanges,
    count(DISTINCT session_id) AS sessions
FROM exchange_summary GROUP BY 1, 2 ORDER BY 1, 2;""",
    ),
)
