"""The recipes of `docs/analytics.md`: ten questions of analysts, and the code that answers each over exported files.

`sqlite` is asked of the log, and its rows are what all the others must give. The code of pandas and polars reads a
dataset by `read(view)` and leaves its rows in `answer`; SQL has each dataset as a table.
"""

from __future__ import annotations

import datetime
import gzip
import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.corpus import DATA
from tests.support.prices import put_prices
from tests.support.server import run_apart
from tests.support.superuser import connected


class Recipe(NamedTuple):
    """A question, and how it is answered in each program."""

    question: str
    sqlite: str
    duckdb: str
    pandas: str
    polars: str


DAY = "date(started_ns / 1000000000, 'unixepoch')"

RECIPES = (
    Recipe(
        "How many tokens did each model use on each day?",
        f"""SELECT {DAY} AS day, model, count(*) AS exchanges, sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens
FROM usage WHERE model IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2""",
        """SELECT day, model, count(*) AS exchanges, CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens
FROM usage WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL""",
        """answer = (
    read("usage")
    .groupby(["day", "model"], as_index=False)
    .agg(
        exchanges=("exchange_id", "size"),
        input_tokens=("input_tokens", lambda tokens: tokens.sum(min_count=1)),
        output_tokens=("output_tokens", lambda tokens: tokens.sum(min_count=1)),
    )
)""",
        """answer = (
    read("usage")
    .filter(pl.col("model").is_not_null())
    .group_by("day", "model")
    .agg(
        exchanges=pl.len(),
        input_tokens=pl.when(pl.col("input_tokens").count() > 0).then(pl.col("input_tokens").sum()),
        output_tokens=pl.when(pl.col("output_tokens").count() > 0).then(pl.col("output_tokens").sum()),
    )
    .sort("day", "model")
    .collect()
)""",
    ),
    Recipe(
        "What did each model cost on each day, and how many of its exchanges have no price?",
        f"""SELECT {DAY} AS day, model, sum(cost_picousd) AS cost_picousd,
    sum(CASE WHEN cost_picousd IS NULL THEN 1 ELSE 0 END) AS without_price
FROM costs WHERE model IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2""",
        """SELECT day, model, CAST(sum(cost_picousd) AS BIGINT) AS cost_picousd,
    count(*) - count(cost_picousd) AS without_price
FROM costs WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL""",
        """answer = (
    read("costs")
    .groupby(["day", "model"], as_index=False)
    .agg(
        cost_picousd=("cost_picousd", lambda cost: cost.sum(min_count=1)),
        without_price=("cost_picousd", lambda cost: cost.isna().sum()),
    )
)""",
        """answer = (
    read("costs")
    .filter(pl.col("model").is_not_null())
    .group_by("day", "model")
    .agg(
        cost_picousd=pl.when(pl.col("cost_picousd").count() > 0).then(pl.col("cost_picousd").sum()),
        without_price=pl.col("cost_picousd").null_count(),
    )
    .sort("day", "model")
    .collect()
)""",
    ),
    Recipe(
        "How long do half, and 95 %, of the requests to each model wait for their first token?",
        """SELECT model, n AS measured, min(CASE WHEN place * 100 >= n * 50 THEN ttft_ns END) AS p50_ns,
    min(CASE WHEN place * 100 >= n * 95 THEN ttft_ns END) AS p95_ns
FROM (SELECT model, ttft_ns, row_number() OVER (PARTITION BY model ORDER BY ttft_ns) AS place,
        count(*) OVER (PARTITION BY model) AS n
    FROM latency WHERE ttft_ns IS NOT NULL AND model IS NOT NULL) AS ranked
GROUP BY model, n ORDER BY model""",
        """SELECT model, count(*) AS measured,
    quantile_disc(ttft_ns, 0.50) AS p50_ns, quantile_disc(ttft_ns, 0.95) AS p95_ns
FROM latency WHERE ttft_ns IS NOT NULL AND model IS NOT NULL GROUP BY model ORDER BY model""",
        """def percentile(percent):
    return lambda times: np.quantile(times.to_numpy(dtype="int64"), percent / 100, method="inverted_cdf")


answer = (
    read("latency")
    .dropna(subset=["ttft_ns"])
    .groupby("model", as_index=False)
    .agg(measured=("ttft_ns", "size"), p50_ns=("ttft_ns", percentile(50)), p95_ns=("ttft_ns", percentile(95)))
)""",
        """answer = (
    read("latency")
    .filter(pl.col("ttft_ns").is_not_null() & pl.col("model").is_not_null())
    .group_by("model")
    .agg(
        measured=pl.len(),
        p50_ns=pl.col("ttft_ns").quantile(0.50, "equiprobable").cast(pl.Int64),
        p95_ns=pl.col("ttft_ns").quantile(0.95, "equiprobable").cast(pl.Int64),
    )
    .sort("model")
    .collect()
)""",
    ),
    Recipe(
        "Which tools take the most time?",
        """SELECT name, count(*) AS calls, sum(latency_ns) AS all_ns, max(latency_ns) AS longest_ns
FROM tool_calls WHERE latency_ns IS NOT NULL GROUP BY name ORDER BY all_ns DESC, name""",
        """SELECT name, count(*) AS calls, CAST(sum(latency_ns) AS BIGINT) AS all_ns, max(latency_ns) AS longest_ns
FROM tool_calls WHERE latency_ns IS NOT NULL GROUP BY name ORDER BY all_ns DESC, name""",
        """answer = (
    read("tool_calls")
    .dropna(subset=["latency_ns"])
    .groupby("name", as_index=False)
    .agg(calls=("latency_ns", "size"), all_ns=("latency_ns", "sum"), longest_ns=("latency_ns", "max"))
    .sort_values(["all_ns", "name"], ascending=[False, True])
)""",
        """answer = (
    read("tool_calls")
    .filter(pl.col("latency_ns").is_not_null())
    .group_by("name")
    .agg(calls=pl.len(), all_ns=pl.col("latency_ns").sum(), longest_ns=pl.col("latency_ns").max())
    .sort(["all_ns", "name"], descending=[True, False])
    .collect()
)""",
    ),
    Recipe(
        "How often do requests to each model fail?",
        """SELECT model, count(*) AS exchanges, sum(failed) AS failed, CAST(sum(failed) AS REAL) / count(*) AS rate
FROM (SELECT model, CASE WHEN status NOT IN ('completed', 'incomplete') OR error IS NOT NULL THEN 1 ELSE 0 END AS failed
    FROM exchange_summary WHERE model IS NOT NULL AND status IS NOT NULL) AS ended
GROUP BY model ORDER BY rate DESC, model""",
        """SELECT model, count(*) AS exchanges,
    count_if(status NOT IN ('completed', 'incomplete') OR error IS NOT NULL) AS failed, failed / exchanges AS rate
FROM exchange_summary WHERE model IS NOT NULL AND status IS NOT NULL GROUP BY model ORDER BY rate DESC, model""",
        """ended = read("exchange_summary").dropna(subset=["model", "status"])
ended["failed"] = ~ended["status"].isin(["completed", "incomplete"]) | ended["error"].notna()
answer = (
    ended.groupby("model", as_index=False)
    .agg(exchanges=("failed", "size"), failed=("failed", "sum"), rate=("failed", "mean"))
    .sort_values(["rate", "model"], ascending=[False, True])
)""",
        """failed = ~pl.col("status").is_in(["completed", "incomplete"]) | pl.col("error").is_not_null()
answer = (
    read("exchange_summary")
    .filter(pl.col("model").is_not_null() & pl.col("status").is_not_null())
    .group_by("model")
    .agg(exchanges=pl.len(), failed=failed.sum(), rate=failed.mean())
    .sort(["rate", "model"], descending=[True, False])
    .collect()
)""",
    ),
    Recipe(
        "How many tokens, and how much time, went into attempts that were sent again?",
        """SELECT retried_status, count(*) AS retries, sum(wasted_total_tokens) AS tokens, sum(wasted_ns) AS wasted_ns
FROM retries WHERE retried_status IS NOT NULL GROUP BY retried_status ORDER BY retried_status""",
        """SELECT retried_status, count(*) AS retries, CAST(sum(wasted_total_tokens) AS BIGINT) AS tokens,
    CAST(sum(wasted_ns) AS BIGINT) AS wasted_ns
FROM retries WHERE retried_status IS NOT NULL GROUP BY retried_status ORDER BY retried_status""",
        """answer = (
    read("retries")
    .groupby("retried_status", as_index=False)
    .agg(
        retries=("exchange_id", "size"),
        tokens=("wasted_total_tokens", lambda tokens: tokens.sum(min_count=1)),
        wasted_ns=("wasted_ns", lambda times: times.sum(min_count=1)),
    )
)""",
        """answer = (
    read("retries")
    .filter(pl.col("retried_status").is_not_null())
    .group_by("retried_status")
    .agg(
        retries=pl.len(),
        tokens=pl.when(pl.col("wasted_total_tokens").count() > 0).then(pl.col("wasted_total_tokens").sum()),
        wasted_ns=pl.when(pl.col("wasted_ns").count() > 0).then(pl.col("wasted_ns").sum()),
    )
    .sort("retried_status")
    .collect()
)""",
    ),
    Recipe(
        "What share of its input does each model read from the prompt cache?",
        """SELECT model, sum(cache_read_input_tokens) AS cached_tokens, sum(input_tokens) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS REAL) / sum(input_tokens) AS share
FROM usage WHERE model IS NOT NULL AND cache_read_input_tokens IS NOT NULL AND input_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
        """SELECT model, CAST(sum(cache_read_input_tokens) AS BIGINT) AS cached_tokens,
    CAST(sum(input_tokens) AS BIGINT) AS all_tokens, cached_tokens / all_tokens AS share
FROM usage WHERE model IS NOT NULL AND cache_read_input_tokens IS NOT NULL AND input_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
        """known = read("usage").dropna(subset=["cache_read_input_tokens"]).query("input_tokens > 0")
answer = known.groupby("model", as_index=False)[["cache_read_input_tokens", "input_tokens"]].sum()
answer["share"] = answer["cache_read_input_tokens"] / answer["input_tokens"]
answer = answer.sort_values(["share", "model"], ascending=[False, True])""",
        """answer = (
    read("usage")
    .filter(
        pl.col("model").is_not_null() & pl.col("cache_read_input_tokens").is_not_null() & (pl.col("input_tokens") > 0)
    )
    .group_by("model")
    .agg(pl.col("cache_read_input_tokens", "input_tokens").sum())
    .with_columns(share=pl.col("cache_read_input_tokens") / pl.col("input_tokens"))
    .sort(["share", "model"], descending=[True, False])
    .collect()
)""",
    ),
    Recipe(
        "What share of its output does each model spend on reasoning?",
        """SELECT model, sum(reasoning_output_tokens) AS reasoning_tokens, sum(output_tokens) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS REAL) / sum(output_tokens) AS share
FROM usage WHERE model IS NOT NULL AND reasoning_output_tokens IS NOT NULL AND output_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
        """SELECT model, CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS all_tokens, reasoning_tokens / all_tokens AS share
FROM usage WHERE model IS NOT NULL AND reasoning_output_tokens IS NOT NULL AND output_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
        """known = read("usage").dropna(subset=["reasoning_output_tokens"]).query("output_tokens > 0")
answer = known.groupby("model", as_index=False)[["reasoning_output_tokens", "output_tokens"]].sum()
answer["share"] = answer["reasoning_output_tokens"] / answer["output_tokens"]
answer = answer.sort_values(["share", "model"], ascending=[False, True])""",
        """answer = (
    read("usage")
    .filter(
        pl.col("model").is_not_null() & pl.col("reasoning_output_tokens").is_not_null() & (pl.col("output_tokens") > 0)
    )
    .group_by("model")
    .agg(pl.col("reasoning_output_tokens", "output_tokens").sum())
    .with_columns(share=pl.col("reasoning_output_tokens") / pl.col("output_tokens"))
    .sort(["share", "model"], descending=[True, False])
    .collect()
)""",
    ),
    Recipe(
        "Which clients record how many sessions, with how many tokens?",
        """SELECT coalesce(client, 'unknown') AS client, count(DISTINCT session_id) AS sessions, count(*) AS exchanges,
    sum(total_tokens) AS tokens
FROM usage GROUP BY 1 ORDER BY 1""",
        """SELECT coalesce(client, 'unknown') AS client, count(DISTINCT session_id) AS sessions, count(*) AS exchanges,
    CAST(sum(total_tokens) AS BIGINT) AS tokens
FROM usage GROUP BY 1 ORDER BY 1""",
        """usage = read("usage")
answer = (
    usage.assign(client=usage["client"].fillna("unknown"))
    .groupby("client", as_index=False)
    .agg(
        sessions=("session_id", "nunique"),
        exchanges=("exchange_id", "size"),
        tokens=("total_tokens", lambda tokens: tokens.sum(min_count=1)),
    )
)""",
        """answer = (
    read("usage")
    .group_by(pl.col("client").fill_null("unknown"))
    .agg(
        sessions=pl.col("session_id").n_unique(),
        exchanges=pl.len(),
        tokens=pl.when(pl.col("total_tokens").count() > 0).then(pl.col("total_tokens").sum()),
    )
    .sort("client")
    .collect()
)""",
    ),
    Recipe(
        "In which five exchanges was there the longest silence, and how many stalls did they have?",
        """SELECT exchange_id, model, longest_silence_ns, stalls
FROM latency WHERE longest_silence_ns IS NOT NULL ORDER BY longest_silence_ns DESC, exchange_id LIMIT 5""",
        """SELECT exchange_id, model, longest_silence_ns, stalls
FROM latency WHERE longest_silence_ns IS NOT NULL ORDER BY longest_silence_ns DESC, exchange_id LIMIT 5""",
        """known = read("latency").dropna(subset=["longest_silence_ns"])
answer = known.sort_values(["longest_silence_ns", "exchange_id"], ascending=[False, True]).head(5)[
    ["exchange_id", "model", "longest_silence_ns", "stalls"]
]""",
        """answer = (
    read("latency")
    .filter(pl.col("longest_silence_ns").is_not_null())
    .sort(["longest_silence_ns", "exchange_id"], descending=[True, False])
    .head(5)
    .select("exchange_id", "model", "longest_silence_ns", "stalls")
    .collect()
)""",
    ),
)


