"""The log, its projections, full-text search and prices, in a file and on a server.

A table is written once, with the types of a file. On a server `ID` is a uuid, an integer has 64
bits, and so on; a file has its tables STRICT, and compact ones in place of `exchanges` and
`events`, which are views there. Tables and indexes are literal, so that a later revision knows what
it finds. Views and guards are not data: `recreate` makes those of the recorder which upgrades, so
that a changed view needs no revision with its text.

Before the first release a table of a projection that changes is written here, and the revision gets
another number, also if only its rows are others: a log with one of the numbers before (`UNRELEASED`
in `recorder.store.maintain.migrate`) has its projections made again.

Revision ID: 4
"""

import re

from alembic import op

from recorder.store.maintain.migrate import APPLICATION_ID, recreate

revision = "4"
down_revision = None
branch_labels = None
depends_on = None

# Whole on a server. A file has `STORED` in place of the second and the third.
TABLES = {
    "sessions": """
    session_id ID NOT NULL, created_ns INTEGER NOT NULL, name TEXT NOT NULL, source TEXT NOT NULL,
    labels TEXT NOT NULL, origin TEXT NOT NULL, PRIMARY KEY (session_id)
""",
    "exchanges": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, started_ns INTEGER NOT NULL,
    recorder_id TEXT NOT NULL, provider TEXT NOT NULL, api TEXT NOT NULL, method TEXT NOT NULL,
    target TEXT NOT NULL, client TEXT, client_version TEXT, thread_id TEXT, turn_id TEXT,
    attempt INTEGER, resumes_response_id TEXT, resumes_after INTEGER,
    PRIMARY KEY (session_id, exchange_id),
    FOREIGN KEY(session_id) REFERENCES sessions (session_id)
""",
    "events": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, pos INTEGER NOT NULL, kind TEXT NOT NULL,
    t_ns INTEGER NOT NULL, type TEXT, sequence_number INTEGER, item_id TEXT, output_index INTEGER,
    raw BLOB NOT NULL, data_start INTEGER, data_length INTEGER, hash BLOB NOT NULL,
    PRIMARY KEY (session_id, exchange_id, pos)
""",
    "tombstones": """
    session_id ID NOT NULL, purged_ns INTEGER NOT NULL, reason TEXT NOT NULL, counts TEXT NOT NULL,
    last_hash BLOB, PRIMARY KEY (session_id)
""",
    "ingest_offsets": """
    recorder_id TEXT NOT NULL, segment INTEGER NOT NULL, "offset" INTEGER NOT NULL, seen_ns INTEGER,
    host TEXT, PRIMARY KEY (recorder_id)
""",
    "rebuilds": """
    name TEXT NOT NULL, session_id TEXT NOT NULL, exchange_id TEXT NOT NULL, PRIMARY KEY (name)
""",
    "dead_letters": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
""",
    "export_cursors": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, target TEXT NOT NULL, form TEXT NOT NULL,
    traces_ns INTEGER, metrics_ns INTEGER, tool_items TEXT,
    PRIMARY KEY (session_id, exchange_id, target, form)
""",
    "archives": """
    url TEXT NOT NULL, attached_ns INTEGER NOT NULL, PRIMARY KEY (url)
""",
    "prices": """
    provider TEXT NOT NULL, rank INTEGER NOT NULL, model TEXT NOT NULL, unit TEXT NOT NULL,
    service_tier TEXT NOT NULL, above_input_tokens INTEGER NOT NULL, daily_from_s INTEGER NOT NULL,
    daily_to_s INTEGER NOT NULL, valid_from_ns INTEGER NOT NULL, valid_to_ns INTEGER,
    usd_per_million TEXT, picousd INTEGER, source TEXT NOT NULL, source_version TEXT NOT NULL,
    PRIMARY KEY (provider, rank, model, unit, service_tier, above_input_tokens, daily_from_s, valid_from_ns)
""",
    "p_anomalies_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, anomaly INTEGER NOT NULL, kind TEXT NOT NULL,
    pos INTEGER NOT NULL, count INTEGER NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id, anomaly)
""",
    "p_exchanges_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, response_id TEXT, request_model TEXT,
    response_model TEXT, stream INTEGER, status TEXT, http_status INTEGER, finish_reason TEXT,
    error_type TEXT, error_code TEXT, error TEXT, user_text TEXT, is_turn INTEGER NOT NULL,
    lossless INTEGER, is_retrieval INTEGER NOT NULL, last_number INTEGER, error_param TEXT,
    last_response_id TEXT, purpose TEXT, parent_thread_id TEXT, owner TEXT, team TEXT, tags TEXT,
    content TEXT,
    PRIMARY KEY (session_id, exchange_id)
""",
    "p_history_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, digest TEXT NOT NULL, request_digest TEXT,
    about TEXT, ids TEXT, PRIMARY KEY (session_id, exchange_id)
