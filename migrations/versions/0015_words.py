"""Words of users and tools: to be computed for all that was recorded.

Revision ID: 0015
Revises: 0014

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = (
    """
CREATE TABLE p_user_texts_v1 (
    session_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session_id, digest)
) STRICT
""",
    """
CREATE VIRTUAL TABLE p_search_results_v1 USING fts5(
    output, content='p_results_v1', content_rowid='rowid', tokenize='unicode61 remove_diacritics 2'
)
""",
    """
CREATE VIRTUAL TABLE p_search_user_texts_v1 USING fts5(
    text, content='p_user_texts_v1', content_rowid='rowid', tokenize='unicode61 remove_diacritics 2'
)
""",
)
TABLES_ON_SERVER = (
    """
CREATE TABLE p_user_texts_v1 (
    session_id UUID NOT NULL,
    digest TEXT NOT NULL,
    exchange_id UUID NOT NULL,
    started_ns BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session_id, digest)
)
""",
    """
CREATE TABLE p_search_results_v1 (
    session_id UUID NOT NULL,
    call_key TEXT NOT NULL,
    digest TEXT NOT NULL,
    words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, call_key, digest)
)
""",
    """
CREATE TABLE p_search_user_texts_v1 (
    session_id UUID NOT NULL,
    digest TEXT NOT NULL,
    words TSVECTOR NOT NULL,
    PRIMARY KEY (session_id, digest)
)
""",
    "CREATE INDEX p_search_results_v1_words ON p_search_results_v1 USING gin (words)",
    "CREATE INDEX p_search_user_texts_v1_words ON p_search_user_texts_v1 USING gin (words)",
)
INDEX = "CREATE INDEX p_user_texts_v1_exchange ON p_user_texts_v1 (session_id, exchange_id)"
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
    u.total_tokens AS wasted_total_tokens
FROM (SELECT c.*, first_value(exchange_id) OVER (PARTITION BY session_id, session_name, request, chain ORDER BY
    exchange_id) AS first_exchange_id,
        row_number() OVER (PARTITION BY session_id, session_name, request, chain ORDER BY exchange_id) AS
            attempt_number
    FROM (SELECT b.*, sum(1 - CASE WHEN retried_exchange_id IS NULL THEN 0 ELSE is_after_failure END)
        OVER (PARTITION BY session_id, session_name, request ORDER BY exchange_id) AS chain
    FROM (SELECT a.*, lag(exchange_id) OVER (PARTITION BY session_id, session_name, request ORDER BY exchange_id) AS
        retried_exchange_id,
        CASE WHEN is_counted = 1 OR lag(has_failed) OVER (PARTITION BY session_id, session_name, request ORDER BY
            exchange_id) = 1 THEN 1 ELSE 0 END AS is_after_failure
    FROM (SELECT x.session_id AS session_id, s.name AS session_name, x.exchange_id AS exchange_id,
            coalesce(q.request_digest, CASE WHEN x.attempt IS NOT NULL THEN x.method || ' ' || x.target END) AS
                request, CASE WHEN x.attempt > 0 THEN 1 ELSE 0 END AS is_counted,
            CASE WHEN p.status NOT IN ('completed', 'incomplete') OR p.error IS NOT NULL THEN 1 ELSE 0 END AS
                has_failed
        FROM exchanges AS x JOIN p_exchanges_v1 AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
        JOIN sessions AS s ON s.session_id = x.session_id
        LEFT JOIN p_parameters_v1 AS q ON q.session_id = x.session_id AND q.exchange_id = x.exchange_id
        WHERE p.is_retrieval = 0) AS a WHERE request IS NOT NULL) AS b) AS c) AS r
JOIN exchanges AS x ON x.session_id = r.session_id AND x.exchange_id = r.exchange_id
JOIN p_exchanges_v1 AS p ON p.session_id = r.session_id AND p.exchange_id = r.exchange_id
JOIN exchanges AS y ON y.session_id = r.session_id AND y.exchange_id = r.retried_exchange_id
JOIN p_exchanges_v1 AS e ON e.session_id = y.session_id AND e.exchange_id = y.exchange_id
LEFT JOIN p_usage_v1 AS u ON u.session_id = y.session_id AND u.exchange_id = y.exchange_id
LEFT JOIN p_timing_v1 AS t ON t.session_id = y.session_id AND t.exchange_id = y.exchange_id
WHERE r.is_after_failure = 1
"""
LATENCY_BY_MODEL = """
CREATE VIEW latency_by_model AS
SELECT model,
    origin,
    count(*) AS exchanges,
    count(ttft_ns) AS measured,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 50 THEN ttft_ns END) AS ttft_p50_ns,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 90 THEN ttft_ns END) AS ttft_p90_ns,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 99 THEN ttft_ns END) AS ttft_p99_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 50 THEN duration_ns END) AS duration_p50_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 90 THEN duration_ns END) AS duration_p90_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 99 THEN duration_ns END) AS duration_p99_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 50 THEN longest_silence_ns END) AS silence_p50_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 90 THEN longest_silence_ns END) AS silence_p90_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 99 THEN longest_silence_ns END) AS silence_p99_ns
FROM (SELECT origin, model, ttft_ns, duration_ns, longest_silence_ns,
        count(ttft_ns) OVER (PARTITION BY origin, model) AS ttft_count,
        row_number() OVER (PARTITION BY origin, model, CASE WHEN ttft_ns IS NULL THEN 1 ELSE 0 END ORDER BY ttft_ns)
            AS ttft_rank,
        count(duration_ns) OVER (PARTITION BY origin, model) AS duration_count,
        row_number() OVER (PARTITION BY origin, model, CASE WHEN duration_ns IS NULL THEN 1 ELSE 0 END ORDER BY
            duration_ns) AS duration_rank,
        count(longest_silence_ns) OVER (PARTITION BY origin, model) AS silence_count,
        row_number() OVER (PARTITION BY origin, model, CASE WHEN longest_silence_ns IS NULL THEN 1 ELSE 0 END ORDER BY
            longest_silence_ns) AS silence_rank
    FROM (SELECT origin, model, ttft_ns, duration_ns, longest_silence_ns FROM latency) AS l) AS r GROUP BY origin,
        model
"""
LATENCY_BY_DAY = """
CREATE VIEW latency_by_day AS
SELECT substr(date, 2, 4) || '-' || substr(date, 6, 2) || '-' || substr(date, 8) AS day,
    origin,
    exchanges,
    measured,
    ttft_p50_ns,
    ttft_p90_ns,
    ttft_p99_ns,
    duration_p50_ns,
    duration_p90_ns,
    duration_p99_ns,
    silence_p50_ns,
    silence_p90_ns,
    silence_p99_ns
FROM (SELECT *, CAST(100000000 + 10000 * (year_of_era + 400 * CAST(((days + 719468) - ((days + 719468)) % 146097) /
    146097 AS BIGINT) + CASE WHEN months < 10 THEN 0 ELSE 1 END)
    + 100 * (months + CASE WHEN months < 10 THEN 3 ELSE -9 END) + in_year - CAST((153 * months + 2 - (153 * months +
        2) % 5) / 5 AS BIGINT) + 1 AS TEXT) AS date
FROM (SELECT *, CAST((5 * in_year + 2 - (5 * in_year + 2) % 153) / 153 AS BIGINT) AS months
FROM (SELECT *, in_era - 365 * year_of_era - CAST((year_of_era - (year_of_era) % 4) / 4 AS BIGINT) + CAST((year_of_era
    - (year_of_era) % 100) / 100 AS BIGINT) AS in_year
FROM (SELECT *, CAST((in_era - CAST((in_era - (in_era) % 1460) / 1460 AS BIGINT) + CAST((in_era - (in_era) % 36524) /
    36524 AS BIGINT) - CAST((in_era - (in_era) % 146096) / 146096 AS BIGINT) - (in_era - CAST((in_era - (in_era) %
    1460) / 1460 AS BIGINT) + CAST((in_era - (in_era) % 36524) / 36524 AS BIGINT) - CAST((in_era - (in_era) % 146096)
    / 146096 AS BIGINT)) % 365) / 365 AS BIGINT) AS year_of_era
FROM (SELECT *, (days + 719468) % 146097 AS in_era
FROM (SELECT origin, days,
    count(*) AS exchanges,
    count(ttft_ns) AS measured,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 50 THEN ttft_ns END) AS ttft_p50_ns,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 90 THEN ttft_ns END) AS ttft_p90_ns,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 99 THEN ttft_ns END) AS ttft_p99_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 50 THEN duration_ns END) AS duration_p50_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 90 THEN duration_ns END) AS duration_p90_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 99 THEN duration_ns END) AS duration_p99_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 50 THEN longest_silence_ns END) AS silence_p50_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 90 THEN longest_silence_ns END) AS silence_p90_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 99 THEN longest_silence_ns END) AS silence_p99_ns
FROM (SELECT origin, days, ttft_ns, duration_ns, longest_silence_ns,
        count(ttft_ns) OVER (PARTITION BY origin, days) AS ttft_count,
        row_number() OVER (PARTITION BY origin, days, CASE WHEN ttft_ns IS NULL THEN 1 ELSE 0 END ORDER BY ttft_ns) AS
            ttft_rank,
        count(duration_ns) OVER (PARTITION BY origin, days) AS duration_count,
        row_number() OVER (PARTITION BY origin, days, CASE WHEN duration_ns IS NULL THEN 1 ELSE 0 END ORDER BY
            duration_ns) AS duration_rank,
        count(longest_silence_ns) OVER (PARTITION BY origin, days) AS silence_count,
        row_number() OVER (PARTITION BY origin, days, CASE WHEN longest_silence_ns IS NULL THEN 1 ELSE 0 END ORDER BY
            longest_silence_ns) AS silence_rank
    FROM (SELECT origin, CAST((started_ns - (started_ns) % 86400000000000) / 86400000000000 AS BIGINT) AS days,
        ttft_ns, duration_ns, longest_silence_ns FROM latency) AS l) AS r GROUP BY origin, days) AS u) AS a) AS b) AS
        c) AS d) AS dates
"""
LATENCY_BY_DAY_ON_SERVER = """
CREATE VIEW latency_by_day AS
SELECT to_char(to_timestamp(days * 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
    origin,
    exchanges,
    measured,
    ttft_p50_ns,
    ttft_p90_ns,
    ttft_p99_ns,
    duration_p50_ns,
    duration_p90_ns,
    duration_p99_ns,
    silence_p50_ns,
    silence_p90_ns,
    silence_p99_ns
FROM (SELECT origin, days,
    count(*) AS exchanges,
    count(ttft_ns) AS measured,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 50 THEN ttft_ns END) AS ttft_p50_ns,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 90 THEN ttft_ns END) AS ttft_p90_ns,
    min(CASE WHEN ttft_rank * 100 >= ttft_count * 99 THEN ttft_ns END) AS ttft_p99_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 50 THEN duration_ns END) AS duration_p50_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 90 THEN duration_ns END) AS duration_p90_ns,
    min(CASE WHEN duration_rank * 100 >= duration_count * 99 THEN duration_ns END) AS duration_p99_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 50 THEN longest_silence_ns END) AS silence_p50_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 90 THEN longest_silence_ns END) AS silence_p90_ns,
    min(CASE WHEN silence_rank * 100 >= silence_count * 99 THEN longest_silence_ns END) AS silence_p99_ns
FROM (SELECT origin, days, ttft_ns, duration_ns, longest_silence_ns,
        count(ttft_ns) OVER (PARTITION BY origin, days) AS ttft_count,
        row_number() OVER (PARTITION BY origin, days, CASE WHEN ttft_ns IS NULL THEN 1 ELSE 0 END ORDER BY ttft_ns) AS
            ttft_rank,
        count(duration_ns) OVER (PARTITION BY origin, days) AS duration_count,
        row_number() OVER (PARTITION BY origin, days, CASE WHEN duration_ns IS NULL THEN 1 ELSE 0 END ORDER BY
            duration_ns) AS duration_rank,
        count(longest_silence_ns) OVER (PARTITION BY origin, days) AS silence_count,
        row_number() OVER (PARTITION BY origin, days, CASE WHEN longest_silence_ns IS NULL THEN 1 ELSE 0 END ORDER BY
            longest_silence_ns) AS silence_rank
    FROM (SELECT origin, started_ns / 86400000000000 AS days, ttft_ns, duration_ns, longest_silence_ns FROM latency)
        AS l) AS r GROUP BY origin, days) AS u
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON p_user_texts_v1, p_search_results_v1, p_search_user_texts_v1,
                latency_by_model, latency_by_day, retries TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON p_user_texts_v1, p_search_results_v1, p_search_user_texts_v1
                TO recorder_writer;
        END IF;
    END IF;
END $$
"""

DUE = "INSERT INTO rebuilds SELECT 'projections', '{0}', '{0}' WHERE EXISTS (SELECT 1 FROM exchanges)"
START = {"sqlite": "", "postgresql": "00000000-0000-0000-0000-000000000000"}


def upgrade() -> None:
    is_server = op.get_bind().dialect.name == "postgresql"
    run(*(TABLES_ON_SERVER if is_server else TABLES), INDEX)
    run(RETRIES, LATENCY_BY_MODEL, LATENCY_BY_DAY_ON_SERVER if is_server else LATENCY_BY_DAY)
    rebuild()
    if is_server:
        run(RIGHTS)


def downgrade() -> None:
    """Projections are disposable: the log has all that they say."""
    run("DROP VIEW latency_by_day", "DROP VIEW latency_by_model", "DROP VIEW retries")
    run("DROP TABLE p_search_user_texts_v1", "DROP TABLE p_search_results_v1", "DROP TABLE p_user_texts_v1")
    rebuild()


def rebuild() -> None:
    """Have all projections computed from the beginning; one that is under way begins anew."""
    run("DELETE FROM rebuilds", DUE.format(START[op.get_bind().dialect.name]))


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
