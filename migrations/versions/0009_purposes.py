"""What a request is for, and the thread that began its own; results that stay with the thread of their call.

Revision ID: 0009
Revises: 0008

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COLUMNS = ("purpose", "parent_thread_id")

STANDS = """NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id
    AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))"""

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
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END AS
            latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL THEN coalesce((SELECT n.digest FROM p_results_v1 AS n JOIN exchanges AS y ON
        y.session_id = n.session_id AND y.exchange_id = n.exchange_id WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
            p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
            q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')
        ORDER BY n.started_ns, n.digest LIMIT 1),
        (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
            p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
            q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        ORDER BY n.started_ns, n.digest LIMIT 1)) END AS told
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND {STANDS}) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told
""",
    """
CREATE VIEW exchange_summary AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.method AS method,
    x.target AS target,
    x.client AS client,
    x.client_version AS client_version,
    x.thread_id AS thread_id,
    x.turn_id AS turn_id,
    x.attempt AS attempt,
    p.purpose AS purpose,
    p.parent_thread_id AS parent_thread_id,
    p.stream AS stream,
    p.request_model AS request_model,
    p.response_model AS response_model,
    coalesce(p.response_model, p.request_model) AS model,
    p.response_id AS response_id,
    p.status AS status,
    p.http_status AS http_status,
    p.finish_reason AS finish_reason,
    p.error_type AS error_type,
    p.error_code AS error_code,
    p.error_param AS error_param,
    p.error AS error,
    p.user_text AS user_text,
    p.is_turn AS is_turn,
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
        p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id) ORDER BY (o.finish_reason
            IS NOT NULL AND o.finish_reason <> 'cancelled') DESC, coalesce(o.last_number, -1) DESC, o.exchange_id
            DESC LIMIT 1) AS superseded_by,
    p.lossless AS lossless,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'message') AS messages,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'reasoning') AS reasoning,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'tool_call') AS tool_calls,
    (SELECT count(*) FROM p_anomalies_v1 AS a WHERE a.session_id = x.session_id AND a.exchange_id = x.exchange_id)
        AS anomalies,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.total_tokens AS total_tokens,
    u.partial AS partial,
    t.ttft_ns AS ttft_ns,
    t.duration_ns AS duration_ns
FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
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
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN 0 ELSE 1 END,
            x.started_ns, x.exchange_id
        LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN x.turn_id END) + count(CASE WHEN x.turn_id IS
        NULL AND p.is_turn = 1 AND coalesce(p.purpose, 'turn') = 'turn' AND coalesce(x.attempt, 0) = 0 THEN 1 END)
        AS turns,
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
    count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) AND (p.status <>
        'client_disconnect' OR p.status IS NULL OR coalesce(p.purpose, 'turn') = 'turn') THEN 1 END) AS errors,
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
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END AS
            latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL THEN coalesce((SELECT n.digest FROM p_results_v1 AS n JOIN exchanges AS y ON
        y.session_id = n.session_id AND y.exchange_id = n.exchange_id WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
            p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
            q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        AND coalesce(y.thread_id, '') = coalesce(x.thread_id, '')
        ORDER BY n.started_ns, n.digest LIMIT 1),
        (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
            p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
            q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns)
        ORDER BY n.started_ns, n.digest LIMIT 1)) END AS told
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND {STANDS}) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told
""",
    """
CREATE VIEW exchange_summary AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.method AS method,
    x.target AS target,
    x.client AS client,
    x.client_version AS client_version,
    x.thread_id AS thread_id,
    x.turn_id AS turn_id,
    x.attempt AS attempt,
    p.purpose AS purpose,
    p.parent_thread_id AS parent_thread_id,
    p.stream AS stream,
    p.request_model AS request_model,
    p.response_model AS response_model,
    coalesce(p.response_model, p.request_model) AS model,
    p.response_id AS response_id,
    p.status AS status,
    p.http_status AS http_status,
    p.finish_reason AS finish_reason,
    p.error_type AS error_type,
    p.error_code AS error_code,
    p.error_param AS error_param,
    p.error AS error,
    p.user_text AS user_text,
    p.is_turn AS is_turn,
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
        p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id) ORDER BY (o.finish_reason
            IS NOT NULL AND o.finish_reason <> 'cancelled') DESC, coalesce(o.last_number, -1) DESC, o.exchange_id
            DESC LIMIT 1) AS superseded_by,
    p.lossless AS lossless,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'message') AS messages,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'reasoning') AS reasoning,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'tool_call') AS tool_calls,
    (SELECT count(*) FROM p_anomalies_v1 AS a WHERE a.session_id = x.session_id AND a.exchange_id = x.exchange_id)
        AS anomalies,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.total_tokens AS total_tokens,
    u.partial AS partial,
    t.ttft_ns AS ttft_ns,
    t.duration_ns AS duration_ns
FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
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
        AND p.user_text IS NOT NULL ORDER BY CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN 0 ELSE 1 END,
            x.started_ns, x.exchange_id
        LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT CASE WHEN coalesce(p.purpose, 'turn') = 'turn' THEN x.turn_id END) + count(CASE WHEN x.turn_id IS
        NULL AND p.is_turn = 1 AND coalesce(p.purpose, 'turn') = 'turn' AND coalesce(x.attempt, 0) = 0 THEN 1 END)
        AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM exchanges
        AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns), coalesce(p.response_model,
            p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
        x.session_id = i.session_id AND x.exchange_id = i.exchange_id
        WHERE x.session_id = s.session_id AND i.name IS NOT NULL
        GROUP BY i.name ORDER BY min(x.started_ns), i.name) AS listed) AS tools,
    (SELECT count(*) FROM tool_calls WHERE tool_calls.session_id = s.session_id) AS tool_calls,
    (SELECT string_agg(value, ', ') FROM (SELECT x.client AS value FROM exchanges AS x
        WHERE x.session_id = s.session_id AND x.client IS NOT NULL
        GROUP BY x.client ORDER BY min(x.started_ns), x.client) AS listed) AS clients,
    count(CASE WHEN (p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL) AND (p.status <>
        'client_disconnect' OR p.status IS NULL OR coalesce(p.purpose, 'turn') = 'turn') THEN 1 END) AS errors,
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

# Those of 0007 and 0008.
OLD_VIEWS = (
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
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END AS
            latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL THEN (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
            p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
            q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1) END AS told
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND {STANDS}) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told
""",
    """
CREATE VIEW exchange_summary AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.method AS method,
    x.target AS target,
    x.client AS client,
    x.client_version AS client_version,
    x.thread_id AS thread_id,
    x.turn_id AS turn_id,
    x.attempt AS attempt,
    p.stream AS stream,
    p.request_model AS request_model,
    p.response_model AS response_model,
    coalesce(p.response_model, p.request_model) AS model,
    p.response_id AS response_id,
    p.status AS status,
    p.http_status AS http_status,
    p.finish_reason AS finish_reason,
    p.error_type AS error_type,
    p.error_code AS error_code,
    p.error_param AS error_param,
    p.error AS error,
    p.user_text AS user_text,
    p.is_turn AS is_turn,
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
        p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id) ORDER BY (o.finish_reason
            IS NOT NULL AND o.finish_reason <> 'cancelled') DESC, coalesce(o.last_number, -1) DESC, o.exchange_id
            DESC LIMIT 1) AS superseded_by,
    p.lossless AS lossless,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'message') AS messages,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'reasoning') AS reasoning,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'tool_call') AS tool_calls,
    (SELECT count(*) FROM p_anomalies_v1 AS a WHERE a.session_id = x.session_id AND a.exchange_id = x.exchange_id)
        AS anomalies,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.total_tokens AS total_tokens,
    u.partial AS partial,
    t.ttft_ns AS ttft_ns,
    t.duration_ns AS duration_ns
FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
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
)
OLD_VIEWS_ON_SERVER = (
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
        WHEN r.started_ns >= i.started_ns + i.ended_ns THEN r.started_ns - (i.started_ns + i.ended_ns) END AS
            latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM (SELECT i.*, s.name AS session_name, x.started_ns AS started_ns,
    CASE WHEN i.output IS NULL THEN (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns) FROM exchanges AS f JOIN
            p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id AND
            q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1) END AS told
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
WHERE i.kind = 'tool_call' AND {STANDS}) AS i
LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND r.digest = i.told
""",
    """
CREATE VIEW exchange_summary AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.method AS method,
    x.target AS target,
    x.client AS client,
    x.client_version AS client_version,
    x.thread_id AS thread_id,
    x.turn_id AS turn_id,
    x.attempt AS attempt,
    p.stream AS stream,
    p.request_model AS request_model,
    p.response_model AS response_model,
    coalesce(p.response_model, p.request_model) AS model,
    p.response_id AS response_id,
    p.status AS status,
    p.http_status AS http_status,
    p.finish_reason AS finish_reason,
    p.error_type AS error_type,
    p.error_code AS error_code,
    p.error_param AS error_param,
    p.error AS error,
    p.user_text AS user_text,
    p.is_turn AS is_turn,
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
        p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id) ORDER BY (o.finish_reason
            IS NOT NULL AND o.finish_reason <> 'cancelled') DESC, coalesce(o.last_number, -1) DESC, o.exchange_id
            DESC LIMIT 1) AS superseded_by,
    p.lossless AS lossless,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'message') AS messages,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'reasoning') AS reasoning,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id AND i.exchange_id = x.exchange_id AND
        i.kind = 'tool_call') AS tool_calls,
    (SELECT count(*) FROM p_anomalies_v1 AS a WHERE a.session_id = x.session_id AND a.exchange_id = x.exchange_id)
        AS anomalies,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.total_tokens AS total_tokens,
    u.partial AS partial,
    t.ttft_ns AS ttft_ns,
    t.duration_ns AS duration_ns
FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id
LEFT JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
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
    count(DISTINCT x.turn_id) + count(CASE WHEN x.turn_id IS NULL AND p.is_turn = 1 AND coalesce(x.attempt, 0) = 0
        THEN 1 END) AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value FROM exchanges
        AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns), coalesce(p.response_model,
            p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x ON
        x.session_id = i.session_id AND x.exchange_id = i.exchange_id
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

# A view that gets columns in its middle is made anew. Roles that have rights here already have them on it too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON exchange_summary TO recorder_writer, recorder_reader;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    run(*(f"ALTER TABLE p_exchanges_v1 ADD COLUMN {column} TEXT" for column in COLUMNS))
    replace(VIEWS, VIEWS_ON_SERVER)
    rebuild()


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    replace(OLD_VIEWS, OLD_VIEWS_ON_SERVER)
    run(*(f"ALTER TABLE p_exchanges_v1 DROP COLUMN {column}" for column in reversed(COLUMNS)))
    rebuild()


def replace(views: tuple[str, ...], views_on_server: tuple[str, ...]) -> None:
    """On a server a view is replaced where it stands, if its columns allow that: who has rights to it keeps them."""
    if op.get_bind().dialect.name == "postgresql":
        run("DROP VIEW exchange_summary")
        run(*(view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW") for view in views_on_server), RIGHTS)
    else:
        run(*(f"DROP VIEW {view.split()[2]}" for view in views), *views)


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
