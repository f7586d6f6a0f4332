"""What the provider's own tools did and when, items of no kind, what of a request is wrong; all to be computed anew.

Revision ID: 0008
Revises: 0007

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

PHASES = """
CREATE TABLE p_phases_v1 (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    step INTEGER NOT NULL,
    output_index INTEGER,
    item_id TEXT,
    type TEXT NOT NULL,
    phase TEXT NOT NULL,
    detail TEXT,
    began_ns INTEGER NOT NULL,
    ended_ns INTEGER,
    PRIMARY KEY (session_id, exchange_id, step)
) STRICT
"""
PHASES_ON_SERVER = """
CREATE TABLE p_phases_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    step BIGINT NOT NULL,
    output_index BIGINT,
    item_id TEXT,
    type TEXT NOT NULL,
    phase TEXT NOT NULL,
    detail TEXT,
    began_ns BIGINT NOT NULL,
    ended_ns BIGINT,
    PRIMARY KEY (session_id, exchange_id, step)
)
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_phases_v1, exchange_summary, tool_phases, other_items TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_phases_v1 TO recorder_writer;
        END IF;
    END IF;
END $$
"""
COLUMNS = ("error_param", "last_response_id")
EXCHANGE_SUMMARY = """
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
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
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
"""
OLD_EXCHANGE_SUMMARY = """
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
    (SELECT o.exchange_id FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND p.finish_reason <>
    'cancelled'), coalesce(p.last_number, -1), p.exchange_id) ORDER BY (o.finish_reason IS NOT NULL AND
    o.finish_reason <> 'cancelled') DESC, coalesce(o.last_number, -1) DESC, o.exchange_id DESC LIMIT 1) AS
    superseded_by,
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
"""
TOOL_PHASES = """
CREATE VIEW tool_phases AS
SELECT h.session_id AS session_id,
    s.name AS session_name,
    h.exchange_id AS exchange_id,
    h.step AS step,
    h.output_index AS output_index,
    h.item_id AS item_id,
    h.type AS type,
    h.phase AS phase,
    h.detail AS detail,
    h.began_ns AS began_ns,
    h.ended_ns AS ended_ns,
    h.ended_ns - h.began_ns AS duration_ns
FROM p_phases_v1 AS h
JOIN p_exchanges_v1 AS p ON p.session_id = h.session_id AND p.exchange_id = h.exchange_id
JOIN sessions AS s ON s.session_id = h.session_id
WHERE NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id =
    p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
"""
OTHER_ITEMS = """
CREATE VIEW other_items AS
SELECT i.session_id AS session_id,
    s.name AS session_name,
    i.exchange_id AS exchange_id,
    i.item AS item,
    i.output_index AS output_index,
    i.item_id AS item_id,
    i.type AS type,
    i.name AS name,
    i.call_id AS call_id,
    i.status AS status,
    i.text AS text,
    i.arguments AS arguments,
    i.arguments_json AS arguments_json,
    i.output AS output,
    i.failed AS failed,
    i.began_ns AS began_ns,
    i.ended_ns AS ended_ns
FROM p_items_v1 AS i
JOIN p_exchanges_v1 AS p ON p.session_id = i.session_id AND p.exchange_id = i.exchange_id
JOIN exchanges AS x ON x.session_id = i.session_id AND x.exchange_id = i.exchange_id
JOIN sessions AS s ON s.session_id = i.session_id
 WHERE i.kind = 'other' AND NOT EXISTS (SELECT 1 FROM p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND
     o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
            'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND
            p.finish_reason <> 'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
"""

# The tables keep their names: below this schema nobody reads them, and what they say is computed anew.
DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    is_server = op.get_bind().dialect.name == "postgresql"
    run(PHASES_ON_SERVER if is_server else PHASES)
    run(*(f"ALTER TABLE p_exchanges_v1 ADD COLUMN {column} TEXT" for column in COLUMNS))
    run("DROP VIEW exchange_summary", EXCHANGE_SUMMARY, TOOL_PHASES, OTHER_ITEMS)
    rebuild()
    if is_server:
        run(RIGHTS)


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP VIEW other_items", "DROP VIEW tool_phases", "DROP VIEW exchange_summary")
    run(*(f"ALTER TABLE p_exchanges_v1 DROP COLUMN {column}" for column in reversed(COLUMNS)))
    run("DROP TABLE p_phases_v1", OLD_EXCHANGE_SUMMARY)
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
