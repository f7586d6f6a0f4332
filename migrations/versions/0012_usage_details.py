"""Details of usage that have prices of their own, and the cost that providers report: to be computed for all.

Revision ID: 0012
Revises: 0011

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

COUNTS = (
    "cache_write_1h_input_tokens",
    "input_audio_tokens",
    "cache_read_input_audio_tokens",
    "input_image_tokens",
    "input_video_tokens",
    "output_audio_tokens",
    "output_image_tokens",
    "output_video_tokens",
    "output_citation_tokens",
    "web_searches",
)
TEXTS = ("reported_cost_usd", "reported_cost_source")

DETAILS = ",".join(f"\n    u.{column} AS {column}" for column in (*COUNTS, *TEXTS))
USAGE = """CREATE VIEW usage AS
SELECT x.session_id AS session_id,
    s.name AS session_name,
    x.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.client AS client,
    p.request_model AS request_model,
    p.response_model AS response_model,
    coalesce(p.response_model, p.request_model) AS model,
    u.input_tokens AS input_tokens,
    u.cache_read_input_tokens AS cache_read_input_tokens,
    u.cache_write_input_tokens AS cache_write_input_tokens,
    u.output_tokens AS output_tokens,
    u.reasoning_output_tokens AS reasoning_output_tokens,
    u.total_tokens AS total_tokens,
    u.usage_raw AS usage_raw,
    u.partial AS partial{details}
FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
JOIN p_usage_v1 AS u ON u.session_id = x.session_id AND u.exchange_id = x.exchange_id
JOIN sessions AS s ON s.session_id = x.session_id
WHERE coalesce(p.request_model, p.response_model, u.usage_raw) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM
    p_exchanges_v1 AS o WHERE o.session_id = p.session_id AND o.response_id = p.response_id
        AND (o.is_retrieval = 1 OR p.is_retrieval = 1) AND ((o.finish_reason IS NOT NULL AND o.finish_reason <>
    'cancelled'), coalesce(o.last_number, -1), o.exchange_id) > ((p.finish_reason IS NOT NULL AND p.finish_reason <>
    'cancelled'), coalesce(p.last_number, -1), p.exchange_id))
"""
VIEW = USAGE.replace("{details}", f",{DETAILS}")
OLD_VIEW = USAGE.replace("{details}", "")

# Only to go back: on a server a view loses columns only when it is made anew, and with it those that read it.
READERS_OF_USAGE = ("usage_by_day", "usage_by_model", "reasoning_by_effort")
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON usage, usage_by_day, usage_by_model, reasoning_by_effort
                TO recorder_writer, recorder_reader;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    """Add the columns, to the view at its end. On a server it is replaced where it stands: rights to it stay."""
    is_server = op.get_bind().dialect.name == "postgresql"
    run(*(f"ALTER TABLE p_usage_v1 ADD COLUMN {column} {'BIGINT' if is_server else 'INTEGER'}" for column in COUNTS))
    run(*(f"ALTER TABLE p_usage_v1 ADD COLUMN {column} TEXT" for column in TEXTS))
    run(*([VIEW.replace("CREATE VIEW", "CREATE OR REPLACE VIEW")] if is_server else ["DROP VIEW usage", VIEW]))
    rebuild()


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    if op.get_bind().dialect.name == "postgresql":
        readers = [f"CREATE VIEW {name} AS {definition(name)}" for name in READERS_OF_USAGE]
        run(*(f"DROP VIEW {name}" for name in (*READERS_OF_USAGE, "usage")), OLD_VIEW, *readers, RIGHTS)
    else:
        run("DROP VIEW usage", OLD_VIEW)
    run(*(f"ALTER TABLE p_usage_v1 DROP COLUMN {column}" for column in reversed((*COUNTS, *TEXTS))))
    rebuild()


def definition(view: str) -> str:
    """Return the query of a view, as the server has it."""
    found = op.get_bind().exec_driver_sql(f"SELECT pg_get_viewdef('{view}'::regclass)").scalar_one()
    return str(found)


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
