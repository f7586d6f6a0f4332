"""Prices and costs: to be computed for all that was recorded.

Revision ID: 0013
Revises: 0012

Frozen history: literal SQL, nothing imported from recorder.
"""

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create what this revision adds."""


def downgrade() -> None:
    """Remove it: projections are disposable, the log has all that they say."""
