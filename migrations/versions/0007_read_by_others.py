"""Views that DuckDB can read, payloads that a server can read whatever its plan, and what conversations come to.

Revision ID: 0007
Revises: 0006

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STANDS = """NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o
        WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1)
        AND ((o.finish_reason IS NOT NULL AND o.finish_reason <> 'cancelled'), coalesce(o.last_number, -1),
        o.exchange_id) > ((p.finish_reason IS NOT NULL AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1),
        p.exchange_id))"""

VIEWS = (
    f"""
CREATE VIEW tool_calls AS
SELECT i.session_id AS session_id,
    i.session_name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.type AS type,
    i.name AS name,
    i.call_id AS call_id,
    i.arguments AS arguments,
    i.arguments_json AS arguments_json,
    i.status AS status,
    coalesce(i.output, r.output) AS output,
    coalesce(i.failed, r.failed) AS failed,
    r.exchange_id AS output_exchange_id,
    CASE WHEN i.output IS NOT NULL THEN i.ended_ns - i.began_ns
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END
            AS latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL THEN (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS
            f JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id
            AND q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1) END AS told
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND {STANDS}) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told
""",
    f"""
CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
        p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY x.started_ns, x.exchange_id LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT x.turn_id) + count(CASE WHEN x.turn_id IS NULL AND p.is_turn = 1 AND
        coalesce(x.attempt, 0) = 0 THEN 1 END) AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT group_concat(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value
        FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
        x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
            coalesce(p.response_model, p.request_model))) AS models,
    (SELECT group_concat(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges
        AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name)) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT group_concat(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client)) AS clients,
    count(CASE WHEN p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL THEN 1 END) AS errors,
    sum(CASE WHEN {STANDS} THEN u.input_tokens END) AS input_tokens,
    sum(CASE WHEN {STANDS} THEN u.cache_read_input_tokens END) AS cache_read_input_tokens,
    sum(CASE WHEN {STANDS} THEN u.cache_write_input_tokens END) AS cache_write_input_tokens,
    sum(CASE WHEN {STANDS} THEN u.output_tokens END) AS output_tokens,
    sum(CASE WHEN {STANDS} THEN u.reasoning_output_tokens END) AS reasoning_output_tokens,
    sum(CASE WHEN {STANDS} THEN u.total_tokens END) AS total_tokens
FROM sessions AS s
LEFT JOIN exchanges AS x ON x.session_id = s.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
GROUP BY s.session_id, s.name, s.created_ns, s.origin, s.source
""",
    """
CREATE VIEW usage_by_day AS
SELECT substr(date, 2, 4) || '-' || substr(date, 6, 2) || '-' || substr(date, 8) AS day,
    exchanges,
    reported,
    input_tokens,
    cache_read_input_tokens,
    cache_write_input_tokens,
    output_tokens,
    reasoning_output_tokens,
    total_tokens,
    reasoning_share,
    cached_share
FROM (SELECT *, CAST(100000000 + 10000 * (year_of_era + 400 * CAST(((days + 719468) - ((days +
    719468)) % 146097) / 146097 AS BIGINT) + CASE WHEN months < 10 THEN 0 ELSE 1 END)
    + 100 * (months + CASE WHEN months < 10 THEN 3 ELSE -9 END) + in_year - CAST((153 * months + 2 -
        (153 * months + 2) % 5) / 5 AS BIGINT) + 1 AS TEXT) AS date
FROM (SELECT *, CAST((5 * in_year + 2 - (5 * in_year + 2) % 153) / 153 AS BIGINT) AS months
FROM (SELECT *, in_era - 365 * year_of_era - CAST((year_of_era - (year_of_era) % 4) / 4 AS BIGINT) +
    CAST((year_of_era - (year_of_era) % 100) / 100 AS BIGINT) AS in_year
FROM (SELECT *, CAST((in_era - CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era -
    (in_era) % 36524) / 36524 AS BIGINT) - CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT) -
    (in_era - CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era - (in_era) % 36524) /
    36524 AS BIGINT) - CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT)) % 365) / 365 AS BIGINT) AS
    year_of_era
FROM (SELECT *, (days + 719468) % 146097 AS in_era
FROM (SELECT CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT) AS days,
    count(*) AS exchanges,
    count(usage_raw) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    CAST(sum(reasoning_output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL AND
        output_tokens IS NOT NULL) AS DOUBLE PRECISION) / nullif(sum(output_tokens) FILTER (WHERE
        reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL), 0) AS reasoning_share,
    CAST(sum(cache_read_input_tokens) FILTER (WHERE cache_read_input_tokens IS NOT NULL AND input_tokens
        IS NOT NULL) AS DOUBLE PRECISION) / nullif(sum(input_tokens) FILTER (WHERE cache_read_input_tokens
        IS NOT NULL AND input_tokens IS NOT NULL), 0) AS cached_share
FROM usage GROUP BY 1) AS u) AS a) AS b) AS c) AS d) AS dates
""",
    """
