"""Sums over all sessions list what is superseded once; calls are counted without their results, and without exchanges.

A file has an index of its sessions, newest first, with all that `session_summary` takes of one. A server knows how many
days there are.

All is computed anew: the first chunks of Gemini have the service tier of the response, also of one that was broken off.

Revision ID: 0020
Revises: 0019

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

NEWEST = "CREATE INDEX sessions_newest ON sessions (session_id DESC, name, created_ns, origin, source)"
DAYS = "CREATE STATISTICS p_usage_v1_days ON (started_ns / 86400000000000) FROM p_usage_v1"

IN_FILE = {
    "tool_calls": r"""CREATE VIEW tool_calls AS
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
        WHEN r.started_ns IS NULL THEN NULL
        WHEN r.started_ns >= (SELECT x.started_ns FROM exchanges AS x WHERE x.session_id = i.session_id AND
    x.exchange_id = i.exchange_id) + i.ended_ns THEN r.started_ns - ((SELECT x.started_ns FROM exchanges AS x
    WHERE x.session_id = i.session_id AND x.exchange_id = i.exchange_id) + i.ended_ns) END AS latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name,
    CASE WHEN i.output IS NULL AND EXISTS (SELECT 1 FROM p_results_v1 AS m WHERE m.session_id = i.session_id
        AND m.call_key = i.call_key)
        THEN (SELECT coalesce((SELECT n.digest FROM p_results_v1 AS n JOIN exchanges AS y ON y.session_id =
    n.session_id AND y.exchange_id = n.exchange_id WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')
        ORDER BY n.started_ns, n.digest LIMIT 1),
        (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        ORDER BY n.started_ns, n.digest LIMIT 1)) FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id
    = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = i.session_id AND x.exchange_id = i.exchange_id) END AS told
