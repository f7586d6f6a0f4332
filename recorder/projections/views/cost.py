"""The view of costs: the usage of an exchange multiplied with the prices that were valid when it
was recorded.

Rules of this file:

* Whole numbers only: counts times picodollars. Kinds of tokens are disjoint before they are
  multiplied.
* A kind without a price of its own has the price of the kind that it is a part of.
* An exchange has the price of one card (`recorder.prices.catalog`): of the cards of its upstream
  whose pattern matches its model, that are valid at its time, for its tier of service and the size
  of its input, the first one. So patterns are compared once for each distinct model, not for each
  exchange.
* A response may have taken runs of a model that its usage leaves out
  (`recorder.projections.exchanges`). They are priced in the same way, each by its own model, and
  added to the cost of the exchange.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.model.prices import SUBSCRIPTIONS
from recorder.projections.rows import TABLES
from recorder.projections.views.parts import Either, View, of, same_exchange

# Counts above these are not counts of one exchange. With the limits of prices, a sum of all kinds
# fits a bigint.
TOKENS_LIMIT, CALLS_LIMIT = 10**8, 10**6

# The columns of `usage` by the unit of `prices` that they count.
COUNTS: Mapping[str, str] = {
    "input": "input_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_write_input_tokens",
    "cache_write_1h": "cache_write_1h_input_tokens",
    "input_audio": "input_audio_tokens",
    "cache_read_audio": "cache_read_input_audio_tokens",
    "input_image": "input_image_tokens",
    "input_video": "input_video_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_output_tokens",
    "output_audio": "output_audio_tokens",
    "output_image": "output_image_tokens",
    "output_video": "output_video_tokens",
    "citation": "output_citation_tokens",
    "web_search": "web_searches",
}
_ONE = ("request",)  # each exchange is one
# Counted apart from other kinds only if they have a price of their own: what of them was cached is
# not always known.
_IF_PRICED = (
    *("input_audio", "cache_read_audio", "input_image", "input_video"),
    *("output_audio", "output_image", "output_video", "citation"),
)


def _digits(text: str) -> str:
    """Return a text with `#` for every digit."""
    for digit in "0123456789":
        text = f"replace({text}, '{digit}', '#')"
    return text


_PIVOT = ",\n        ".join(
    f"max(CASE WHEN r.unit = '{unit}' THEN r.picousd END) AS p_{unit}" for unit in (*COUNTS, *_ONE)
)
# Of a response that names no tier, the one that was requested. Unknown tiers have the standard
# price.
_TIER = "lower(coalesce(q.response_service_tier, q.service_tier, ''))"
_TIERS = f"LEFT JOIN {TABLES['parameters']} AS q ON {same_exchange('q', 'u')}"
_IN_ITERATIONS = (
    *(
        "input_tokens",
        "cache_read_input_tokens",
        "cache_write_input_tokens",
        "cache_write_1h_input_tokens",
    ),
    *("input_audio_tokens", "output_tokens"),
)
_PLACES = {name: f"i.{name}" for name in _IN_ITERATIONS}
_COUNTS_OF_ITERATIONS = ", ".join(_PLACES.get(name, f"0 AS {name}") for name in COUNTS.values())
# In this order in a file, too: there are few of them.
_ITERATIONS = f"""(SELECT u.session_id, u.exchange_id, u.started_ns, u.provider, coalesce(i.model, u.model) AS model,
        u.usage_raw, u.billed_input_tokens, u.billed_output_tokens,
        {_COUNTS_OF_ITERATIONS}
    FROM {TABLES["iterations"]} AS i CROSS JOIN usage AS u WHERE {same_exchange("u", "i")})"""
_KEY = "provider, model, tier"
_CARDS = f"""used AS (
    SELECT DISTINCT u.provider, u.model, lower(u.model) AS name, {_TIER} AS tier
    FROM usage AS u {_TIERS} WHERE u.model IS NOT NULL
    UNION SELECT u.provider, u.model, lower(u.model) AS name, {_TIER} AS tier
    FROM {_ITERATIONS} AS u {_TIERS} WHERE u.model IS NOT NULL
), patterns AS (
    SELECT DISTINCT provider, rank, model AS pattern FROM prices
), matched AS (
    SELECT m.provider, m.model, m.tier, n.rank, n.pattern FROM used AS m JOIN patterns AS n ON n.provider = m.provider
    WHERE m.name LIKE replace(n.pattern, '#', '_') ESCAPE '\\'
    AND (n.pattern = replace(n.pattern, '#', '') OR {_digits("m.name")}
        LIKE {_digits("n.pattern")} ESCAPE '\\')
), cards AS (
    SELECT m.provider, m.model, m.tier, m.rank, m.pattern, r.source, r.service_tier, r.above_input_tokens,
        r.daily_from_s, r.daily_to_s, r.valid_from_ns, r.valid_to_ns,
        {_PIVOT}
    FROM matched AS m JOIN prices AS r ON r.provider = m.provider AND r.rank = m.rank AND r.model = m.pattern
    WHERE r.service_tier IN ('', m.tier)
    GROUP BY m.provider, m.model, m.tier, m.rank, m.pattern, r.source, r.service_tier, r.above_input_tokens,
        r.daily_from_s, r.daily_to_s, r.valid_from_ns, r.valid_to_ns
), moments AS (
    SELECT {_KEY}, valid_from_ns AS at_ns FROM cards
    UNION SELECT {_KEY}, valid_to_ns FROM cards WHERE valid_to_ns IS NOT NULL
), spans AS (
    SELECT {_KEY}, at_ns, lead(at_ns) OVER (PARTITION BY {_KEY} ORDER BY at_ns) AS until_ns FROM moments
), valid AS (
    SELECT c.*, s.at_ns, s.until_ns,
        rank() OVER (PARTITION BY s.provider, s.model, s.tier, s.at_ns
            ORDER BY c.rank, c.pattern, c.service_tier DESC) AS place,
        lead(c.above_input_tokens) OVER (PARTITION BY s.provider, s.model, s.tier, s.at_ns, c.rank, c.pattern,
            c.service_tier, c.daily_from_s ORDER BY c.above_input_tokens) AS most_input_tokens
    FROM spans AS s JOIN cards AS c ON c.provider = s.provider AND c.model = s.model AND c.tier = s.tier
        AND c.valid_from_ns <= s.at_ns AND (c.valid_to_ns IS NULL OR c.valid_to_ns > s.at_ns)
)"""
# A driver of PostgreSQL takes a `%` for a place of a value.
_TIME_OF_DAY = Either("u.started_ns % 86400000000000", "mod(u.started_ns, 86400000000000)")
_CHOSEN = f"""{_TIERS}
    LEFT JOIN (SELECT DISTINCT provider AS listed FROM prices) AS l ON l.listed = u.provider
    LEFT JOIN (SELECT * FROM valid WHERE place = 1) AS c ON c.provider = u.provider AND c.model = u.model
        AND c.tier = {_TIER} AND c.at_ns <= u.started_ns AND (c.until_ns IS NULL OR c.until_ns > u.started_ns)
        AND (c.above_input_tokens = 0 OR c.above_input_tokens < u.input_tokens)
        AND (c.most_input_tokens IS NULL OR c.most_input_tokens >= coalesce(u.input_tokens, 0))
        AND c.daily_from_s * 1000000000 <= {_TIME_OF_DAY.sqlite}
        AND c.daily_to_s * 1000000000 > {_TIME_OF_DAY.sqlite}"""


def _count(unit: str) -> str:
    count = f"coalesce(u.{COUNTS[unit]}, 0)"
    if (
        unit == "reasoning"
        # some servers report more than all output; with the price of output, all output is
        # reasoning
    ):
        return f"CASE WHEN c.p_reasoning IS NULL AND {count} > u.output_tokens THEN u.output_tokens ELSE {count} END"
    return f"CASE WHEN c.p_{unit} IS NULL THEN 0 ELSE {count} END" if unit in _IF_PRICED else count


_PRICES = {
    "input": "coalesce(c.p_input, 0)",
    "cache_read": "coalesce(c.p_cache_read, c.p_input, 0)",
    "cache_write": "coalesce(c.p_cache_write, c.p_input, 0)",
    "cache_write_1h": "coalesce(c.p_cache_write_1h, c.p_cache_write, c.p_input, 0)",
    "output": "coalesce(c.p_output, 0)",
    "reasoning": "coalesce(c.p_reasoning, c.p_output, 0)",
    **{unit: f"coalesce(c.p_{unit}, 0)" for unit in (*_IF_PRICED, "web_search", "request")},
}
_COLUMNS = ",\n        ".join(
    [
        *(f"{_count(unit)} AS n_{unit}" for unit in COUNTS),
        *(f"{price} AS e_{unit}" for unit, price in _PRICES.items()),
    ]
)


def _disjoint(rows: str) -> str:
    """Return the query for the counts of rows, disjoint, with their prices."""
    priced = f"""SELECT u.*, l.listed, c.pattern, c.source, c.service_tier AS priced_tier, c.p_input, c.p_output,
        {_COLUMNS}
    FROM {rows} AS u {_CHOSEN}"""
    return f"""SELECT v.*, n_cache_read - n_cache_read_audio AS d_cache_read, n_cache_write - n_cache_write_1h AS
        d_cache_write, CASE WHEN n_input_audio = 0 THEN 0 ELSE n_input_audio - n_cache_read_audio END AS d_input_audio,
        n_input - n_cache_read - n_cache_write - n_input_image - n_input_video - CASE WHEN n_input_audio = 0 THEN 0
            ELSE n_input_audio - n_cache_read_audio END AS d_input,
        n_output - n_reasoning - n_output_audio - n_output_image - n_output_video - n_citation AS d_output
    FROM ({priced}) AS v"""


_SUBSCRIPTIONS = ", ".join(f"'{name}'" for name in SUBSCRIPTIONS)
_NO_PRICE = f"""CASE WHEN usage_raw IS NULL THEN 'usage'
        WHEN provider IN ({_SUBSCRIPTIONS}) AND pattern IS NULL THEN 'subscription'
        WHEN listed IS NULL THEN 'provider'
        WHEN p_input IS NULL AND p_output IS NULL THEN 'model'
        WHEN p_input IS NOT NULL AND input_tokens IS NULL OR p_output IS NOT NULL AND output_tokens IS NULL THEN 'usage'
        WHEN n_input > {TOKENS_LIMIT} OR n_output > {TOKENS_LIMIT} OR n_web_search > {CALLS_LIMIT} OR d_input < 0
            OR d_output < 0 OR d_cache_read < 0 OR d_cache_write < 0 OR d_input_audio < 0 THEN 'counts' END"""
_SUMS = {
    "input": "d_input * e_input + d_input_audio * e_input_audio + n_input_image * e_input_image "
    "+ n_input_video * e_input_video",
    "cache_read": "d_cache_read * e_cache_read + n_cache_read_audio * e_cache_read_audio",
    "cache_write": "d_cache_write * e_cache_write + n_cache_write_1h * e_cache_write_1h",
    "output": "d_output * e_output + n_output_audio * e_output_audio + n_output_image * e_output_image "
    "+ n_output_video * e_output_video + n_citation * e_citation",
    "reasoning": "n_reasoning * e_reasoning",
    "other": "n_web_search * e_web_search + e_request",
}
_TOKEN_SUMS = {kind: sum for kind, sum in _SUMS.items() if kind != "other"}

# The runs of a model beside the response. Together with the response they have as many tokens as
# one may have: so the sums fit, too.
_BESIDE_NO_PRICE = f"""coalesce({_NO_PRICE}, CASE WHEN billed_input_tokens <= {TOKENS_LIMIT}
            AND billed_output_tokens <= {TOKENS_LIMIT} THEN NULL ELSE 'counts' END)"""
_BESIDE_SUMS = ",\n        ".join(
    f"CAST(sum(CASE WHEN no_price IS NULL THEN {sum} END) AS BIGINT) AS {kind}_beside"
    for kind, sum in _TOKEN_SUMS.items()
)
_BESIDE = f"""SELECT session_id, exchange_id, max(no_price) AS no_price_beside,
        {_BESIDE_SUMS}
    FROM (SELECT d.*, {_BESIDE_NO_PRICE} AS no_price FROM ({_disjoint(_ITERATIONS)}) AS d) AS e
    GROUP BY session_id, exchange_id"""

# Tokens of a model that ran in a region of the customer's choice cost a tenth more. Source:
# Anthropic's page "Pricing", data residency, November 2026. A price of one's own counts as it
# stands.
_DEARER = "inference_geo = 'us' AND source <> 'prices.toml'"
_TENTH = Either("/ 10", "/ 10", "// 10")  # a whole number


def _kind(kind: str) -> str:
    if kind == "other":
        return f"CASE WHEN no_price IS NULL THEN {_SUMS[kind]} END AS other_picousd"
    cost = f"({_SUMS[kind]} + coalesce({kind}_beside, 0))"
    dearer = f"CASE WHEN {_DEARER} THEN {cost} {_TENTH.sqlite} ELSE 0 END"
    return f"CASE WHEN no_price IS NULL THEN {cost} + {dearer} END AS {kind}_picousd"


_KINDS = ",\n        ".join(_kind(kind) for kind in _SUMS)
_TOTAL = f"{' + '.join(f'{kind}_picousd' for kind in _SUMS)} AS cost_picousd"

_OF_BESIDE = ", ".join(f"b.{kind}_beside" for kind in _TOKEN_SUMS)
_KNOWN = f"""SELECT w.*, {_OF_BESIDE}, coalesce({_NO_PRICE}, no_price_beside) AS no_price
    FROM ({_disjoint("usage")}) AS w LEFT JOIN ({_BESIDE}) AS b ON {same_exchange("b", "w")}"""
_SOURCE = f"""FROM (WITH {_CARDS}
SELECT z.*, {_TOTAL} FROM (
    SELECT y.*, {_KINDS} FROM ({_KNOWN}) AS y) AS z) AS c"""


def _source() -> Either:
    """Return the source as each engine writes the time of day, and a whole tenth."""
    postgresql = _SOURCE.replace(_TIME_OF_DAY.sqlite, _TIME_OF_DAY.postgresql)
    return Either(_SOURCE, postgresql, _SOURCE.replace(_TENTH.sqlite, str(_TENTH.duckdb)))


COSTS = View(
    "costs",
    "The cost of an exchange, by the prices that were valid when it was recorded.",
    {
        **of(
            "c",
            "session_id session_name exchange_id started_ns provider api client model owner team tags",
        ),
        "price_model": "c.pattern",
        "price_source": "c.source",
        "price_tier": "c.priced_tier",
        "uncached_input_tokens": "c.input_tokens - coalesce(c.cache_read_input_tokens, 0) "
        "- coalesce(c.cache_write_input_tokens, 0)",
        **{f"{kind}_picousd": f"c.{kind}_picousd" for kind in _SUMS},
        "cost_picousd": "c.cost_picousd",
        "cost_usd": "CAST(c.cost_picousd AS DOUBLE PRECISION) / 1000000000000",
        **of("c", "partial no_price reported_cost_usd reported_cost_source"),
        "uncached_token_picousd": "CASE WHEN c.cost_picousd IS NOT NULL THEN c.p_input - c.e_cache_read END",
    },
    _source(),
    """SELECT model, count(*) AS exchanges, sum(cost_picousd) / 1e12 AS usd, sum(partial) AS partial
FROM costs GROUP BY model ORDER BY usd DESC;""",
)
