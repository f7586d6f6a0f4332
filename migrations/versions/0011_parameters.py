"""The parameters of requests: to be computed for all that was recorded.

Revision ID: 0011
Revises: 0010

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

PARAMETERS = """
CREATE TABLE p_parameters_v1 (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    reasoning_effort TEXT,
    reasoning_mode TEXT,
    reasoning_summary TEXT,
    reasoning_budget_tokens INTEGER,
    verbosity TEXT,
    max_output_tokens INTEGER,
    temperature REAL,
    top_p REAL,
    service_tier TEXT,
    response_service_tier TEXT,
    store INTEGER,
    response_format TEXT,
    response_schema TEXT,
    tool_choice TEXT,
    parallel_tool_calls INTEGER,
    tools INTEGER,
    tool_names TEXT,
    input_messages INTEGER,
    input_tool_calls INTEGER,
    input_tool_results INTEGER,
    input_reasoning INTEGER,
    input_other INTEGER,
    new_user_text TEXT,
    system_bytes INTEGER,
    system_digest TEXT,
    tools_bytes INTEGER,
    tools_digest TEXT,
    prompt_cache_key TEXT,
    prompt_cache_retention TEXT,
    cache_markers INTEGER,
    request_digest TEXT,
    PRIMARY KEY (session_id, exchange_id)
) STRICT
"""
PARAMETERS_ON_SERVER = """
CREATE TABLE p_parameters_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    reasoning_effort TEXT,
    reasoning_mode TEXT,
    reasoning_summary TEXT,
    reasoning_budget_tokens BIGINT,
    verbosity TEXT,
    max_output_tokens BIGINT,
    temperature DOUBLE PRECISION,
    top_p DOUBLE PRECISION,
    service_tier TEXT,
    response_service_tier TEXT,
    store BIGINT,
    response_format TEXT,
    response_schema TEXT,
    tool_choice TEXT,
    parallel_tool_calls BIGINT,
    tools BIGINT,
    tool_names TEXT,
    input_messages BIGINT,
    input_tool_calls BIGINT,
    input_tool_results BIGINT,
    input_reasoning BIGINT,
    input_other BIGINT,
    new_user_text TEXT,
    system_bytes BIGINT,
    system_digest TEXT,
    tools_bytes BIGINT,
    tools_digest TEXT,
    prompt_cache_key TEXT,
    prompt_cache_retention TEXT,
    cache_markers BIGINT,
    request_digest TEXT,
    PRIMARY KEY (session_id, exchange_id)
)
"""
OLD_REQUESTS = """
CREATE VIEW requests AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.api AS api,
    coalesce(p.response_model, p.request_model) AS model,
    r.previous_response_id AS previous_response_id,
    r.conversation_id AS conversation_id,
    r.previous_exchange_id AS previous_exchange_id,
    r.depth AS depth,
    r.is_complete AS is_complete,
    r.input_items AS input_items,
    r.logical_items AS logical_items,
    r.is_prewarm AS is_prewarm,
    p.user_text AS user_text,
    p.is_turn AS is_turn
FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
JOIN p_requests_v1 AS r ON r.session_id = x.session_id AND r.exchange_id = x.exchange_id
JOIN sessions AS s ON s.session_id = x.session_id
WHERE p.is_retrieval = 0
"""
REQUESTS = """
CREATE VIEW requests AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.api AS api,
    coalesce(p.response_model, p.request_model) AS model,
    r.previous_response_id AS previous_response_id,
    r.conversation_id AS conversation_id,
    r.previous_exchange_id AS previous_exchange_id,
    r.depth AS depth,
    r.is_complete AS is_complete,
    r.input_items AS input_items,
    r.logical_items AS logical_items,
    r.is_prewarm AS is_prewarm,
    p.user_text AS user_text,
    p.is_turn AS is_turn,
    p.request_model AS request_model,
    p.stream AS stream,
    q.reasoning_effort AS reasoning_effort,
    q.reasoning_mode AS reasoning_mode,
    q.reasoning_summary AS reasoning_summary,
    q.reasoning_budget_tokens AS reasoning_budget_tokens,
    q.verbosity AS verbosity,
    q.max_output_tokens AS max_output_tokens,
    q.temperature AS temperature,
    q.top_p AS top_p,
    q.service_tier AS service_tier,
    q.response_service_tier AS response_service_tier,
    q.store AS store,
    q.response_format AS response_format,
    q.response_schema AS response_schema,
    q.tool_choice AS tool_choice,
    q.parallel_tool_calls AS parallel_tool_calls,
    q.tools AS tools,
    q.tool_names AS tool_names,
    q.input_messages AS input_messages,
    q.input_tool_calls AS input_tool_calls,
    q.input_tool_results AS input_tool_results,
    q.input_reasoning AS input_reasoning,
    q.input_other AS input_other,
    q.new_user_text AS new_user_text,
    q.system_bytes AS system_bytes,
    q.system_digest AS system_digest,
    q.tools_bytes AS tools_bytes,
    q.tools_digest AS tools_digest,
    q.prompt_cache_key AS prompt_cache_key,
    q.prompt_cache_retention AS prompt_cache_retention,
    q.cache_markers AS cache_markers,
    q.request_digest AS request_digest
FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
JOIN p_requests_v1 AS r ON r.session_id = x.session_id AND r.exchange_id = x.exchange_id
JOIN sessions AS s ON s.session_id = x.session_id
LEFT JOIN p_parameters_v1 AS q ON q.session_id = x.session_id AND q.exchange_id = x.exchange_id
WHERE p.is_retrieval = 0
"""
REASONING_BY_EFFORT = """
CREATE VIEW reasoning_by_effort AS
SELECT u.model AS model,
    e.effort AS reasoning_effort,
    count(*) AS exchanges,
    count(u.usage_raw) AS reported,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_output_tokens) AS reasoning_output_tokens,
    CAST(sum(reasoning_output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL AND output_tokens IS NOT NULL)
        AS DOUBLE PRECISION) / nullif(sum(output_tokens) FILTER (WHERE reasoning_output_tokens IS NOT NULL AND
        output_tokens IS NOT NULL), 0) AS reasoning_share,
    CAST(round(avg(t.ttft_ns)) AS BIGINT) AS ttft_avg_ns,
    CAST(round(avg(t.duration_ns)) AS BIGINT) AS duration_avg_ns
FROM usage AS u
JOIN (SELECT a.session_id AS session_id,
    a.exchange_id AS exchange_id,
    q.reasoning_effort AS effort,
    coalesce(t.response_service_tier, q.response_service_tier, q.service_tier) AS tier,
    q.tools AS tools
FROM (SELECT p.session_id AS session_id, p.exchange_id AS exchange_id, CASE WHEN p.is_retrieval = 0 THEN p.exchange_id
    ELSE (SELECT o.exchange_id
        FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND o.is_retrieval = 0 ORDER BY o.exchange_id LIMIT 1) END AS request_id
    FROM p_exchanges_v1 AS p) AS a
LEFT JOIN p_parameters_v1 AS q ON q.session_id = a.session_id AND q.exchange_id = a.request_id
LEFT JOIN p_parameters_v1 AS t ON t.session_id = a.session_id AND t.exchange_id = a.exchange_id) AS e ON e.session_id
    = u.session_id AND e.exchange_id = u.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = u.session_id AND t.exchange_id = u.exchange_id
GROUP BY u.model, e.effort
"""
# PostgreSQL sums to numbers of any length, which programs read as decimals.
SUMS_ON_SERVER = {
    f"    sum({name}) AS {name}": f"    CAST(sum({name}) AS BIGINT) AS {name}"
    for name in ("output_tokens", "reasoning_output_tokens")
}
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_parameters_v1, requests, reasoning_by_effort TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_parameters_v1 TO recorder_writer;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    """Create the table and its view. On a server a view may have others on it: it is replaced, never dropped."""
    if op.get_bind().dialect.name == "postgresql":
        on_server = REASONING_BY_EFFORT
        for in_file, written in SUMS_ON_SERVER.items():
            on_server = on_server.replace(in_file, written)
        run(PARAMETERS_ON_SERVER, REQUESTS.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"), on_server, RIGHTS)
    else:
        run(PARAMETERS, "DROP VIEW requests", REQUESTS, REASONING_BY_EFFORT)
    rebuild()


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP VIEW reasoning_by_effort", "DROP VIEW requests", OLD_REQUESTS, "DROP TABLE p_parameters_v1")
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
