"""Prompt cache: to be computed for all that was recorded.

Revision ID: 0014
Revises: 0013

Frozen history: literal SQL, nothing imported from recorder.
"""

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create what this revision adds."""


def downgrade() -> None:
    """Remove it: projections are disposable, the log has all that they say."""