CREATE VIEW tool_stats AS
SELECT name,
    type,
    count(*) AS calls,
    count(output) AS answered,
    count(CASE WHEN failed = 1 THEN 1 END) AS failed,
    count(DISTINCT session_id) AS sessions,
    count(DISTINCT exchange_id) AS exchanges,
    CAST(round(avg(latency_ns)) AS BIGINT) AS latency_avg_ns,
    max(latency_ns) AS latency_max_ns,
    CAST(sum(length(hex(arguments))) / 2 AS BIGINT) AS arguments_bytes
FROM tool_calls GROUP BY name, type
""",
)

VIEWS_ON_SERVER = (
    f"""
CREATE VIEW tool_calls AS
SELECT i.session_id AS session_id,
    i.session_name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.type AS type,
    i.name AS name,
    i.call_id AS call_id,
    i.arguments AS arguments,
    i.arguments_json AS arguments_json,
    i.status AS status,
    coalesce(i.output, r.output) AS output,
    coalesce(i.failed, r.failed) AS failed,
    r.exchange_id AS output_exchange_id,
    CASE WHEN i.output IS NOT NULL THEN i.ended_ns - i.began_ns
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END
            AS latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL THEN (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS
            f JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id
            AND q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1) END AS told
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND {STANDS}) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told
""",
    f"""
CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
        p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY x.started_ns, x.exchange_id LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT x.turn_id) + count(CASE WHEN x.turn_id IS NULL AND p.is_turn = 1 AND
        coalesce(x.attempt, 0) = 0 THEN 1 END) AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value
        FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
        x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
            coalesce(p.response_model, p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS
        x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name) AS listed) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT string_agg(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client) AS listed) AS clients,
    count(CASE WHEN p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL THEN 1 END) AS errors,
    CAST(sum(CASE WHEN {STANDS} THEN u.input_tokens END) AS BIGINT) AS input_tokens,
    CAST(sum(CASE WHEN {STANDS} THEN u.cache_read_input_tokens END) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(CASE WHEN {STANDS} THEN u.cache_write_input_tokens END) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(CASE WHEN {STANDS} THEN u.output_tokens END) AS BIGINT) AS output_tokens,
    CAST(sum(CASE WHEN {STANDS} THEN u.reasoning_output_tokens END) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(CASE WHEN {STANDS} THEN u.total_tokens END) AS BIGINT) AS total_tokens
FROM sessions AS s
LEFT JOIN exchanges AS x ON x.session_id = s.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
GROUP BY s.session_id, s.name, s.created_ns, s.origin, s.source
""",
)

# Those of 0002 and 0004.
OLD_VIEWS = (
    """
CREATE VIEW tool_calls AS
SELECT i.session_id AS session_id,
    s.name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.type AS type,
    i.name AS name,
    i.call_id AS call_id,
    i.arguments AS arguments,
    i.arguments_json AS arguments_json,
    i.status AS status,
    coalesce(i.output, r.output) AS output,
    coalesce(i.failed, r.failed) AS failed,
    r.exchange_id AS output_exchange_id,
    CASE WHEN i.output IS NOT NULL THEN i.ended_ns - i.began_ns
        WHEN r.started_ns >= x.started_ns + i.ended_ns THEN r.started_ns - (x.started_ns + i.ended_ns) END AS
    latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id

LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND i.output IS NULL
    AND r.digest = (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
    p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1)
WHERE i.kind = 'tool_call' AND NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND
    o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND p.finish_reason <>
    'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
""",
    """
CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY x.started_ns, x.exchange_id LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT x.turn_id) + count(CASE WHEN x.turn_id IS NULL AND p.is_turn = 1 AND coalesce(x.attempt, 0) = 0
    THEN 1 END) AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT group_concat(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM
    exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns), coalesce(p.response_model,
    p.request_model))) AS models,
    (SELECT group_concat(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
    x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name)) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT group_concat(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client)) AS clients,
    count(CASE WHEN p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL THEN 1 END) AS errors,
    sum(u.input_tokens) AS input_tokens,
    sum(u.cache_read_input_tokens) AS cache_read_input_tokens,
    sum(u.cache_write_input_tokens) AS cache_write_input_tokens,
    sum(u.output_tokens) AS output_tokens,
    sum(u.reasoning_output_tokens) AS reasoning_output_tokens,
    sum(u.total_tokens) AS total_tokens