FROM p_items_v1 AS i
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = i.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = i.session_id AND p.exchange_id = i.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told""",
    "session_summary": r"""CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN 0 ELSE 1 END,
    x.started_ns, x.exchange_id
        LIMIT 1) AS title,
    (SELECT min(x.started_ns) FROM exchanges AS x WHERE x.session_id = s.session_id) AS started_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) FROM exchanges AS x LEFT JOIN p_timing_v1 AS t ON
    t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS
    ended_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) FROM exchanges AS x LEFT JOIN
    p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id =
    s.session_id) AS duration_ns,
    (SELECT count(x.exchange_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS exchanges,
    (SELECT count(DISTINCT CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN x.turn_id END) + count(CASE WHEN
    x.turn_id IS NULL AND p.is_turn = 1 AND coalesce(p.purpose, 'turn') = 'turn' AND coalesce(x.attempt, 0) = 0
    THEN 1 END) FROM exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS turns,
    (SELECT count(DISTINCT x.thread_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS threads,
    (SELECT group_concat(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM
    exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
    coalesce(p.response_model, p.request_model))) AS models,
    (SELECT group_concat(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
    x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name)) AS tools,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = s.session_id
        AND i.kind = 'tool_call' AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = i.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = i.session_id AND p.exchange_id = i.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS tool_calls,
    (SELECT group_concat(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client)) AS clients,
    (SELECT count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) AND (p.status
    <> 'client_disconnect' OR p.status IS NULL OR coalesce(p.purpose, 'turn') = 'turn') THEN 1 END) FROM
    exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
    x.exchange_id WHERE x.session_id = s.session_id) AS errors,
    (SELECT sum(u.input_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT EXISTS (SELECT
    1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS input_tokens,
    (SELECT sum(u.cache_read_input_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS cache_read_input_tokens,
    (SELECT sum(u.cache_write_input_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS
    cache_write_input_tokens,
    (SELECT sum(u.output_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT EXISTS (SELECT
    1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS output_tokens,
    (SELECT sum(u.reasoning_output_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS reasoning_output_tokens,
    (SELECT sum(u.total_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT EXISTS (SELECT
    1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS total_tokens
FROM sessions AS s""",
    "usage_by_day": r"""CREATE VIEW usage_by_day AS
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
FROM (SELECT *, CAST(100000000 + 10000 * (year_of_era + 400 * CAST(((days + 719468) - ((days + 719468)) %
    146097) / 146097 AS BIGINT) + CASE WHEN months < 10 THEN 0 ELSE 1 END)
    + 100 * (months + CASE WHEN months < 10 THEN 3 ELSE -9 END) + in_year - CAST((153 * months + 2 - (153 *
    months + 2) % 5) / 5 AS BIGINT) + 1 AS TEXT) AS date
FROM (SELECT *, CAST((5 * in_year + 2 - (5 * in_year + 2) % 153) / 153 AS BIGINT) AS months
FROM (SELECT DISTINCT *, in_era - 365 * year_of_era - CAST((year_of_era - (year_of_era) % 4) / 4 AS BIGINT) +
    CAST((year_of_era - (year_of_era) % 100) / 100 AS BIGINT) AS in_year
FROM (SELECT DISTINCT *, CAST((in_era - CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era -
    (in_era) % 36524) / 36524 AS BIGINT) - CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT) - (in_era -
    CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era - (in_era) % 36524) / 36524 AS BIGINT) -
    CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT)) % 365) / 365 AS BIGINT) AS year_of_era
FROM (SELECT *, (days + 719468) % 146097 AS in_era
FROM (SELECT days,
    sum(exchanges) AS exchanges,
    sum(reported) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT) AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1)
    AND (u.session_id, u.exchange_id) NOT IN (SELECT p.session_id, p.exchange_id
    FROM p_exchanges_v1 AS r CROSS JOIN p_exchanges_v1 AS p
    WHERE r.is_retrieval = 1 AND p.session_id = r.session_id AND p.response_id = r.response_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id)))) AS counted
GROUP BY CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT), model, client, outcome)
    AS daily GROUP BY days) AS u) AS a) AS b) AS c) AS d) AS dates""",
    "usage_by_model": r"""CREATE VIEW usage_by_model AS
SELECT model,
    sum(exchanges) AS exchanges,
    sum(reported) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT) AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1)
    AND (u.session_id, u.exchange_id) NOT IN (SELECT p.session_id, p.exchange_id
    FROM p_exchanges_v1 AS r CROSS JOIN p_exchanges_v1 AS p
    WHERE r.is_retrieval = 1 AND p.session_id = r.session_id AND p.response_id = r.response_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id)))) AS counted
GROUP BY CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT), model, client, outcome)
    AS daily GROUP BY model""",
}

IN_FILE_BEFORE = {
    "tool_calls": r"""CREATE VIEW tool_calls AS
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
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END AS
    latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL AND EXISTS (SELECT 1 FROM p_results_v1 AS m WHERE m.session_id = i.session_id
        AND m.call_key = i.call_key)
        THEN (SELECT coalesce((SELECT n.digest FROM p_results_v1 AS n JOIN exchanges AS y ON y.session_id =
    n.session_id AND y.exchange_id = n.exchange_id WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')
        ORDER BY n.started_ns, n.digest LIMIT 1),
        (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        ORDER BY n.started_ns, n.digest LIMIT 1)) FROM p_exchanges_v1 AS p WHERE p.session_id = i.session_id
    AND p.exchange_id = i.exchange_id) END AS told