def plain(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The rows of any program as those of SQLite: dates as text, no kinds of numbers but two, nothing as `None`."""
    return [tuple(map(_plain, row)) for row in rows]


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else round(float(value), 9)
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 9)
    return None if type(value).__name__ == "NAType" else value


PROGRAMS = {"duckdb": ("DuckDB", "sql"), "pandas": ("pandas", "python"), "polars": ("polars", "python")}
"""How the page names each program, and the language of its recipes."""


def section() -> str:
    """The recipes as the page has them."""
    parts = ["## Ten questions\n"]
    for recipe in RECIPES:
        parts.append(f"### {recipe.question}\n")
        for field, (name, language) in PROGRAMS.items():
            end = ";" if language == "sql" else ""
            parts.append(f"{name}:\n\n```{language}\n{getattr(recipe, field)}{end}\n```\n")
    return "\n".join(parts)


# -- The recipes of `docs/analytics.md` for ClickHouse and Spark: the questions of `tests.support.analytics`


CLICKHOUSE = (
    """SELECT day, model, count() AS exchanges, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM usage WHERE model IS NOT NULL GROUP BY day, model ORDER BY day, model""",
    """SELECT day, model, sum(cost_picousd) AS cost_picousd, countIf(cost_picousd IS NULL) AS without_price
FROM costs WHERE model IS NOT NULL GROUP BY day, model ORDER BY day, model""",
    """WITH arraySort(groupArray(ttft_ns)) AS times
SELECT model, count() AS measured,
    times[intDiv(measured * 50 + 99, 100)] AS p50_ns, times[intDiv(measured * 95 + 99, 100)] AS p95_ns
FROM latency WHERE ttft_ns IS NOT NULL AND model IS NOT NULL GROUP BY model ORDER BY model""",
    """SELECT name, count() AS calls, sum(latency_ns) AS all_ns, max(latency_ns) AS longest_ns
FROM tool_calls WHERE latency_ns IS NOT NULL GROUP BY name ORDER BY all_ns DESC, name""",
    """SELECT model, count() AS exchanges,
    countIf(status NOT IN ('completed', 'incomplete') OR error IS NOT NULL) AS failed, failed / exchanges AS rate
FROM exchange_summary WHERE model IS NOT NULL AND status IS NOT NULL GROUP BY model ORDER BY rate DESC, model""",
    """SELECT retried_status, count() AS retries, sum(wasted_total_tokens) AS tokens, sum(wasted_ns) AS wasted_ns
FROM retries WHERE retried_status IS NOT NULL GROUP BY retried_status ORDER BY retried_status""",
    """SELECT model, sum(cache_read_input_tokens) AS cached_tokens, sum(input_tokens) AS all_tokens,
    cached_tokens / all_tokens AS share
FROM usage WHERE model IS NOT NULL AND cache_read_input_tokens IS NOT NULL AND input_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
    """SELECT model, sum(reasoning_output_tokens) AS reasoning_tokens, sum(output_tokens) AS all_tokens,
    reasoning_tokens / all_tokens AS share
FROM usage WHERE model IS NOT NULL AND reasoning_output_tokens IS NOT NULL AND output_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
    """SELECT coalesce(client, 'unknown') AS program, uniqExact(session_id) AS sessions, count() AS exchanges,
    sum(total_tokens) AS tokens
FROM usage GROUP BY program ORDER BY program""",
    """SELECT exchange_id, model, longest_silence_ns, stalls
FROM latency WHERE longest_silence_ns IS NOT NULL ORDER BY longest_silence_ns DESC, exchange_id LIMIT 5""",
)

SPARK = (
    """SELECT day, model, count(*) AS exchanges, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM usage WHERE model IS NOT NULL GROUP BY ALL ORDER BY day, model""",
    """SELECT day, model, sum(cost_picousd) AS cost_picousd, count_if(cost_picousd IS NULL) AS without_price
FROM costs WHERE model IS NOT NULL GROUP BY ALL ORDER BY day, model""",
    """SELECT model, count(*) AS measured, percentile_disc(0.50) WITHIN GROUP (ORDER BY ttft_ns) AS p50_ns,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY ttft_ns) AS p95_ns
