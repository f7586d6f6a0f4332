"""Prompt cache: to be computed for all that was recorded.

Revision ID: 0014
Revises: 0013

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

PROMPTS = """
CREATE TABLE p_prompts_v1 (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    api TEXT NOT NULL,
    model TEXT,
    thread_id TEXT,
    purpose TEXT,
    started_ns INTEGER NOT NULL,
    served_ns INTEGER,
    input_tokens INTEGER,
    cached_tokens INTEGER,
    continues INTEGER NOT NULL,
    retention TEXT,
    root TEXT NOT NULL,
    suspects TEXT NOT NULL,
    head_segments INTEGER NOT NULL,
    system_segments INTEGER NOT NULL,
    prompt_bytes INTEGER NOT NULL,
    cache_class TEXT,
    previous_exchange_id TEXT,
    common_bytes INTEGER,
    could_tokens INTEGER,
    missed_tokens INTEGER,
    is_estimate INTEGER NOT NULL,
    since_use_ns INTEGER,
    path TEXT,
    digests BLOB NOT NULL,
    places BLOB NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
) STRICT
"""
PROMPTS_ON_SERVER = """
CREATE TABLE p_prompts_v1 (
    session_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    provider TEXT NOT NULL,
    api TEXT NOT NULL,
    model TEXT,
    thread_id TEXT,
    purpose TEXT,
    started_ns BIGINT NOT NULL,
    served_ns BIGINT,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    continues BIGINT NOT NULL,
    retention TEXT,
    root TEXT NOT NULL,
    suspects TEXT NOT NULL,
    head_segments BIGINT NOT NULL,
    system_segments BIGINT NOT NULL,
    prompt_bytes BIGINT NOT NULL,
    cache_class TEXT,
    previous_exchange_id UUID,
    common_bytes BIGINT,
    could_tokens BIGINT,
    missed_tokens BIGINT,
    is_estimate BIGINT NOT NULL,
    since_use_ns BIGINT,
    path TEXT,
    digests BYTEA NOT NULL,
    places BYTEA NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
)
"""
VIEW = """
CREATE VIEW cache_misses AS
SELECT c.session_id AS session_id,
    s.name AS session_name,
    c.exchange_id AS exchange_id,
    c.started_ns AS started_ns,
    c.provider AS provider,
    c.api AS api,
    c.model AS model,
    c.cache_class AS class,
    CASE WHEN c.cache_class IN ('prefix_changed', 'other_parameters', 'not_marked') THEN 1 ELSE 0 END AS is_avoidable,
    c.input_tokens AS input_tokens,
    c.could_tokens AS could_tokens,
    c.cached_tokens AS cached_tokens,
    c.missed_tokens AS missed_tokens,
    c.is_estimate AS is_estimate,
    c.since_use_ns AS since_use_ns,
    c.path AS path,
    c.previous_exchange_id AS previous_exchange_id,
    c.common_bytes AS common_bytes,
    c.prompt_bytes AS prompt_bytes
FROM p_prompts_v1 AS c
JOIN sessions AS s ON s.session_id = c.session_id
WHERE c.cache_class IS NOT NULL AND c.cache_class <> 'hit' AND c.cache_class <> 'first'
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_prompts_v1, cache_misses TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_prompts_v1 TO recorder_writer;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    is_server = op.get_bind().dialect.name == "postgresql"
    run(PROMPTS_ON_SERVER if is_server else PROMPTS, VIEW)
    rebuild()
    if is_server:
        run(RIGHTS)


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP VIEW cache_misses", "DROP TABLE p_prompts_v1")
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
