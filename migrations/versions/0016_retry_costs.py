"""The cost of the attempts before, in the view of retries; and `below_minimum`, to be computed for all prompts.

Revision ID: 0016
Revises: 0015

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

RETRIES = """
CREATE VIEW retries AS
SELECT r.session_id AS session_id,
    r.session_name AS session_name,
    r.exchange_id AS exchange_id,
    x.started_ns AS started_ns,
    x.provider AS provider,
    x.api AS api,
    x.client AS client,
    x.thread_id AS thread_id,
    x.attempt AS attempt,
    p.purpose AS purpose,
    coalesce(p.response_model, p.request_model) AS model,
    p.status AS status,
    r.retried_exchange_id AS retried_exchange_id,
    r.first_exchange_id AS first_exchange_id,
    r.attempt_number AS attempt_number,
    e.status AS retried_status,
    e.http_status AS retried_http_status,
    e.error_type AS retried_error_type,
    e.error AS retried_error,
    x.started_ns - (y.started_ns + t.duration_ns) AS waited_ns,
    t.duration_ns AS wasted_ns,
    u.input_tokens AS wasted_input_tokens,
    u.cache_read_input_tokens AS wasted_cache_read_input_tokens,
    u.cache_write_input_tokens AS wasted_cache_write_input_tokens,
    u.output_tokens AS wasted_output_tokens,
    u.reasoning_output_tokens AS wasted_reasoning_output_tokens,
    u.total_tokens AS wasted_total_tokens{columns}
FROM (SELECT c.*, first_value(exchange_id) OVER (PARTITION BY session_id, session_name, request, chain ORDER BY
    exchange_id) AS first_exchange_id,
        row_number() OVER (PARTITION BY session_id, session_name, request, chain ORDER BY exchange_id) AS
            attempt_number
    FROM (SELECT b.*, sum(1 - CASE WHEN retried_exchange_id IS NULL THEN 0 ELSE is_after_failure END)
        OVER (PARTITION BY session_id, session_name, request ORDER BY exchange_id) AS chain
    FROM (SELECT a.*, lag(exchange_id) OVER (PARTITION BY session_id, session_name, request ORDER BY exchange_id) AS
        retried_exchange_id,{before}
        CASE WHEN is_counted = 1 OR lag(has_failed) OVER (PARTITION BY session_id, session_name, request ORDER BY
            exchange_id) = 1 THEN 1 ELSE 0 END AS is_after_failure
    FROM (SELECT x.session_id AS session_id, s.name AS session_name, x.exchange_id AS exchange_id,
            coalesce(q.request_digest, CASE WHEN x.attempt IS NOT NULL THEN x.method || ' ' || x.target END) AS
                request, CASE WHEN x.attempt > 0 THEN 1 ELSE 0 END AS is_counted,
            CASE WHEN p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL THEN 1 ELSE 0 END AS
                has_failed{cost}
        FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        JOIN sessions AS s ON s.session_id = x.session_id
        LEFT JOIN p_parameters_v1 AS q ON q.session_id = x.session_id AND q.exchange_id = x.exchange_id{join}
        WHERE p.is_retrieval = 0) AS a WHERE request IS NOT NULL) AS b) AS c) AS r
JOIN exchanges AS x ON x.session_id = r.session_id AND x.exchange_id = r.exchange_id
JOIN p_exchanges_v1 AS p ON p.session_id = r.session_id AND p.exchange_id = r.exchange_id
JOIN exchanges AS y ON y.session_id = r.session_id AND y.exchange_id = r.retried_exchange_id
JOIN p_exchanges_v1 AS e ON e.session_id = y.session_id AND e.exchange_id = y.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = y.session_id AND u.exchange_id = y.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = y.session_id AND t.exchange_id = y.exchange_id
WHERE r.is_after_failure = 1
"""
COSTS = {
    "columns": """,
    r.wasted_picousd AS wasted_cost_picousd,
    CAST(r.wasted_picousd AS DOUBLE PRECISION) / 1000000000000 AS wasted_cost_usd""",
    "before": """
        lag(cost_picousd) OVER (PARTITION BY session_id, session_name, request ORDER BY exchange_id) AS
            wasted_picousd,""",
    "cost": ", c.cost_picousd AS cost_picousd",
    "join": """
        LEFT JOIN costs AS c ON c.session_id = x.session_id AND c.exchange_id = x.exchange_id""",
}
VIEW = RETRIES.format(**COSTS)
OLD_VIEW = RETRIES.format(**dict.fromkeys(COSTS, ""))
# Only to go back: there a server makes the view anew, without the rights to it.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON retries TO recorder_writer, recorder_reader;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    """Add the columns at the end of the view. On a server it is replaced where it stands: rights to it stay."""
    is_server = op.get_bind().dialect.name == "postgresql"
    run(*([VIEW.replace("CREATE VIEW", "CREATE OR REPLACE VIEW")] if is_server else ["DROP VIEW retries", VIEW]))
    rebuild()


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP VIEW retries", OLD_VIEW)
    if op.get_bind().dialect.name == "postgresql":
        run(RIGHTS)
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