FROM latency WHERE ttft_ns IS NOT NULL AND model IS NOT NULL GROUP BY model ORDER BY model""",
    """SELECT name, count(*) AS calls, sum(latency_ns) AS all_ns, max(latency_ns) AS longest_ns
FROM tool_calls WHERE latency_ns IS NOT NULL GROUP BY name ORDER BY all_ns DESC, name""",
    """SELECT model, count(*) AS exchanges,
    count_if(status NOT IN ('completed', 'incomplete') OR error IS NOT NULL) AS failed, failed / exchanges AS rate
FROM exchange_summary WHERE model IS NOT NULL AND status IS NOT NULL GROUP BY model ORDER BY rate DESC, model""",
    """SELECT retried_status, count(*) AS retries, sum(wasted_total_tokens) AS tokens, sum(wasted_ns) AS wasted_ns
FROM retries WHERE retried_status IS NOT NULL GROUP BY retried_status ORDER BY retried_status""",
    """SELECT model, sum(cache_read_input_tokens) AS cached_tokens, sum(input_tokens) AS all_tokens,
    cached_tokens / all_tokens AS share
FROM usage WHERE model IS NOT NULL AND cache_read_input_tokens IS NOT NULL AND input_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
    """SELECT model, sum(reasoning_output_tokens) AS reasoning_tokens, sum(output_tokens) AS all_tokens,
    reasoning_tokens / all_tokens AS share
FROM usage WHERE model IS NOT NULL AND reasoning_output_tokens IS NOT NULL AND output_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
    """SELECT coalesce(client, 'unknown') AS program, count(DISTINCT session_id) AS sessions, count(*) AS exchanges,
    sum(total_tokens) AS tokens
