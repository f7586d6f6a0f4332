"""PostgreSQL: the log, its projections, full-text search and the views, in a schema of their own.

Revision ID: 0004
Revises: 0003

On SQLite nothing changes. Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = (
    """
CREATE TABLE dead_letters (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
)
""",
    """
CREATE TABLE ingest_offsets (
    recorder_id TEXT NOT NULL,
    segment BIGINT NOT NULL,
    "offset" BIGINT NOT NULL,
    PRIMARY KEY (recorder_id)
)
""",
    """
CREATE TABLE p_anomalies_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    anomaly BIGINT NOT NULL,
    kind TEXT NOT NULL,
    pos BIGINT NOT NULL,
    count BIGINT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id, anomaly)
)
""",
    """
CREATE TABLE p_exchanges_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    response_id TEXT,
    request_model TEXT,
    response_model TEXT,
    stream BIGINT,
    status TEXT,
    http_status BIGINT,
    finish_reason TEXT,
    error_type TEXT,
    error_code TEXT,
    error TEXT,
    user_text TEXT,
    is_turn BIGINT NOT NULL,
    lossless BIGINT,
    is_retrieval BIGINT NOT NULL,
    last_number BIGINT,
    PRIMARY KEY (session_id, exchange_id)
)
""",
    """
CREATE TABLE p_items_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    item BIGINT NOT NULL,
    kind TEXT NOT NULL,
    type TEXT NOT NULL,
    output_index BIGINT,
    item_id TEXT,
    role TEXT,
    phase TEXT,
    status TEXT,
    text TEXT,
    refusal TEXT,
    summary TEXT,
    summary_text TEXT,
    encrypted BIGINT,
    annotations TEXT,
    logprobs TEXT,
    name TEXT,
    call_id TEXT,
    call_key TEXT,
    arguments TEXT,
    arguments_json TEXT,
    output TEXT,
    failed BIGINT,
    began_ns BIGINT NOT NULL,
    ended_ns BIGINT,
    PRIMARY KEY (session_id, exchange_id, item)
)
""",
    """
CREATE TABLE p_results_v1 (
    session_id UUID NOT NULL,
    call_key TEXT NOT NULL,
    digest TEXT NOT NULL,
    exchange_id UUID NOT NULL,
    started_ns BIGINT NOT NULL,
    output TEXT NOT NULL,
    failed BIGINT,
    PRIMARY KEY (session_id, call_key, digest)
)
""",
    """
CREATE TABLE p_timing_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    head_ns BIGINT,
    first_byte_ns BIGINT,
    first_event_ns BIGINT,
    first_reasoning_ns BIGINT,
    first_text_ns BIGINT,
    first_arguments_ns BIGINT,
    ttft_ns BIGINT,
    last_event_ns BIGINT,
    duration_ns BIGINT,
    longest_silence_ns BIGINT,
    stalls BIGINT NOT NULL,
    events BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    events_per_s DOUBLE PRECISION,
    bytes_per_s DOUBLE PRECISION,
    gap_p50_ns BIGINT,
    gap_p95_ns BIGINT,
    gap_p99_ns BIGINT,
    PRIMARY KEY (session_id, exchange_id)
)
""",
    """
CREATE TABLE p_usage_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    input_tokens BIGINT,
    cache_read_input_tokens BIGINT,
    cache_write_input_tokens BIGINT,
    output_tokens BIGINT,
    reasoning_output_tokens BIGINT,
    total_tokens BIGINT,
    usage_raw TEXT,
    partial BIGINT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
)
""",
    """
CREATE TABLE rebuilds (
    name TEXT NOT NULL,
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    PRIMARY KEY (name)
)
""",
    """
CREATE TABLE sessions (
    session_id UUID NOT NULL,
    created_ns BIGINT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    labels TEXT NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (session_id)
)
 PARTITION BY RANGE (session_id)
""",
    """
CREATE TABLE tombstones (
    session_id UUID NOT NULL,
    purged_ns BIGINT NOT NULL,
    reason TEXT NOT NULL,
    counts TEXT NOT NULL,
    last_hash BYTEA,
    PRIMARY KEY (session_id)
)
""",
    """
CREATE TABLE exchanges (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    started_ns BIGINT NOT NULL,
    recorder_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    api TEXT NOT NULL,
    method TEXT NOT NULL,
    target TEXT NOT NULL,
    client TEXT,
    client_version TEXT,
    thread_id TEXT,
    turn_id TEXT,
    attempt BIGINT,
    resumes_response_id TEXT,
    resumes_after BIGINT,
    PRIMARY KEY (session_id, exchange_id),
    FOREIGN KEY(session_id) REFERENCES sessions (session_id)
)
 PARTITION BY RANGE (session_id)
