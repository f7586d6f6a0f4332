"""The parameters of requests: to be computed for all that was recorded.

Revision ID: 0011
Revises: 0010

Frozen history: literal SQL, nothing imported from recorder.
"""

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create what this revision adds."""


def downgrade() -> None:
    """Remove it: projections are disposable, the log has all that they say."""