""",
    "p_items_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, item INTEGER NOT NULL, kind TEXT NOT NULL,
    type TEXT NOT NULL, output_index INTEGER, item_id TEXT, role TEXT, phase TEXT, status TEXT,
    text TEXT, refusal TEXT, summary TEXT, summary_text TEXT, encrypted INTEGER, annotations TEXT,
    logprobs TEXT, name TEXT, call_id TEXT, call_key TEXT, arguments TEXT, arguments_json TEXT,
    output TEXT, failed INTEGER, began_ns INTEGER NOT NULL, ended_ns INTEGER, thread_id TEXT,
    PRIMARY KEY (session_id, exchange_id, item)
""",
    "p_iterations_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, iteration INTEGER NOT NULL, type TEXT NOT NULL,
    model TEXT, input_tokens INTEGER, cache_read_input_tokens INTEGER,
    cache_write_input_tokens INTEGER, cache_write_1h_input_tokens INTEGER, output_tokens INTEGER,
    input_audio_tokens INTEGER,
    PRIMARY KEY (session_id, exchange_id, iteration)
""",
    "p_parameters_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, reasoning_effort TEXT, reasoning_mode TEXT,
    reasoning_summary TEXT, reasoning_budget_tokens INTEGER, verbosity TEXT,
    max_output_tokens INTEGER, temperature REAL, top_p REAL, service_tier TEXT,
    response_service_tier TEXT, store INTEGER, response_format TEXT, response_schema TEXT,
    tool_choice TEXT, parallel_tool_calls INTEGER, tools INTEGER, tool_names TEXT,
    input_messages INTEGER, input_tool_calls INTEGER, input_tool_results INTEGER,
    input_reasoning INTEGER, input_other INTEGER, new_user_text TEXT, system_bytes INTEGER,
    system_digest TEXT, tools_bytes INTEGER, tools_digest TEXT, prompt_cache_key TEXT,
    prompt_cache_retention TEXT, cache_markers INTEGER, request_digest TEXT,
    PRIMARY KEY (session_id, exchange_id)
""",
    "p_phases_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, step INTEGER NOT NULL, output_index INTEGER,
    item_id TEXT, type TEXT NOT NULL, phase TEXT NOT NULL, detail TEXT, began_ns INTEGER NOT NULL,
    ended_ns INTEGER, PRIMARY KEY (session_id, exchange_id, step)
""",
    "p_prompts_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, provider TEXT NOT NULL, api TEXT NOT NULL,
    model TEXT, thread_id TEXT, purpose TEXT, started_ns INTEGER NOT NULL, served_ns INTEGER,
    input_tokens INTEGER, cached_tokens INTEGER, continues INTEGER NOT NULL, retention TEXT,
    root TEXT NOT NULL, suspects TEXT NOT NULL, head_segments INTEGER NOT NULL,
    system_segments INTEGER NOT NULL, prompt_bytes INTEGER NOT NULL, cache_class TEXT,
    previous_exchange_id ID, common_bytes INTEGER, could_tokens INTEGER, missed_tokens INTEGER,
    is_estimate INTEGER NOT NULL, since_use_ns INTEGER, path TEXT, digests BLOB NOT NULL,
    places BLOB NOT NULL, PRIMARY KEY (session_id, exchange_id)
""",
    "p_requests_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, previous_response_id TEXT,
    conversation_id TEXT, is_prewarm INTEGER NOT NULL, input_items INTEGER NOT NULL,
    response_id TEXT, output_items INTEGER NOT NULL, previous_exchange_id ID,
    depth INTEGER NOT NULL, is_complete INTEGER NOT NULL, logical_items INTEGER NOT NULL,
    other_ids TEXT, PRIMARY KEY (session_id, exchange_id)
""",
    "p_results_v1": """
    session_id ID NOT NULL, call_key TEXT NOT NULL, digest TEXT NOT NULL, exchange_id ID NOT NULL,
    started_ns INTEGER NOT NULL, output TEXT NOT NULL, failed INTEGER,
    PRIMARY KEY (session_id, call_key, digest)