""",
    """
CREATE TABLE events (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    pos BIGINT NOT NULL,
    kind TEXT NOT NULL,
    t_ns BIGINT NOT NULL,
    type TEXT,
    sequence_number BIGINT,
    item_id TEXT,
    output_index BIGINT,
    raw BYTEA NOT NULL,
    data_start BIGINT,
    data_length BIGINT,
    hash BYTEA NOT NULL,
    PRIMARY KEY (session_id, exchange_id, pos)
)
 PARTITION BY RANGE (session_id)
""",
)

INDEXES = (
    "CREATE INDEX p_exchanges_v1_response ON p_exchanges_v1 (session_id, response_id)",
    "CREATE INDEX p_items_v1_kind ON p_items_v1 (session_id, exchange_id, kind)",
    "CREATE INDEX p_results_v1_call ON p_results_v1 (session_id, call_key, started_ns)",
    "CREATE INDEX p_results_v1_exchange ON p_results_v1 (session_id, exchange_id)",
    "CREATE INDEX sessions_name ON sessions (name)",
    "CREATE INDEX exchanges_exchange_id ON exchanges (exchange_id)",
    """
CREATE INDEX exchanges_resumes ON exchanges (session_id, resumes_response_id)
        WHERE resumes_response_id IS NOT NULL
""",
    "CREATE INDEX events_end ON events (session_id, exchange_id) WHERE kind = 'end'",
)

THE_REST = (
    "CREATE TABLE sessions_other PARTITION OF sessions DEFAULT",
    "CREATE TABLE exchanges_other PARTITION OF exchanges DEFAULT",
    "CREATE TABLE events_other PARTITION OF events DEFAULT",
    """
CREATE FUNCTION first_id(month timestamp) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT CAST(rpad(lpad(to_hex(CAST(extract(epoch FROM month) * 1000 AS bigint)), 12, '0'), 32, '0') AS uuid)
$$
""",
    """
CREATE FUNCTION add_partitions(ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = recorder, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    month timestamp; parent text; child text;
BEGIN
    FOR n IN 0..least(ahead, 24) LOOP
        month := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n);
        FOREACH parent IN ARRAY ARRAY['sessions', 'exchanges', 'events'] LOOP
            child := parent || to_char(month, '_YYYY_MM');
            CONTINUE WHEN to_regclass('recorder.' || child) IS NOT NULL;
            EXECUTE 'CREATE TABLE ' || child || ' PARTITION OF ' || parent || ' FOR VALUES FROM ('
                || quote_literal(first_id(month)) || ') TO ('
                || quote_literal(first_id(month + interval '1 month')) || ')';
        END LOOP;
    END LOOP;
EXCEPTION WHEN check_violation OR lock_not_available OR duplicate_table OR unique_violation THEN
    NULL;
END $$
""",
    """
CREATE FUNCTION recorder_text(data bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN convert_from(data, 'UTF8');
EXCEPTION WHEN others THEN
    RETURN encode(data, 'escape');
END $$
""",
    """
CREATE TABLE p_search_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    item BIGINT NOT NULL,
    words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, exchange_id, item)
)
""",
    "CREATE INDEX p_search_v1_words ON p_search_v1 USING gin (words)",
    """
CREATE VIEW messages AS
SELECT i.session_id AS session_id,
    s.name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.role AS role,
    i.phase AS phase,
    i.status AS status,
    i.text AS text,
    i.refusal AS refusal,
    i.annotations AS annotations,
    i.logprobs AS logprobs,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
 WHERE i.kind = 'message' AND NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o
        WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL
        AND o.finish_reason <> 'cancelled'),
        coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL
        AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
""",
    """
CREATE VIEW reasoning AS
SELECT i.session_id AS session_id,
    s.name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.status AS status,
    i.summary AS summary,
    i.summary_text AS summary_text,
    i.text AS text,
    i.encrypted AS encrypted,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
 WHERE i.kind = 'reasoning' AND NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o
        WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL
        AND o.finish_reason <> 'cancelled'),
        coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL
        AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
