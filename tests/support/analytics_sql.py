"""The recipes of `docs/analytics.md` for ClickHouse and Spark: the questions of `tests.support.analytics`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.analytics import RECIPES, plain
from tests.support.corpus import DATA
from tests.support.prices import put_prices
from tests.support.server import run_apart
from tests.support.superuser import connected

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
