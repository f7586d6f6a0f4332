"""Words of users and tools: to be computed for all that was recorded.

Revision ID: 0015
Revises: 0014

Frozen history: literal SQL, nothing imported from recorder.
"""

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create what this revision adds."""


def downgrade() -> None:
    """Remove it: projections are disposable, the log has all that they say."""