FROM sessions AS s
LEFT JOIN exchanges AS x ON x.session_id = s.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id AND NOT EXISTS (SELECT 1
    FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND p.finish_reason <>
    'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
GROUP BY s.session_id, s.name
""",
    """
CREATE VIEW usage_by_day AS
SELECT date(started_ns / 1000000000, 'unixepoch') AS day,
    count(*) AS exchanges,
    count(usage_raw) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    CAST(sum(reasoning_output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT
    NULL) AS DOUBLE PRECISION) / nullif(sum(output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL AND
    output_tokens IS NOT NULL), 0) AS reasoning_share,
    CAST(sum(cache_read_input_tokens) FILTER (WHERE cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT
    NULL) AS DOUBLE PRECISION) / nullif(sum(input_tokens) FILTER (WHERE cache_read_input_tokens IS NOT NULL AND
    input_tokens IS NOT NULL), 0) AS cached_share
FROM usage GROUP BY 1
""",
    """
CREATE VIEW tool_stats AS
SELECT name,
    type,
    count(*) AS calls,
    count(output) AS answered,
    count(CASE WHEN failed = 1 THEN 1 END) AS failed,
    count(DISTINCT session_id) AS sessions,
    count(DISTINCT exchange_id) AS exchanges,
    CAST(round(avg(latency_ns)) AS BIGINT) AS latency_avg_ns,
    max(latency_ns) AS latency_max_ns,
    sum(length(CAST(arguments AS BLOB))) AS arguments_bytes
FROM tool_calls GROUP BY name, type
""",
)

OLD_VIEWS_ON_SERVER = (
    f"""
CREATE VIEW tool_calls AS
SELECT i.session_id AS session_id,
    s.name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.type AS type,
    i.name AS name,
    i.call_id AS call_id,
    i.arguments AS arguments,
    i.arguments_json AS arguments_json,
    i.status AS status,
    coalesce(i.output, r.output) AS output,
    coalesce(i.failed, r.failed) AS failed,
    r.exchange_id AS output_exchange_id,
    CASE WHEN i.output IS NOT NULL THEN i.ended_ns - i.began_ns
        WHEN r.started_ns >= x.started_ns + i.ended_ns THEN r.started_ns - (x.started_ns + i.ended_ns) END
            AS latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id

LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND i.output IS NULL
    AND r.digest = (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS
            f JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id
            AND q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1)
WHERE i.kind = 'tool_call' AND {STANDS}
""",
    f"""
CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
        p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY x.started_ns, x.exchange_id LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT x.turn_id) + count(CASE WHEN x.turn_id IS NULL AND p.is_turn = 1 AND
        coalesce(x.attempt, 0) = 0 THEN 1 END) AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value
        FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
        x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
            coalesce(p.response_model, p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS
        x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name) AS listed) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT string_agg(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client) AS listed) AS clients,
    count(CASE WHEN p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL THEN 1 END) AS errors,
    CAST(sum(u.input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(u.cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(u.cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(u.output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(u.reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(u.total_tokens) AS BIGINT) AS total_tokens
FROM sessions AS s
LEFT JOIN exchanges AS x ON x.session_id = s.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id AND {STANDS}
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
GROUP BY s.session_id, s.name
""",
)

# What catches an error begins a subtransaction, which no process of a parallel plan may.
TEXT = "ALTER FUNCTION recorder_text(bytea) PARALLEL UNSAFE"
OLD_TEXT = "ALTER FUNCTION recorder_text(bytea) PARALLEL SAFE"

# Rows as a fold of the same version makes them now, so that nothing is to be rebuilt: a document has no rate of events,
# and what a stream of an unknown format says at its end nobody knows, so it is whole if it ended well.
CORRECTIONS = (
    "UPDATE p_timing_v1 SET events_per_s = NULL WHERE events_per_s < 0",
    """
UPDATE p_usage_v1 SET partial = 0 WHERE partial = 1 AND EXISTS (SELECT 1 FROM exchanges AS x JOIN p_exchanges_v1 AS p
    ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id WHERE x.session_id = p_usage_v1.session_id
    AND x.exchange_id = p_usage_v1.exchange_id AND x.api = 'other'
    AND p.status IN ('completed', 'incomplete', 'failed'))
""",
)

HISTORY = (
    """
CREATE TABLE p_history_v1 (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
) STRICT
""",
    "CREATE INDEX p_history_v1_digest ON p_history_v1 (digest)",
)
HISTORY_ON_SERVER = (
    """
CREATE TABLE p_history_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
)
""",
    "CREATE INDEX p_history_v1_digest ON p_history_v1 (digest)",
    # Who may write the other projections may write this one.
    """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'recorder_writer')
        AND has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON p_history_v1 TO recorder_writer;
    END IF;
END $$
""",
)


def upgrade() -> None:
    replace(VIEWS, VIEWS_ON_SERVER, TEXT)
    run(*CORRECTIONS, *(HISTORY_ON_SERVER if op.get_bind().dialect.name == "postgresql" else HISTORY))


def downgrade() -> None:
    run("DROP TABLE p_history_v1")
    replace(OLD_VIEWS, OLD_VIEWS_ON_SERVER, OLD_TEXT)


def replace(views: tuple[str, ...], views_on_server: tuple[str, ...], text: str) -> None:
    """On a server a view is replaced where it stands: who was given rights to it keeps them."""
    if op.get_bind().dialect.name == "postgresql":
        run(text, *(view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW") for view in views_on_server))
    else:
        run(*(f"DROP VIEW {view.split()[2]}" for view in views), *views)


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