""",
    "p_timing_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, head_ns INTEGER, first_byte_ns INTEGER,
    first_event_ns INTEGER, first_reasoning_ns INTEGER, first_text_ns INTEGER,
    first_arguments_ns INTEGER, ttft_ns INTEGER, last_event_ns INTEGER, duration_ns INTEGER,
    longest_silence_ns INTEGER, stalls INTEGER NOT NULL, events INTEGER NOT NULL,
    bytes INTEGER NOT NULL, events_per_s REAL, bytes_per_s REAL, gap_p50_ns INTEGER,
    gap_p95_ns INTEGER, gap_p99_ns INTEGER, PRIMARY KEY (session_id, exchange_id)
""",
    "p_usage_v1": """
    session_id ID NOT NULL, exchange_id ID NOT NULL, input_tokens INTEGER,
    cache_read_input_tokens INTEGER, cache_write_input_tokens INTEGER, output_tokens INTEGER,
    reasoning_output_tokens INTEGER, total_tokens INTEGER, usage_raw TEXT, partial INTEGER NOT NULL,
    cache_write_1h_input_tokens INTEGER, input_audio_tokens INTEGER,
    cache_read_input_audio_tokens INTEGER, input_image_tokens INTEGER, input_video_tokens INTEGER,
    output_audio_tokens INTEGER, output_image_tokens INTEGER, output_video_tokens INTEGER,
    output_citation_tokens INTEGER, web_searches INTEGER, reported_cost_usd TEXT,
    reported_cost_source TEXT, started_ns INTEGER, model TEXT, client TEXT, outcome TEXT,
    reported INTEGER, inference_geo TEXT, billed_input_tokens INTEGER, billed_output_tokens INTEGER,
    PRIMARY KEY (session_id, exchange_id)
""",
    "p_user_texts_v1": """
    session_id ID NOT NULL, digest TEXT NOT NULL, exchange_id ID NOT NULL,
    started_ns INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (session_id, digest)
""",
}

STORED = {
    "stored_exchanges": """
    number INTEGER NOT NULL, session_id TEXT NOT NULL, exchange_id TEXT NOT NULL,
    started_ns INTEGER NOT NULL, recorder_id TEXT NOT NULL, provider TEXT NOT NULL,
    api TEXT NOT NULL, method TEXT NOT NULL, target TEXT NOT NULL, client TEXT, client_version TEXT,
    thread_id TEXT, turn_id TEXT, attempt INTEGER, resumes_response_id TEXT, resumes_after INTEGER,
    PRIMARY KEY (number), UNIQUE (session_id, exchange_id),
    FOREIGN KEY(session_id) REFERENCES sessions (session_id)
""",
    "stored_events": """
    exchange INTEGER NOT NULL, pos INTEGER NOT NULL, kind TEXT NOT NULL, t_ns INTEGER NOT NULL,
    type INTEGER, sequence_number INTEGER, item INTEGER, output_index INTEGER, raw BLOB NOT NULL,
    data_start INTEGER, data_length INTEGER, hash BLOB NOT NULL,
    PRIMARY KEY (exchange, pos), FOREIGN KEY(exchange) REFERENCES stored_exchanges (number)
""",
    "event_types": """
    number INTEGER NOT NULL, type TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (type)
""",
    "event_items": """
    number INTEGER NOT NULL, exchange INTEGER NOT NULL, item_id TEXT NOT NULL,
    PRIMARY KEY (number), UNIQUE (exchange, item_id),
    FOREIGN KEY(exchange) REFERENCES stored_exchanges (number)
""",
}

INDEXES = (
    "p_exchanges_v1_response ON p_exchanges_v1 (session_id, response_id)",
    "p_exchanges_v1_retrieval ON p_exchanges_v1 (session_id) WHERE is_retrieval = 1",
    "p_history_v1_digest ON p_history_v1 (digest)",
    "p_history_v1_request ON p_history_v1 (request_digest)",
    "p_items_v1_kind ON p_items_v1 (session_id, exchange_id, kind)",
    "p_requests_v1_conversation ON p_requests_v1 (session_id, conversation_id, exchange_id) WHERE "
    "conversation_id IS NOT NULL",
    "p_requests_v1_previous_response ON p_requests_v1 (session_id, previous_response_id, exchange_id) "
    "WHERE previous_response_id IS NOT NULL",
    "p_requests_v1_response ON p_requests_v1 (session_id, response_id, exchange_id)",
    "p_requests_v1_rotated ON p_requests_v1 (session_id, exchange_id) WHERE other_ids IS NOT NULL",
    "p_results_v1_call ON p_results_v1 (session_id, call_key, started_ns)",
    "p_results_v1_exchange ON p_results_v1 (session_id, exchange_id)",
    "p_user_texts_v1_exchange ON p_user_texts_v1 (session_id, exchange_id)",
    "sessions_name ON sessions (name)",
)
OF_A_SERVER = (
    "exchanges_exchange_id ON exchanges (exchange_id)",
    "exchanges_resumes ON exchanges (session_id, resumes_response_id) WHERE resumes_response_id IS NOT NULL",
    "events_end ON events (session_id, exchange_id) WHERE kind = 'end'",
)
OF_A_FILE = (
    "exchanges_exchange_id ON stored_exchanges (exchange_id)",
    "exchanges_resumes ON stored_exchanges (session_id, resumes_response_id) WHERE resumes_response_id IS NOT NULL",
    "events_end ON stored_events (exchange) WHERE kind = 'end'",
    "p_usage_v1_sums ON p_usage_v1 (CAST((started_ns - (started_ns) % 86400000000000) / "
    "86400000000000 AS BIGINT), model, client, outcome, session_id, exchange_id, started_ns, "
    "reported, input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, "
    "reasoning_output_tokens, total_tokens)",
    "sessions_newest ON sessions (session_id DESC, name, created_ns, origin, source)",
)