FROM usage GROUP BY program ORDER BY program""",
    """SELECT exchange_id, model, longest_silence_ns, stalls
FROM latency WHERE longest_silence_ns IS NOT NULL ORDER BY longest_silence_ns DESC, exchange_id LIMIT 5""",
)

VIEWS = ("usage", "costs", "latency", "tool_calls", "exchange_summary", "retries")
"""That the questions are about."""

OPENED_BY_CLICKHOUSE = "\n".join(
    f"CREATE VIEW {view} AS SELECT * FROM file('analysis/{view}/day=*/*.parquet');" for view in VIEWS
)
OPENED_BY_SPARK = f"""from pyspark.sql import SparkSession

local = {{"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}}
spark = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
for view in ({", ".join(f'"{view}"' for view in VIEWS)}):
    spark.read.parquet(f"analysis/{{view}}").createOrReplaceTempView(view)"""

CLICKHOUSE_SETTINGS = {
    "prefer_column_name_to_alias": 1,
    "output_format_json_quote_64bit_integers": 0,
    "max_memory_usage": 2 * 2**30,
}


def sections() -> str:
    """The recipes as the page has them, behind those of the other programs."""
    return f"""\
## The same in ClickHouse

With `clickhouse-local`, or in Python with `chdb` (`chdb.session.Session`). Paths are relative to the folder in which it
runs. The setting makes a name that of the column where an alias has the same name.

```sql
SET prefer_column_name_to_alias = 1;
{OPENED_BY_CLICKHOUSE}
```

{_questions(CLICKHOUSE)}
## The same in Spark

With PySpark 4 and a Java runtime; here on one machine. `spark.sql("…").show()` answers.

```python
{OPENED_BY_SPARK}
```

{_questions(SPARK)}"""


def _questions(answers: Sequence[str]) -> str:
    asked = zip(RECIPES, answers, strict=True)
    return "\n".join(f"{recipe.question}\n\n```sql\n{answer};\n```\n" for recipe, answer in asked)


def exported_log(folder: Path) -> Path:
    """Make a log with agents' sessions, failures, retries and prices, `recorder.db`, and its export, `parquet`."""
    db, files = folder / "recorder.db", folder / "files"
    files.mkdir()
    for path in (DATA / "cached_sessions").glob("*.gz"):
        (files / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    (files / "retried.yaml").write_bytes(_retried())
    others = sorted((DATA / "cassettes").glob("*.[yj]*"))
    imported = run_apart(db, "import", *sorted(files.iterdir()), *others)
    assert imported.code == 0, imported.err
    for provider, model in (("openai", "gpt-6.1-sol"), ("openai", "gpt-5-mini"), ("anthropic", "claude-opus-5-5")):
        put_prices(db, model, provider, input="1.25", output="10")
    exported = run_apart(db, "export", "--format", "parquet", "--events", folder / "parquet")
    assert exported.code == 0, exported.err
    return folder


def _retried() -> bytes:
    """A cassette of VCR: a request that was refused twice and then answered, and one whose retry failed too."""
    request = {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions"}
    answered = (
        '{"object":"chat.completion","model":"gpt-5-mini","choices":[],"usage":{"prompt_tokens":9,"total_tokens":9}}'
    )
    calls = [
        {
            "request": request
            | {
                "body": f'{{"model":"gpt-5-mini","n":{question}}}',
                "headers": {"x-stainless-retry-count": [str(attempt)]},
            },
            "response": {
                "status": {"code": status, "message": None},
                "headers": {"content-type": ["application/json"]},
                "body": {"string": answered if status == 200 else '{"error":{"message":"no"}}'},
            },
        }
        for question, statuses in enumerate(((429, 500, 200), (503, 503)))
        for attempt, status in enumerate(statuses)
    ]
    return json.dumps({"version": 1, "interactions": calls}).encode()


def answers_of_the_log(db: Path) -> list[list[tuple[Any, ...]]]:
    """The rows of SQLite for each question."""
    with connected(db) as connection:
        return [plain(connection.execute(recipe.sqlite).fetchall()) for recipe in RECIPES]


class ClickHouse:
    """ClickHouse in this process, with tables in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        from chdb import session

        self._session = session.Session(str(folder))
        for name, value in CLICKHOUSE_SETTINGS.items():
            self._session.query(f"SET {name} = {value}")

    def close(self) -> None:
        self._session.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, as those of SQLite."""
        return plain(json.loads(line) for line in str(self._session.query(sql, "JSONCompactEachRow")).splitlines())
