"""How far the exports that go on have come.

Revision ID: 0017
Revises: 0016

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

CURSORS = """
CREATE TABLE export_cursors (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    target TEXT NOT NULL,
    form TEXT NOT NULL,
    traces_ns INTEGER,
    metrics_ns INTEGER,
    tool_items TEXT,
    PRIMARY KEY (session_id, exchange_id, target, form)
)
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON export_cursors TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON export_cursors TO recorder_writer;
        END IF;
    END IF;
END $$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        run(CURSORS.replace("_id TEXT", "_id UUID").replace("INTEGER", "BIGINT"), RIGHTS)
    else:
        run(CURSORS.rstrip() + " STRICT\n")


def downgrade() -> None:
    """What was pushed is pushed again after another upgrade, with the same ids."""
    run("DROP TABLE export_cursors")


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
