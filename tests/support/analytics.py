"""The questions of `docs/analytics.md`: what SQLite answers of the log, and the code that the page
has for the others.

`ANSWERED_BY_SQLITE` is asked of the log, and its rows are what all the others must give over
exported files. The code is taken from the page, so that what runs is what is printed there.
"""

from __future__ import annotations

import datetime
import gzip
import json
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.corpus import DATA, ROOT
from tests.support.rows import put_prices
from tests.support.server import run_apart
from tests.support.superuser import connected

PAGE = (ROOT / "docs" / "analytics.md").read_text()

DAY = "date(started_ns / 1000000000, 'unixepoch')"

ANSWERED_BY_SQLITE = {
    "How many tokens did each model use on each day?": f"""\
SELECT {DAY} AS day, model, count(*) AS exchanges, sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens
FROM usage WHERE model IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2""",
    "What did each model cost on each day, and how many of its exchanges have no price?": f"""\
SELECT {DAY} AS day, model, sum(cost_picousd) AS cost_picousd,
    sum(CASE WHEN cost_picousd IS NULL THEN 1 ELSE 0 END) AS without_price
FROM costs WHERE model IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2""",
    "How long do half, and 95 %, of the requests to each model wait for their first token?": """\
SELECT model, n AS measured, min(CASE WHEN place * 100 >= n * 50 THEN ttft_ns END) AS p50_ns,
    min(CASE WHEN place * 100 >= n * 95 THEN ttft_ns END) AS p95_ns
FROM (SELECT model, ttft_ns, row_number() OVER (PARTITION BY model ORDER BY ttft_ns) AS place,
        count(*) OVER (PARTITION BY model) AS n
    FROM latency WHERE ttft_ns IS NOT NULL AND model IS NOT NULL) AS ranked
GROUP BY model, n ORDER BY model""",
    "Which tools take the most time?": """\
SELECT name, count(*) AS calls, sum(latency_ns) AS all_ns, max(latency_ns) AS longest_ns
FROM tool_calls WHERE latency_ns IS NOT NULL GROUP BY name ORDER BY all_ns DESC, name""",
    "How often do requests to each model fail?": """\
SELECT model, count(*) AS exchanges, sum(failed) AS failed, CAST(sum(failed) AS REAL) / count(*) AS rate
FROM (SELECT model, CASE WHEN status NOT IN ('completed', 'incomplete') OR error IS NOT NULL THEN 1 ELSE 0 END AS failed
    FROM exchange_summary WHERE model IS NOT NULL AND status IS NOT NULL) AS ended
GROUP BY model ORDER BY rate DESC, model""",
    "How many tokens, and how much time, went into attempts that were sent again?": """\
SELECT retried_status, count(*) AS retries, sum(wasted_total_tokens) AS tokens, sum(wasted_ns) AS wasted_ns
FROM retries WHERE retried_status IS NOT NULL GROUP BY retried_status ORDER BY retried_status""",
    "What share of its input does each model read from the prompt cache?": """\
SELECT model, sum(cache_read_input_tokens) AS cached_tokens, sum(input_tokens) AS input_tokens,
    CAST(sum(cache_read_input_tokens) AS REAL) / sum(input_tokens) AS share
FROM usage WHERE model IS NOT NULL AND cache_read_input_tokens IS NOT NULL AND input_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
    "What share of its output does each model spend on reasoning?": """\
SELECT model, sum(reasoning_output_tokens) AS reasoning_tokens, sum(output_tokens) AS output_tokens,
    CAST(sum(reasoning_output_tokens) AS REAL) / sum(output_tokens) AS share
FROM usage WHERE model IS NOT NULL AND reasoning_output_tokens IS NOT NULL AND output_tokens > 0
GROUP BY model ORDER BY share DESC, model""",
    "Which clients record how many sessions, with how many tokens?": """\
SELECT coalesce(client, 'unknown') AS client, count(DISTINCT session_id) AS sessions, count(*) AS exchanges,
    sum(total_tokens) AS tokens
FROM usage GROUP BY 1 ORDER BY 1""",
    "In which five exchanges was there the longest silence, and how many stalls did they have?": """\
SELECT exchange_id, model, longest_silence_ns, stalls
FROM latency WHERE longest_silence_ns IS NOT NULL ORDER BY longest_silence_ns DESC, exchange_id LIMIT 5""",
}
"""By question, in the order of the page."""


def code_of(heading: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the blocks of a part of the page before its first question, and those of each question
    that it has.
    """
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    questions = "|".join(map(re.escape, ANSWERED_BY_SQLITE))
    opening, *rest = re.split(rf"^(?:### )?({questions})$", part, flags=re.MULTILINE)
    asked = dict(zip(rest[::2], map(_blocks, rest[1::2]), strict=True))
    assert len(asked) >= 3
    return _blocks(opening), asked


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```\w+\n(.*?);?\n```$", text, re.DOTALL | re.MULTILINE)


def _nth(answers: dict[str, list[str]], number: int) -> dict[str, str]:
    return {
        question: blocks[number] for question, blocks in answers.items() if len(blocks) > number
    }


_, _ANSWERS = code_of("Ten questions")
DUCKDB, PANDAS, POLARS = _nth(_ANSWERS, 0), _nth(_ANSWERS, 1), _nth(_ANSWERS, 2)
[OPENED_BY_CLICKHOUSE], _IN_CLICKHOUSE = code_of("The same in ClickHouse")
[OPENED_BY_SPARK], _IN_SPARK = code_of("The same in Spark")
CLICKHOUSE, SPARK = _nth(_IN_CLICKHOUSE, 0), _nth(_IN_SPARK, 0)

VIEWS = ("usage", "costs", "latency", "tool_calls", "exchange_summary", "retries")
"""That the questions are about."""

CLICKHOUSE_SETTINGS = {
    "prefer_column_name_to_alias": 1,
    "output_format_json_quote_64bit_integers": 0,
    "max_memory_usage": 2 * 2**30,
}


def plain(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The rows of any program as those of SQLite: dates as text, no kinds of numbers but two,
    nothing as `None`.
    """
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


def exported_log(folder: Path) -> Path:
    """Make a log with agents' sessions, failures, retries and prices, `recorder.db`, and its
    export, `parquet`.
    """
    db, files = folder / "recorder.db", folder / "files"
    files.mkdir()
    for path in (DATA / "cached_sessions").glob("*.gz"):
        (files / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    (files / "retried.yaml").write_bytes(_retried())
    others = sorted((DATA / "cassettes").glob("*.[yj]*"))
    imported = run_apart(db, "import", *sorted(files.iterdir()), *others)
    assert imported.code == 0, imported.err
    for provider, model in (
        ("openai", "gpt-6.1-sol"),
        ("openai", "gpt-5-mini"),
        ("anthropic", "claude-opus-5-5"),
    ):
        put_prices(db, model, provider, input="1.25", output="10")
    exported = run_apart(db, "export", "--format", "parquet", "--events", folder / "parquet")
    assert exported.code == 0, exported.err
    return folder


def _retried() -> bytes:
    """A cassette of VCR: a request that was refused twice and then answered, and one whose retry
    failed too.
    """
    request = {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions"}
    answered = (
        '{"object":"chat.completion",'
        '"model":"gpt-5-mini","choices":[],"usage":{"prompt_tokens":9,"total_tokens":9}}'
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


def answers_of_the_log(
    db: Path, questions: Iterable[str] = ANSWERED_BY_SQLITE
) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of SQLite for each question."""
    with connected(db) as connection:
        return {
            each: plain(connection.execute(ANSWERED_BY_SQLITE[each]).fetchall())
            for each in questions
        }


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
        return plain(
            json.loads(line)
            for line in str(self._session.query(sql, "JSONCompactEachRow")).splitlines()
        )
