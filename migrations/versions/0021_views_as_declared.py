"""Views as this recorder declares them, columns that they read, and a rebuild.

A view is not data: this revision has no text of one. It asks `recorder.projections.views` for all of them, so that a
changed view needs no line here. There is no way down for the same reason: the older texts are with older recorders.

Revision ID: 0021
Revises: 0020
"""

from alembic import op

from recorder.projections.views import VIEWS

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

# Of a table: what `ALTER TABLE … ADD COLUMN` takes, with the types of a file.
COLUMNS = {
    "p_history_v1": "request_digest TEXT, about TEXT, ids TEXT",
    "p_requests_v1": "other_ids TEXT",
    "p_usage_v1": "inference_geo TEXT, billed_input_tokens INTEGER, billed_output_tokens INTEGER",
}
HISTORY_INDEX = "CREATE INDEX p_history_v1_request ON p_history_v1 (request_digest)"
ROTATED_INDEX = (
    "CREATE INDEX p_requests_v1_rotated ON p_requests_v1 (session_id, exchange_id) WHERE other_ids IS NOT NULL"
)

ITERATIONS = """
CREATE TABLE p_iterations_v1 (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    type TEXT NOT NULL,
    model TEXT,
    input_tokens INTEGER,
    cache_read_input_tokens INTEGER,
    cache_write_input_tokens INTEGER,
    cache_write_1h_input_tokens INTEGER,
    output_tokens INTEGER,
    PRIMARY KEY (session_id, exchange_id, iteration)
)
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_iterations_v1 TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_iterations_v1 TO recorder_writer;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    """Add columns and indexes, replace all views, and have all projections computed from the beginning."""
    dialect = op.get_bind().dialect.name
    if dialect == "postgresql":
        run(ITERATIONS.replace("_id TEXT", "_id UUID").replace("INTEGER", "BIGINT"), RIGHTS)
    else:
        run(ITERATIONS.rstrip() + " STRICT\n")
    for table, columns in COLUMNS.items():
        for column in columns.split(", "):
            add_column(table, column, dialect)
    run(HISTORY_INDEX, ROTATED_INDEX)
    for view in VIEWS:
        replace(view.name, view.statement(dialect), dialect)
    run("DELETE FROM rebuilds", DUE.format(START[dialect]))


def downgrade() -> None:
    raise NotImplementedError("There is no way back before 0021: read this log with a recorder that knows it.")


def add_column(table: str, column: str, dialect: str) -> None:
    if dialect == "postgresql":
        column = column.replace("INTEGER", "BIGINT").replace("REAL", "DOUBLE PRECISION").replace("BLOB", "BYTEA")
    run(f"ALTER TABLE {table} ADD COLUMN {column}")


def replace(name: str, statement: str, dialect: str) -> None:
    """Create a view again. On a server it is replaced where it stands: rights to it, and views on it, stay."""
    if dialect == "postgresql":
        run(statement.replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1))
    else:
        run(f"DROP VIEW IF EXISTS {name}", statement)


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