FROM p_items_v1 AS i
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = i.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = i.session_id AND p.exchange_id = i.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told""",
    "session_summary": r"""CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN 0 ELSE 1 END,
    x.started_ns, x.exchange_id
        LIMIT 1) AS title,
    (SELECT min(x.started_ns) FROM exchanges AS x WHERE x.session_id = s.session_id) AS started_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) FROM exchanges AS x LEFT JOIN p_timing_v1 AS t ON
    t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS
    ended_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) FROM exchanges AS x LEFT JOIN
    p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id =
    s.session_id) AS duration_ns,
    (SELECT count(x.exchange_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS exchanges,
    (SELECT count(DISTINCT CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN x.turn_id END) + count(CASE WHEN
    x.turn_id IS NULL AND p.is_turn = 1 AND coalesce(p.purpose, 'turn') = 'turn' AND coalesce(x.attempt, 0) = 0
    THEN 1 END) FROM exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS turns,
    (SELECT count(DISTINCT x.thread_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS threads,
    (SELECT group_concat(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM
    exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
    coalesce(p.response_model, p.request_model))) AS models,
    (SELECT group_concat(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
    x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name)) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT group_concat(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client)) AS clients,
    (SELECT count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) AND (p.status
    <> 'client_disconnect' OR p.status IS NULL OR coalesce(p.purpose, 'turn') = 'turn') THEN 1 END) FROM
    exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
    x.exchange_id WHERE x.session_id = s.session_id) AS errors,
    (SELECT sum(u.input_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT EXISTS (SELECT
    1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS input_tokens,
    (SELECT sum(u.cache_read_input_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS cache_read_input_tokens,
    (SELECT sum(u.cache_write_input_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS
    cache_write_input_tokens,
    (SELECT sum(u.output_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT EXISTS (SELECT
    1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS output_tokens,
    (SELECT sum(u.reasoning_output_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS reasoning_output_tokens,
    (SELECT sum(u.total_tokens) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT EXISTS (SELECT
    1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS total_tokens
FROM sessions AS s""",
    "usage_by_day": r"""CREATE VIEW usage_by_day AS
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
FROM (SELECT *, CAST(100000000 + 10000 * (year_of_era + 400 * CAST(((days + 719468) - ((days + 719468)) %
    146097) / 146097 AS BIGINT) + CASE WHEN months < 10 THEN 0 ELSE 1 END)
    + 100 * (months + CASE WHEN months < 10 THEN 3 ELSE -9 END) + in_year - CAST((153 * months + 2 - (153 *
    months + 2) % 5) / 5 AS BIGINT) + 1 AS TEXT) AS date
FROM (SELECT *, CAST((5 * in_year + 2 - (5 * in_year + 2) % 153) / 153 AS BIGINT) AS months
FROM (SELECT DISTINCT *, in_era - 365 * year_of_era - CAST((year_of_era - (year_of_era) % 4) / 4 AS BIGINT) +
    CAST((year_of_era - (year_of_era) % 100) / 100 AS BIGINT) AS in_year
FROM (SELECT DISTINCT *, CAST((in_era - CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era -
    (in_era) % 36524) / 36524 AS BIGINT) - CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT) - (in_era -
    CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era - (in_era) % 36524) / 36524 AS BIGINT) -
    CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT)) % 365) / 365 AS BIGINT) AS year_of_era
FROM (SELECT *, (days + 719468) % 146097 AS in_era
FROM (SELECT days,
    sum(exchanges) AS exchanges,
    sum(reported) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT) AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1) AND (NOT EXISTS (SELECT 1 FROM
    p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS counted
GROUP BY CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT), model, client, outcome)
    AS daily GROUP BY days) AS u) AS a) AS b) AS c) AS d) AS dates""",
    "usage_by_model": r"""CREATE VIEW usage_by_model AS
SELECT model,
    sum(exchanges) AS exchanges,
    sum(reported) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT) AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1) AND (NOT EXISTS (SELECT 1 FROM
    p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS counted
GROUP BY CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT), model, client, outcome)
    AS daily GROUP BY model""",
}

IN_SERVER = {
    "tool_calls": r"""CREATE VIEW tool_calls AS
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
        WHEN r.started_ns IS NULL THEN NULL
        WHEN r.started_ns >= (SELECT x.started_ns FROM exchanges AS x WHERE x.session_id = i.session_id AND
    x.exchange_id = i.exchange_id) + i.ended_ns THEN r.started_ns - ((SELECT x.started_ns FROM exchanges AS x
    WHERE x.session_id = i.session_id AND x.exchange_id = i.exchange_id) + i.ended_ns) END AS latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name,
    CASE WHEN i.output IS NULL AND EXISTS (SELECT 1 FROM p_results_v1 AS m WHERE m.session_id = i.session_id
        AND m.call_key = i.call_key)
        THEN (SELECT coalesce((SELECT n.digest FROM p_results_v1 AS n JOIN exchanges AS y ON y.session_id =
    n.session_id AND y.exchange_id = n.exchange_id WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')
        ORDER BY n.started_ns, n.digest LIMIT 1),
        (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        ORDER BY n.started_ns, n.digest LIMIT 1)) FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id
    = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = i.session_id AND x.exchange_id = i.exchange_id) END AS told
FROM p_items_v1 AS i
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = i.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = i.session_id AND p.exchange_id = i.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told""",
    "session_summary": r"""CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN 0 ELSE 1 END,
    x.started_ns, x.exchange_id
        LIMIT 1) AS title,
    (SELECT min(x.started_ns) FROM exchanges AS x WHERE x.session_id = s.session_id) AS started_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) FROM exchanges AS x LEFT JOIN p_timing_v1 AS t ON
    t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS
    ended_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) FROM exchanges AS x LEFT JOIN
    p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id =
    s.session_id) AS duration_ns,
    (SELECT count(x.exchange_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS exchanges,
    (SELECT count(DISTINCT CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN x.turn_id END) + count(CASE WHEN
    x.turn_id IS NULL AND p.is_turn = 1 AND coalesce(p.purpose, 'turn') = 'turn' AND coalesce(x.attempt, 0) = 0
    THEN 1 END) FROM exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS turns,
    (SELECT count(DISTINCT x.thread_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM
    exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
    coalesce(p.response_model, p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
    x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name) AS listed) AS tools,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = s.session_id
        AND i.kind = 'tool_call' AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = i.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = i.session_id AND p.exchange_id = i.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS tool_calls,
    (SELECT string_agg(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client) AS listed) AS clients,
    (SELECT count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) AND (p.status
    <> 'client_disconnect' OR p.status IS NULL OR coalesce(p.purpose, 'turn') = 'turn') THEN 1 END) FROM
    exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
    x.exchange_id WHERE x.session_id = s.session_id) AS errors,
    (SELECT CAST(sum(u.input_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS input_tokens,
    (SELECT CAST(sum(u.cache_read_input_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id =
    s.session_id AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS cache_read_input_tokens,
    (SELECT CAST(sum(u.cache_write_input_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id =
    s.session_id AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS
    cache_write_input_tokens,
    (SELECT CAST(sum(u.output_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND
    (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS output_tokens,
    (SELECT CAST(sum(u.reasoning_output_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id =
    s.session_id AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS reasoning_output_tokens,
    (SELECT CAST(sum(u.total_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS total_tokens
FROM sessions AS s""",
    "usage_by_day": r"""CREATE VIEW usage_by_day AS
SELECT to_char(to_timestamp(days * 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
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
FROM (SELECT days,
    CAST(sum(exchanges) AS BIGINT) AS exchanges,
    CAST(sum(reported) AS BIGINT) AS reported,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(total_tokens) AS BIGINT) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT started_ns / 86400000000000 AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1)
    AND (u.session_id, u.exchange_id) NOT IN (SELECT p.session_id, p.exchange_id
    FROM p_exchanges_v1 AS r CROSS JOIN p_exchanges_v1 AS p
    WHERE r.is_retrieval = 1 AND p.session_id = r.session_id AND p.response_id = r.response_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id)))) AS counted
GROUP BY started_ns / 86400000000000, model, client, outcome) AS daily GROUP BY days) AS u""",
    "usage_by_model": r"""CREATE VIEW usage_by_model AS
SELECT model,
    CAST(sum(exchanges) AS BIGINT) AS exchanges,
    CAST(sum(reported) AS BIGINT) AS reported,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(total_tokens) AS BIGINT) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT started_ns / 86400000000000 AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1)
    AND (u.session_id, u.exchange_id) NOT IN (SELECT p.session_id, p.exchange_id
    FROM p_exchanges_v1 AS r CROSS JOIN p_exchanges_v1 AS p
    WHERE r.is_retrieval = 1 AND p.session_id = r.session_id AND p.response_id = r.response_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id)))) AS counted
GROUP BY started_ns / 86400000000000, model, client, outcome) AS daily GROUP BY model""",
}

IN_SERVER_BEFORE = {
    "tool_calls": r"""CREATE VIEW tool_calls AS
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
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END AS
    latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL AND EXISTS (SELECT 1 FROM p_results_v1 AS m WHERE m.session_id = i.session_id
        AND m.call_key = i.call_key)
        THEN (SELECT coalesce((SELECT n.digest FROM p_results_v1 AS n JOIN exchanges AS y ON y.session_id =
    n.session_id AND y.exchange_id = n.exchange_id WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')
        ORDER BY n.started_ns, n.digest LIMIT 1),
        (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f
    JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
    q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        ORDER BY n.started_ns, n.digest LIMIT 1)) FROM p_exchanges_v1 AS p WHERE p.session_id = i.session_id
    AND p.exchange_id = i.exchange_id) END AS told
FROM p_items_v1 AS i
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = i.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = i.session_id AND p.exchange_id = i.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told""",
    "session_summary": r"""CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN 0 ELSE 1 END,
    x.started_ns, x.exchange_id
        LIMIT 1) AS title,
    (SELECT min(x.started_ns) FROM exchanges AS x WHERE x.session_id = s.session_id) AS started_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) FROM exchanges AS x LEFT JOIN p_timing_v1 AS t ON
    t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS
    ended_ns,
    (SELECT max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) FROM exchanges AS x LEFT JOIN
    p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id WHERE x.session_id =
    s.session_id) AS duration_ns,
    (SELECT count(x.exchange_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS exchanges,
    (SELECT count(DISTINCT CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN x.turn_id END) + count(CASE WHEN
    x.turn_id IS NULL AND p.is_turn = 1 AND coalesce(p.purpose, 'turn') = 'turn' AND coalesce(x.attempt, 0) = 0
    THEN 1 END) FROM exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND
    p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id) AS turns,
    (SELECT count(DISTINCT x.thread_id) FROM exchanges AS x WHERE x.session_id = s.session_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM
    exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
    coalesce(p.response_model, p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
    x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name) AS listed) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT string_agg(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client) AS listed) AS clients,
    (SELECT count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) AND (p.status
    <> 'client_disconnect' OR p.status IS NULL OR coalesce(p.purpose, 'turn') = 'turn') THEN 1 END) FROM
    exchanges AS x LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id =
    x.exchange_id WHERE x.session_id = s.session_id) AS errors,
    (SELECT CAST(sum(u.input_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS input_tokens,
    (SELECT CAST(sum(u.cache_read_input_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id =
    s.session_id AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS cache_read_input_tokens,
    (SELECT CAST(sum(u.cache_write_input_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id =
    s.session_id AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS
    cache_write_input_tokens,
    (SELECT CAST(sum(u.output_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND
    (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS output_tokens,
    (SELECT CAST(sum(u.reasoning_output_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id =
    s.session_id AND (NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS reasoning_output_tokens,
    (SELECT CAST(sum(u.total_tokens) AS BIGINT) FROM p_usage_v1 AS u WHERE u.session_id = s.session_id AND (NOT
    EXISTS (SELECT 1 FROM p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS total_tokens
FROM sessions AS s""",
    "usage_by_day": r"""CREATE VIEW usage_by_day AS
SELECT to_char(to_timestamp(days * 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
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
FROM (SELECT days,
    CAST(sum(exchanges) AS BIGINT) AS exchanges,
    CAST(sum(reported) AS BIGINT) AS reported,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(total_tokens) AS BIGINT) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT started_ns / 86400000000000 AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1) AND (NOT EXISTS (SELECT 1 FROM
    p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS counted
GROUP BY started_ns / 86400000000000, model, client, outcome) AS daily GROUP BY days) AS u""",
    "usage_by_model": r"""CREATE VIEW usage_by_model AS
SELECT model,
    CAST(sum(exchanges) AS BIGINT) AS exchanges,
    CAST(sum(reported) AS BIGINT) AS reported,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(total_tokens) AS BIGINT) AS total_tokens,
    CAST(sum(reasoning_share_part) AS DOUBLE PRECISION) / nullif(sum(reasoning_share_whole), 0) AS
    reasoning_share,
    CAST(sum(cached_share_part) AS DOUBLE PRECISION) / nullif(sum(cached_share_whole), 0) AS cached_share
FROM (SELECT started_ns / 86400000000000 AS days,
    model AS model,
    client AS client,
    outcome AS outcome,
    count(*) AS exchanges,
    count(CASE WHEN reported = 1 THEN 1 END) AS reported,
    sum(input_tokens) AS input_tokens,
    sum(cache_read_input_tokens) AS cache_read_input_tokens,
    sum(cache_write_input_tokens) AS cache_write_input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    sum(total_tokens) AS total_tokens,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN
    reasoning_output_tokens END) AS reasoning_share_part,
    sum(CASE WHEN reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN output_tokens END) AS
    reasoning_share_whole,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN cache_read_input_tokens
    END) AS cached_share_part,
    sum(CASE WHEN cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL THEN input_tokens END) AS
    cached_share_whole
FROM (SELECT u.session_id AS session_id, u.exchange_id AS exchange_id, u.started_ns AS started_ns, u.client AS
    client, u.model AS model, u.input_tokens AS input_tokens, u.cache_read_input_tokens AS
    cache_read_input_tokens, u.cache_write_input_tokens AS cache_write_input_tokens, u.output_tokens AS
    output_tokens, u.reasoning_output_tokens AS reasoning_output_tokens, u.total_tokens AS total_tokens,
    u.outcome AS outcome, u.reported AS reported
    FROM p_usage_v1 AS u WHERE (u.model IS NOT NULL OR u.reported = 1) AND (NOT EXISTS (SELECT 1 FROM
    p_exchanges_v1 AS r
        WHERE r.session_id = u.session_id AND r.is_retrieval = 1) OR NOT EXISTS (SELECT 1 FROM p_exchanges_v1
    AS p WHERE p.session_id = u.session_id AND p.exchange_id = u.exchange_id
        AND EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
    p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))))) AS counted
GROUP BY started_ns / 86400000000000, model, client, outcome) AS daily GROUP BY model""",
}


DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    """Replace views. Rows are the same until the rebuild."""
    is_server = op.get_bind().dialect.name == "postgresql"
    run(DAYS if is_server else NEWEST)
    replace(IN_SERVER if is_server else IN_FILE, is_server)
    rebuild()


def downgrade() -> None:
    """Ask as before."""
    is_server = op.get_bind().dialect.name == "postgresql"
    replace(IN_SERVER_BEFORE if is_server else IN_FILE_BEFORE, is_server)
    run("DROP STATISTICS p_usage_v1_days" if is_server else "DROP INDEX sessions_newest")
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def replace(views: dict[str, str], is_server: bool) -> None:
    """Create views anew. On a server they are replaced where they stand: rights to them stay."""
    for name, view in views.items():
        run(*([view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)] if is_server else [f"DROP VIEW {name}", view]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
