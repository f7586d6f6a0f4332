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
TIME_OF_DAY = ("u.started_ns % 86400000000000", "mod(u.started_ns, 86400000000000)")
COSTS = r"""
CREATE VIEW costs AS
SELECT c.session_id AS session_id,
    c.session_name AS session_name,
    c.exchange_id AS exchange_id,
    c.started_ns AS started_ns,
    c.provider AS provider,
    c.api AS api,
    c.client AS client,
    c.model AS model,
    c.pattern AS price_model,
    c.source AS price_source,
    c.priced_tier AS price_tier,
    c.input_tokens - coalesce(c.cache_read_input_tokens, 0) - coalesce(c.cache_write_input_tokens, 0) AS
        uncached_input_tokens,
    c.input_picousd AS input_picousd,
    c.cache_read_picousd AS cache_read_picousd,
    c.cache_write_picousd AS cache_write_picousd,
    c.output_picousd AS output_picousd,
    c.reasoning_picousd AS reasoning_picousd,
    c.other_picousd AS other_picousd,
    c.cost_picousd AS cost_picousd,
    CAST(c.cost_picousd AS DOUBLE PRECISION) / 1000000000000 AS cost_usd,
    c.partial AS partial,
    c.no_price AS no_price,
    c.reported_cost_usd AS reported_cost_usd,
    c.reported_cost_source AS reported_cost_source
FROM (WITH used AS (
    SELECT DISTINCT u.provider, u.model, lower(u.model) AS name, lower(coalesce(q.response_service_tier,
        q.service_tier, '')) AS tier
    FROM usage AS u
    LEFT JOIN p_parameters_v1 AS q ON q.session_id = u.session_id AND q.exchange_id = u.exchange_id WHERE u.model IS
        NOT NULL
), patterns AS (
    SELECT DISTINCT provider, rank, model AS pattern FROM prices
), matched AS (
    SELECT m.provider, m.model, m.tier, n.rank, n.pattern FROM used AS m JOIN patterns AS n ON n.provider = m.provider
    WHERE m.name LIKE replace(n.pattern, '#', '_') ESCAPE '\'
    AND (n.pattern = replace(n.pattern, '#', '') OR
        replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(m.name, '0', '#'), '1', '#'),
        '2', '#'), '3', '#'), '4', '#'), '5', '#'), '6', '#'), '7', '#'), '8', '#'), '9', '#')
        LIKE replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(n.pattern, '0', '#'),
            '1', '#'), '2', '#'), '3', '#'), '4', '#'), '5', '#'), '6', '#'), '7', '#'), '8', '#'), '9', '#') ESCAPE
            '\')
), cards AS (
    SELECT m.provider, m.model, m.tier, m.rank, m.pattern, r.source, r.service_tier, r.above_input_tokens,
        r.daily_from_s, r.daily_to_s, r.valid_from_ns, r.valid_to_ns,
        max(CASE WHEN r.unit = 'input' THEN r.picousd END) AS p_input,
        max(CASE WHEN r.unit = 'cache_read' THEN r.picousd END) AS p_cache_read,
        max(CASE WHEN r.unit = 'cache_write' THEN r.picousd END) AS p_cache_write,
        max(CASE WHEN r.unit = 'cache_write_1h' THEN r.picousd END) AS p_cache_write_1h,
        max(CASE WHEN r.unit = 'input_audio' THEN r.picousd END) AS p_input_audio,
        max(CASE WHEN r.unit = 'cache_read_audio' THEN r.picousd END) AS p_cache_read_audio,
        max(CASE WHEN r.unit = 'input_image' THEN r.picousd END) AS p_input_image,
        max(CASE WHEN r.unit = 'input_video' THEN r.picousd END) AS p_input_video,
        max(CASE WHEN r.unit = 'output' THEN r.picousd END) AS p_output,
        max(CASE WHEN r.unit = 'reasoning' THEN r.picousd END) AS p_reasoning,
        max(CASE WHEN r.unit = 'output_audio' THEN r.picousd END) AS p_output_audio,
        max(CASE WHEN r.unit = 'output_image' THEN r.picousd END) AS p_output_image,
        max(CASE WHEN r.unit = 'output_video' THEN r.picousd END) AS p_output_video,
        max(CASE WHEN r.unit = 'citation' THEN r.picousd END) AS p_citation,
        max(CASE WHEN r.unit = 'web_search' THEN r.picousd END) AS p_web_search,
        max(CASE WHEN r.unit = 'request' THEN r.picousd END) AS p_request
    FROM matched AS m JOIN prices AS r ON r.provider = m.provider AND r.rank = m.rank AND r.model = m.pattern
    WHERE r.service_tier IN ('', m.tier)
    GROUP BY m.provider, m.model, m.tier, m.rank, m.pattern, r.source, r.service_tier, r.above_input_tokens,
        r.daily_from_s, r.daily_to_s, r.valid_from_ns, r.valid_to_ns
), moments AS (
    SELECT provider, model, tier, valid_from_ns AS at_ns FROM cards
    UNION SELECT provider, model, tier, valid_to_ns FROM cards WHERE valid_to_ns IS NOT NULL
), spans AS (
    SELECT provider, model, tier, at_ns, lead(at_ns) OVER (PARTITION BY provider, model, tier ORDER BY at_ns) AS
        until_ns FROM moments
), valid AS (
    SELECT c.*, s.at_ns, s.until_ns,
        rank() OVER (PARTITION BY s.provider, s.model, s.tier, s.at_ns
            ORDER BY c.rank, c.pattern, c.service_tier DESC) AS place,
        lead(c.above_input_tokens) OVER (PARTITION BY s.provider, s.model, s.tier, s.at_ns, c.rank, c.pattern,
            c.service_tier, c.daily_from_s ORDER BY c.above_input_tokens) AS most_input_tokens
    FROM spans AS s JOIN cards AS c ON c.provider = s.provider AND c.model = s.model AND c.tier = s.tier
        AND c.valid_from_ns <= s.at_ns AND (c.valid_to_ns IS NULL OR c.valid_to_ns > s.at_ns)
)
SELECT y.*, CASE WHEN no_price IS NULL THEN d_input * e_input + d_input_audio * e_input_audio + n_input_image *
    e_input_image + n_input_video * e_input_video END AS input_picousd,
        CASE WHEN no_price IS NULL THEN d_cache_read * e_cache_read + n_cache_read_audio * e_cache_read_audio END AS
            cache_read_picousd,
        CASE WHEN no_price IS NULL THEN d_cache_write * e_cache_write + n_cache_write_1h * e_cache_write_1h END AS
            cache_write_picousd,
        CASE WHEN no_price IS NULL THEN d_output * e_output + n_output_audio * e_output_audio + n_output_image *
            e_output_image + n_output_video * e_output_video + n_citation * e_citation END AS output_picousd,
        CASE WHEN no_price IS NULL THEN n_reasoning * e_reasoning END AS reasoning_picousd,
        CASE WHEN no_price IS NULL THEN n_web_search * e_web_search + e_request END AS other_picousd, CASE WHEN
            no_price IS NULL THEN d_input * e_input + d_input_audio * e_input_audio + n_input_image * e_input_image +
            n_input_video * e_input_video + d_cache_read * e_cache_read + n_cache_read_audio * e_cache_read_audio +
            d_cache_write * e_cache_write + n_cache_write_1h * e_cache_write_1h + d_output * e_output +
            n_output_audio * e_output_audio + n_output_image * e_output_image + n_output_video * e_output_video +
            n_citation * e_citation + n_reasoning * e_reasoning + n_web_search * e_web_search + e_request END AS
            cost_picousd FROM (
    SELECT w.*, CASE WHEN usage_raw IS NULL THEN 'usage'
        WHEN provider IN ('chatgpt') AND pattern IS NULL THEN 'subscription'
        WHEN listed IS NULL THEN 'provider'
        WHEN p_input IS NULL AND p_output IS NULL THEN 'model'
        WHEN p_input IS NOT NULL AND input_tokens IS NULL OR p_output IS NOT NULL AND output_tokens IS NULL THEN
            'usage'
        WHEN n_input > 100000000 OR n_output > 100000000 OR n_web_search > 1000000 OR d_input < 0
            OR d_output < 0 OR d_cache_read < 0 OR d_cache_write < 0 OR d_input_audio < 0 THEN 'counts' END AS
                no_price FROM (SELECT v.*, n_cache_read - n_cache_read_audio AS d_cache_read, n_cache_write -
                n_cache_write_1h AS
        d_cache_write, CASE WHEN n_input_audio = 0 THEN 0 ELSE n_input_audio - n_cache_read_audio END AS
            d_input_audio,
        n_input - n_cache_read - n_cache_write - n_input_image - n_input_video - CASE WHEN n_input_audio = 0 THEN 0
            ELSE n_input_audio - n_cache_read_audio END AS d_input,
        n_output - n_reasoning - n_output_audio - n_output_image - n_output_video - n_citation AS d_output
    FROM (SELECT u.*, l.listed, c.pattern, c.source, c.service_tier AS priced_tier, c.p_input, c.p_output,
        coalesce(u.input_tokens, 0) AS n_input,
        coalesce(u.cache_read_input_tokens, 0) AS n_cache_read,
        coalesce(u.cache_write_input_tokens, 0) AS n_cache_write,
        coalesce(u.cache_write_1h_input_tokens, 0) AS n_cache_write_1h,
        CASE WHEN c.p_input_audio IS NULL THEN 0 ELSE coalesce(u.input_audio_tokens, 0) END AS n_input_audio,
        CASE WHEN c.p_cache_read_audio IS NULL THEN 0 ELSE coalesce(u.cache_read_input_audio_tokens, 0) END AS
            n_cache_read_audio,
        CASE WHEN c.p_input_image IS NULL THEN 0 ELSE coalesce(u.input_image_tokens, 0) END AS n_input_image,
        CASE WHEN c.p_input_video IS NULL THEN 0 ELSE coalesce(u.input_video_tokens, 0) END AS n_input_video,
        coalesce(u.output_tokens, 0) AS n_output,
        CASE WHEN c.p_reasoning IS NULL AND coalesce(u.reasoning_output_tokens, 0) > u.output_tokens THEN
            u.output_tokens ELSE coalesce(u.reasoning_output_tokens, 0) END AS n_reasoning,
        CASE WHEN c.p_output_audio IS NULL THEN 0 ELSE coalesce(u.output_audio_tokens, 0) END AS n_output_audio,
        CASE WHEN c.p_output_image IS NULL THEN 0 ELSE coalesce(u.output_image_tokens, 0) END AS n_output_image,
        CASE WHEN c.p_output_video IS NULL THEN 0 ELSE coalesce(u.output_video_tokens, 0) END AS n_output_video,
        CASE WHEN c.p_citation IS NULL THEN 0 ELSE coalesce(u.output_citation_tokens, 0) END AS n_citation,
        coalesce(u.web_searches, 0) AS n_web_search,
        coalesce(c.p_input, 0) AS e_input,
        coalesce(c.p_cache_read, c.p_input, 0) AS e_cache_read,
        coalesce(c.p_cache_write, c.p_input, 0) AS e_cache_write,
        coalesce(c.p_cache_write_1h, c.p_cache_write, c.p_input, 0) AS e_cache_write_1h,
        coalesce(c.p_output, 0) AS e_output,
        coalesce(c.p_reasoning, c.p_output, 0) AS e_reasoning,
        coalesce(c.p_input_audio, 0) AS e_input_audio,
        coalesce(c.p_cache_read_audio, 0) AS e_cache_read_audio,
        coalesce(c.p_input_image, 0) AS e_input_image,
        coalesce(c.p_input_video, 0) AS e_input_video,
        coalesce(c.p_output_audio, 0) AS e_output_audio,
        coalesce(c.p_output_image, 0) AS e_output_image,
        coalesce(c.p_output_video, 0) AS e_output_video,
        coalesce(c.p_citation, 0) AS e_citation,
        coalesce(c.p_web_search, 0) AS e_web_search,
        coalesce(c.p_request, 0) AS e_request
    FROM usage AS u
    LEFT JOIN p_parameters_v1 AS q ON q.session_id = u.session_id AND q.exchange_id = u.exchange_id
    LEFT JOIN (SELECT DISTINCT provider AS listed FROM prices) AS l ON l.listed = u.provider
    LEFT JOIN (SELECT * FROM valid WHERE place = 1) AS c ON c.provider = u.provider AND c.model = u.model
        AND c.tier = lower(coalesce(q.response_service_tier, q.service_tier, '')) AND c.at_ns <= u.started_ns AND
            (c.until_ns IS NULL OR c.until_ns > u.started_ns)
        AND (c.above_input_tokens = 0 OR c.above_input_tokens < u.input_tokens)
        AND (c.most_input_tokens IS NULL OR c.most_input_tokens >= coalesce(u.input_tokens, 0))
        AND c.daily_from_s * 1000000000 <= u.started_ns % 86400000000000
        AND c.daily_to_s * 1000000000 > u.started_ns % 86400000000000) AS v) AS w) AS y) AS c
"""
# Roles that have rights here already have them on what is new too.
RIGHTS = """
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'recorder_writer') THEN
        IF has_table_privilege('recorder_writer', 'p_items_v1', 'INSERT') THEN
            GRANT SELECT ON prices, costs TO recorder_writer, recorder_reader;
            GRANT INSERT, UPDATE, DELETE ON prices TO recorder_writer;
        END IF;
    END IF;
END $$
"""


def upgrade() -> None:
    """Create the table of prices. It is empty until `recorder prices update`."""
    if op.get_bind().dialect.name == "postgresql":
        run(PRICES.replace("INTEGER", "BIGINT"), COSTS.replace(*TIME_OF_DAY), RIGHTS)
    else:
        run(f"{PRICES.rstrip()} STRICT\n", COSTS)


def downgrade() -> None:
    """Drop the prices: a list of prices can be had again, but not the time at which each was first seen."""
    run("DROP VIEW costs", "DROP TABLE prices")


def run(*statements: str) -> None:
    for statement in statements:
        op.get_bind().exec_driver_sql(statement)
