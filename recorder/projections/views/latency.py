"""The views of percentiles: how long answers took, by model and by day.

A percentile is the smallest value that at least so many percent of the values do not exceed (nearest rank): it is a
value that was measured, and SQLite has no function for percentiles. Ranks are of rows that have the value, by a window
for each measure.
"""

from __future__ import annotations

from recorder.projections.rows import DAY
from recorder.projections.views.parts import DATE, Either, View, dated

MEASURES = {"ttft": "ttft_ns", "duration": "duration_ns", "silence": "longest_silence_ns"}
"""The columns of the view `latency`, by how those of their percentiles begin."""
PERCENTS = (50, 90, 99)


def nearest_rank(percent: int, value: str, rank: str, count: str) -> str:
    """Return the aggregate that is a percentile, of rows with a value, its rank and the count of values."""
    return f"min(CASE WHEN {rank} * 100 >= {count} * {percent} THEN {value} END)"


PERCENTILES = {
    f"{name}_p{percent}_ns": nearest_rank(percent, column, f"{name}_rank", f"{name}_count")
    for name, column in MEASURES.items()
    for percent in PERCENTS
}
COUNTS = {"exchanges": "count(*)", "measured": "count(ttft_ns)"}


def _ranked(key: str, value: str) -> str:
    """Return the answers among the rows of `latency`, with their ranks and the counts of values, among those of one
    origin and key.
    """
    group = f"origin, {key}"
    windows = ",\n        ".join(
        f"count({column}) OVER (PARTITION BY {group}) AS {name}_count,\n        "
        f"row_number() OVER (PARTITION BY {group}, CASE WHEN {column} IS NULL THEN 1 ELSE 0 END ORDER BY {column}) "
        f"AS {name}_rank"
        for name, column in MEASURES.items()
    )
    measures = ", ".join(MEASURES.values())
    values = f"(SELECT origin, {value}, {measures} FROM latency WHERE generates = 1) AS l"
    return f"(SELECT {group}, {measures},\n        {windows}\n    FROM {values})"


_SUMS = ",\n    ".join(f"{each} AS {name}" for name, each in {**COUNTS, **PERCENTILES}.items())


def _of_days(day: str) -> str:
    """Return the percentiles of each day since 1970 (UTC)."""
    return (
        f"(SELECT origin, days,\n    {_SUMS}\nFROM {_ranked('days', f'{day} AS days')} AS r GROUP BY origin, days) AS u"
    )


LATENCY = (
    View(
        "latency_by_model",
        "The percentiles of the times of a model, of recordings of one origin.",
        {"model": "model", "origin": "origin", **COUNTS, **PERCENTILES},
        f"FROM {_ranked('model', 'model')} AS r GROUP BY origin, model",
        """SELECT model, exchanges, ttft_p50_ns / 1e9 AS median_s, ttft_p99_ns / 1e9 AS slow_s
FROM latency_by_model WHERE origin = 'live' ORDER BY ttft_p99_ns DESC;""",
    ),
    View(
        "latency_by_day",
        "The percentiles of the times of a day, of recordings of one origin.",
        {
            "day": DATE,
            "origin": "origin",
            **{name: name for name in (*COUNTS, *PERCENTILES)},
        },
        Either(f"FROM ({dated(_of_days(DAY))}) AS dates", f"FROM {_of_days('started_ns / 86400000000000')}"),
        """SELECT day, exchanges, ttft_p50_ns / 1e9 AS ttft_s, silence_p99_ns / 1e9 AS silence_s
FROM latency_by_day WHERE origin = 'live' ORDER BY day;""",
    ),
)
