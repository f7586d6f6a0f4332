"""What providers charge, and what each exchange has cost.

Revision ID: 0013
Revises: 0012

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

PRICES = """
CREATE TABLE prices (
    provider TEXT NOT NULL,
    rank INTEGER NOT NULL,
    model TEXT NOT NULL,
    unit TEXT NOT NULL,
    service_tier TEXT NOT NULL,
    above_input_tokens INTEGER NOT NULL,
    daily_from_s INTEGER NOT NULL,
    daily_to_s INTEGER NOT NULL,
    valid_from_ns INTEGER NOT NULL,
    valid_to_ns INTEGER,
    usd_per_million TEXT,
    picousd INTEGER,
    source TEXT NOT NULL,
    source_version TEXT NOT NULL,
    PRIMARY KEY (
        provider, rank, model, unit, service_tier, above_input_tokens, daily_from_s, valid_from_ns
    )
)
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON prices TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON prices TO recorder_writer;
        END IF;
    END IF;
END $$
"""


def upgrade() -> None:
    """Create the table of prices. It is empty until `recorder prices update`."""
    if op.get_bind().dialect.name == "postgresql":
        run(PRICES.replace("INTEGER", "BIGINT"), RIGHTS)
    else:
        run(f"{PRICES.rstrip()} STRICT\n")


def downgrade() -> None:
    """Drop the prices: a list of prices can be had again, but not the time at which each was first seen."""
    run("DROP TABLE prices")


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
