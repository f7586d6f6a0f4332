"""Requests, and what they continue: to be computed for all that was recorded.

Revision ID: 0010
Revises: 0009

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

REQUESTS = """
CREATE TABLE p_requests_v1 (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    previous_response_id TEXT,
    conversation_id TEXT,
    is_prewarm INTEGER NOT NULL,
    input_items INTEGER NOT NULL,
    response_id TEXT,
    output_items INTEGER NOT NULL,
    previous_exchange_id TEXT,
    depth INTEGER NOT NULL,
    is_complete INTEGER NOT NULL,
    logical_items INTEGER NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
) STRICT
"""
REQUESTS_ON_SERVER = """
CREATE TABLE p_requests_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    previous_response_id TEXT,
    conversation_id TEXT,
    is_prewarm BIGINT NOT NULL,
    input_items BIGINT NOT NULL,
    response_id TEXT,
    output_items BIGINT NOT NULL,
    previous_exchange_id UUID,
    depth BIGINT NOT NULL,
    is_complete BIGINT NOT NULL,
    logical_items BIGINT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
)
"""
INDEXES = (
    "CREATE INDEX p_requests_v1_response ON p_requests_v1 (session_id, response_id, exchange_id)",
    "CREATE INDEX p_requests_v1_previous_response ON p_requests_v1 (session_id, previous_response_id, exchange_id) "
    "WHERE previous_response_id IS NOT NULL",
    "CREATE INDEX p_requests_v1_conversation ON p_requests_v1 (session_id, conversation_id, exchange_id) "
    "WHERE conversation_id IS NOT NULL",
)
VIEW = """
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
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_requests_v1, requests TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_requests_v1 TO recorder_writer;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    is_server = op.get_bind().dialect.name == "postgresql"
    run(REQUESTS_ON_SERVER if is_server else REQUESTS, *INDEXES, VIEW)
    rebuild()
    if is_server:
        run(RIGHTS)


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP VIEW requests", "DROP TABLE p_requests_v1")
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
