"""The archives of a log, and the sessions that went there.

Revision ID: 0018
Revises: 0017

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run()


def downgrade() -> None:
    run()


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
