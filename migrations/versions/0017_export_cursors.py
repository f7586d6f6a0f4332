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


def upgrade() -> None:
    run()


def downgrade() -> None:
    run()


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
