"""The archives that are read together with a log.

Revision ID: 0018
Revises: 0017

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

ARCHIVES = """
CREATE TABLE archives (
    url TEXT NOT NULL,
    attached_ns INTEGER NOT NULL,
    PRIMARY KEY (url)
)
"""
# Roles that have rights here already may read it. Only the owner may delete from the log, so only the owner archives.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON archives TO recorder_writer, recorder_reader;
        END IF;
    END IF;
END $$
"""


def upgrade() -> None:
    """Create the table of archives, which is empty until the first is attached."""
    if op.get_bind().dialect.name == "postgresql":
        run(ARCHIVES.replace("INTEGER", "BIGINT"), RIGHTS)
    else:
        run(f"{ARCHIVES.rstrip()} STRICT\n")


def downgrade() -> None:
    """Drop the table: the archives themselves stay as they are."""
    run("DROP TABLE archives")


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
