"""Words of users and tools: to be computed for all that was recorded.

Revision ID: 0015
Revises: 0014

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = (
    """
CREATE TABLE p_user_texts_v1 (
    session_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session_id, digest)
) STRICT
""",
    """
CREATE VIRTUAL TABLE p_search_results_v1 USING fts5(
    output, content='p_results_v1', content_rowid='rowid', tokenize='unicode61 remove_diacritics 2'
)
""",
    """
CREATE VIRTUAL TABLE p_search_user_texts_v1 USING fts5(
    text, content='p_user_texts_v1', content_rowid='rowid', tokenize='unicode61 remove_diacritics 2'
)
""",
)
TABLES_ON_SERVER = (
    """
CREATE TABLE p_user_texts_v1 (
    session_id UUID NOT NULL,
    digest TEXT NOT NULL,
    exchange_id UUID NOT NULL,
    started_ns BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session_id, digest)
)
""",
    """
CREATE TABLE p_search_results_v1 (
    session_id UUID NOT NULL,
    call_key TEXT NOT NULL,
    digest TEXT NOT NULL,
    words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, call_key, digest)
)
""",
    """
CREATE TABLE p_search_user_texts_v1 (
    session_id UUID NOT NULL,
    digest TEXT NOT NULL,
    words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, digest)
)
""",
    "CREATE INDEX p_search_results_v1_words ON p_search_results_v1 USING gin (words)",
    "CREATE INDEX p_search_user_texts_v1_words ON p_search_user_texts_v1 USING gin (words)",
)
INDEX = "CREATE INDEX p_user_texts_v1_exchange ON p_user_texts_v1 (session_id, exchange_id)"
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_user_texts_v1, p_search_results_v1, p_search_user_texts_v1
                TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_user_texts_v1, p_search_results_v1, p_search_user_texts_v1
                TO recorder_writer;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    is_server = op.get_bind().dialect.name == "postgresql"
    run(*(TABLES_ON_SERVER if is_server else TABLES), INDEX)
    rebuild()
    if is_server:
        run(RIGHTS)


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP TABLE p_search_user_texts_v1", "DROP TABLE p_search_results_v1", "DROP TABLE p_user_texts_v1")
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
