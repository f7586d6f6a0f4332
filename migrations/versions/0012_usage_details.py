"""Details of usage: to be computed for all that was recorded.

Revision ID: 0012
Revises: 0011

Frozen history: literal SQL, nothing imported from recorder.
"""

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create what this revision adds."""


def downgrade() -> None:
    """Remove it: projections are disposable, the log has all that they say."""