# The words of a row, by the rowid of its table.
SEARCHED = {
    "p_search_v1": ("p_items_v1", "text, refusal, summary_text, arguments"),
    "p_search_results_v1": ("p_results_v1", "output"),
    "p_search_user_texts_v1": ("p_user_texts_v1", "text"),
}
FTS5 = (
    "CREATE VIRTUAL TABLE {0} USING fts5({2}, content='{1}', content_rowid='rowid', "
    "tokenize='unicode61 remove_diacritics 2')"
)

PARTITIONED = ("sessions", "exchanges", "events")
# Functions, partitions of what fits no month, words, and the right to make partitions.
MORE_OF_A_SERVER = (
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
CREATE FUNCTION recorder_text(data bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE AS $$
BEGIN
    RETURN convert_from(data, 'UTF8');
EXCEPTION WHEN others THEN
    RETURN encode(data, 'escape');
END $$
""",
    """
CREATE TABLE p_search_v1 (
    session_id UUID NOT NULL, exchange_id UUID NOT NULL, item BIGINT NOT NULL, words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, exchange_id, item)
)
""",
    """
CREATE TABLE p_search_results_v1 (
    session_id UUID NOT NULL, call_key TEXT NOT NULL, digest TEXT NOT NULL, words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, call_key, digest)
)
""",
    """
CREATE TABLE p_search_user_texts_v1 (
    session_id UUID NOT NULL, digest TEXT NOT NULL, words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, digest)
)
""",
    "CREATE INDEX p_search_v1_words ON p_search_v1 USING gin (words)",
    "CREATE INDEX p_search_results_v1_words ON p_search_results_v1 USING gin (words)",
    "CREATE INDEX p_search_user_texts_v1_words ON p_search_user_texts_v1 USING gin (words)",
    "CREATE STATISTICS p_usage_v1_days ON (started_ns / 86400000000000) FROM p_usage_v1",
    "REVOKE ALL ON FUNCTION add_partitions(integer) FROM public",
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        create_file()
    else:
        create_on_server()
    recreate(op.get_bind())


def downgrade() -> None:
    raise NotImplementedError(
        "Below the first schema there is no log: to be rid of it, delete the file."
    )


def create_file() -> None:
    run(f"PRAGMA application_id = {APPLICATION_ID}")
    for name, columns in {**TABLES, **STORED}.items():
        if name not in ("exchanges", "events"):
            run(f"CREATE TABLE {name} ({typed(columns, {'ID': 'TEXT'})}) STRICT")
    for index in (*INDEXES, *OF_A_FILE):
        run(f"CREATE INDEX {index}")
    for name, (table, columns) in SEARCHED.items():
        run(FTS5.format(name, table, columns))


def create_on_server() -> None:
    for name, columns in TABLES.items():
        partitioned = " PARTITION BY RANGE (session_id)" if name in PARTITIONED else ""
        run(f"CREATE TABLE {name} ({typed(columns, OF_SERVERS)}){partitioned}")
    for index in (*INDEXES, *OF_A_SERVER):
        run(f"CREATE INDEX {index}")
    for statement in MORE_OF_A_SERVER:
        run(statement)


OF_SERVERS = {"ID": "UUID", "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}


def typed(columns: str, types: dict[str, str]) -> str:
    return re.sub(rf"\b({'|'.join(types)})\b", lambda found: types[found[0]], columns)


def run(statement: str) -> None:
    op.get_bind().exec_driver_sql(statement)
