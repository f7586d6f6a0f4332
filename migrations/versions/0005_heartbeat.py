"""When the database last heard of each recorder, and on which machine it is.

Revision ID: 0005
Revises: 0004

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# A recorder that runs while this happens counts as heard of: it will say so itself when it is started anew.
HEARD = "UPDATE ingest_offsets SET seen_ns = CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)"


def upgrade() -> None:
    is_server = op.get_bind().dialect.name == "postgresql"
    op.get_bind().exec_driver_sql(
        f"ALTER TABLE ingest_offsets ADD COLUMN seen_ns {'BIGINT' if is_server else 'INTEGER'}"
    )
    op.get_bind().exec_driver_sql("ALTER TABLE ingest_offsets ADD COLUMN host TEXT")
    if is_server:
        op.get_bind().exec_driver_sql(HEARD)


def downgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE ingest_offsets DROP COLUMN host")
    op.get_bind().exec_driver_sql("ALTER TABLE ingest_offsets DROP COLUMN seen_ns")
