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

COLUMNS: dict[str, str] = {}  # of a table: what `ALTER TABLE … ADD COLUMN` takes, with types of a file

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    """Add columns, replace all views, and have all projections computed from the beginning."""
    dialect = op.get_bind().dialect.name
    for table, columns in COLUMNS.items():
        for column in columns.split(", "):
            add_column(table, column, dialect)
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