""",
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
        WHEN r.started_ns >= x.started_ns + i.ended_ns
        THEN r.started_ns - (x.started_ns + i.ended_ns) END AS latency_ns,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id

LEFT JOIN p_results_v1 AS r ON r.session_id = i.session_id AND r.call_key = i.call_key AND i.output IS NULL
    AND r.digest = (SELECT n.digest FROM p_results_v1 AS n WHERE n.session_id = i.session_id
        AND n.call_key = i.call_key AND n.started_ns > coalesce((SELECT min(f.started_ns)
        FROM exchanges AS f JOIN p_exchanges_v1 AS q
        ON q.session_id = f.session_id AND q.exchange_id = f.exchange_id WHERE q.session_id = p.session_id
        AND q.response_id = p.response_id
        AND p.is_retrieval = 1), x.started_ns) ORDER BY n.started_ns, n.digest LIMIT 1)
WHERE i.kind = 'tool_call' AND NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o
        WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL
        AND o.finish_reason <> 'cancelled'),
        coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL
        AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
""",
    """
CREATE VIEW usage AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.client AS client,
    p.request_model AS request_model,
    p.response_model AS response_model,
    coalesce(p.response_model, p.request_model) AS model,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.total_tokens AS total_tokens,
    u.usage_raw AS usage_raw,
    u.partial AS partial
FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
JOIN sessions AS s ON s.session_id = x.session_id
WHERE coalesce(p.request_model, p.response_model, u.usage_raw) IS NOT NULL AND NOT EXISTS (SELECT 1
        FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL
        AND o.finish_reason <> 'cancelled'),
        coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL
        AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
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
    p.error AS error,
    p.user_text AS user_text,
    p.is_turn AS is_turn,
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id
        AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL
        AND o.finish_reason <> 'cancelled'),
        coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL
        AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id)
        ORDER BY (o.finish_reason IS NOT NULL AND o.finish_reason <> 'cancelled') DESC,
        coalesce(o.last_number, -1) DESC, o.exchange_id DESC LIMIT 1) AS superseded_by,
    p.lossless AS lossless,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id
        AND i.exchange_id = x.exchange_id AND i.kind = 'message') AS messages,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id
        AND i.exchange_id = x.exchange_id AND i.kind = 'reasoning') AS reasoning,
    (SELECT count(*) FROM p_items_v1 AS i WHERE i.session_id = x.session_id
        AND i.exchange_id = x.exchange_id AND i.kind = 'tool_call') AS tool_calls,
    (SELECT count(*) FROM p_anomalies_v1 AS a WHERE a.session_id = x.session_id
        AND a.exchange_id = x.exchange_id) AS anomalies,
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
    """
CREATE VIEW session_summary AS
SELECT s.session_id AS session_id,
    s.name AS session_name,
    s.created_ns AS created_ns,
    s.origin AS origin,
    s.source AS source,
    (SELECT p.user_text FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id
        AND p.exchange_id = x.exchange_id WHERE x.session_id = s.session_id
        AND p.user_text IS NOT NULL ORDER BY x.started_ns, x.exchange_id LIMIT 1) AS title,
    min(x.started_ns) AS started_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) AS ended_ns,
    max(x.started_ns + coalesce(t.duration_ns, 0)) - min(x.started_ns) AS duration_ns,
    count(x.exchange_id) AS exchanges,
    count(DISTINCT x.turn_id) + count(CASE WHEN x.turn_id IS NULL AND p.is_turn = 1 AND
        coalesce(x.attempt, 0) = 0 THEN 1 END) AS turns,
    count(DISTINCT x.thread_id) AS threads,
    (SELECT string_agg(value, ', ') FROM (SELECT coalesce(p.response_model, p.request_model) AS value
        FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id
        AND p.exchange_id = x.exchange_id
        WHERE x.session_id = s.session_id AND coalesce(p.response_model, p.request_model) IS NOT NULL
        GROUP BY coalesce(p.response_model, p.request_model) ORDER BY min(x.started_ns),
        coalesce(p.response_model, p.request_model)) AS listed) AS models,
    (SELECT string_agg(value, ', ') FROM (SELECT i.name AS value FROM p_items_v1 AS i JOIN exchanges AS x
        ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
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
LEFT JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
        AND NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id
        AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL
        AND o.finish_reason <> 'cancelled'),
        coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL
        AND p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
LEFT JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
GROUP BY s.session_id, s.name
""",
    """
CREATE VIEW usage_by_day AS
SELECT to_char(to_timestamp(started_ns / 1000000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
    count(*) AS exchanges,
    count(usage_raw) AS reported,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(total_tokens) AS BIGINT) AS total_tokens,
    CAST(sum(reasoning_output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL
        AND output_tokens IS NOT NULL) AS DOUBLE PRECISION) / nullif(sum(output_tokens)
        FILTER (WHERE reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL), 0) AS reasoning_share,
    CAST(sum(cache_read_input_tokens) FILTER (WHERE cache_read_input_tokens IS NOT NULL
        AND input_tokens IS NOT NULL) AS DOUBLE PRECISION) / nullif(sum(input_tokens)
        FILTER (WHERE cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL), 0) AS cached_share
FROM usage GROUP BY 1
""",
    """
CREATE VIEW usage_by_model AS
SELECT model,
    count(*) AS exchanges,
    count(usage_raw) AS reported,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
    CAST(sum(total_tokens) AS BIGINT) AS total_tokens,
    CAST(sum(reasoning_output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL
        AND output_tokens IS NOT NULL) AS DOUBLE PRECISION) / nullif(sum(output_tokens)
        FILTER (WHERE reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL), 0) AS reasoning_share,
    CAST(sum(cache_read_input_tokens) FILTER (WHERE cache_read_input_tokens IS NOT NULL
        AND input_tokens IS NOT NULL) AS DOUBLE PRECISION) / nullif(sum(input_tokens)
        FILTER (WHERE cache_read_input_tokens IS NOT NULL AND input_tokens IS NOT NULL), 0) AS cached_share
FROM usage GROUP BY model
""",
    """
CREATE VIEW latency AS
SELECT t.session_id AS session_id,
    s.name AS session_name,
    t.exchange_id AS exchange_id,
    s.origin AS origin,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    coalesce(p.response_model, p.request_model) AS model,
    t.head_ns AS head_ns,
    t.first_byte_ns AS first_byte_ns,
    t.first_event_ns AS first_event_ns,
    t.first_reasoning_ns AS first_reasoning_ns,
    t.first_text_ns AS first_text_ns,
    t.first_arguments_ns AS first_arguments_ns,
    t.ttft_ns AS ttft_ns,
    t.last_event_ns AS last_event_ns,
    t.duration_ns AS duration_ns,
    t.longest_silence_ns AS longest_silence_ns,
    t.stalls AS stalls,
    t.events AS events,
    t.bytes AS bytes,
    t.events_per_s AS events_per_s,
    t.bytes_per_s AS bytes_per_s,
    t.gap_p50_ns AS gap_p50_ns,
    t.gap_p95_ns AS gap_p95_ns,
    t.gap_p99_ns AS gap_p99_ns
FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
JOIN p_timing_v1 AS t ON t.session_id = x.session_id AND t.exchange_id = x.exchange_id
JOIN sessions AS s ON s.session_id = x.session_id
""",
    """
CREATE VIEW event_gaps AS
SELECT e.session_id AS session_id,
    s.name AS session_name,
    e.exchange_id AS exchange_id,
    e.pos AS pos,
    e.type AS type,
    e.t_ns AS t_ns,
    e.t_ns - (SELECT earlier.t_ns FROM events AS earlier WHERE earlier.session_id = e.session_id
        AND earlier.exchange_id = e.exchange_id
        AND earlier.pos < e.pos AND earlier.kind = 'frame' ORDER BY earlier.pos DESC LIMIT 1) AS gap_ns
FROM events AS e JOIN sessions AS s ON s.session_id = e.session_id WHERE e.kind = 'frame'
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
    CAST(sum(octet_length(arguments)) AS BIGINT) AS arguments_bytes
FROM tool_calls GROUP BY name, type
""",
    """
CREATE VIEW anomalies AS
SELECT a.session_id AS session_id,
    s.name AS session_name,
    a.exchange_id AS exchange_id,
    a.anomaly AS anomaly,
    a.kind AS kind,
    a.pos AS pos,
    a.count AS count,
    a.detail AS detail
FROM p_anomalies_v1 AS a JOIN sessions AS s ON s.session_id = a.session_id
""",
    """
CREATE VIEW event_payloads AS
SELECT e.session_id AS session_id,
    s.name AS session_name,
    e.exchange_id AS exchange_id,
    e.pos AS pos,
    e.type AS type,
    recorder_text(substr(e.raw, CAST(e.data_start + 1 AS INTEGER), CAST(e.data_length AS INTEGER))) AS payload
FROM events AS e LEFT JOIN sessions AS s ON s.session_id = e.session_id WHERE e.data_start IS NOT NULL
""",
    "REVOKE ALL ON FUNCTION add_partitions(integer) FROM public",
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for statement in (*TABLES, *INDEXES, *THE_REST):
            op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        raise NotImplementedError("Below this schema there is no log here: to be rid of it, drop the schema recorder.")
