"""The view on the prompt cache."""

from __future__ import annotations

from recorder.projections.rows import AVOIDABLE, TABLES
from recorder.projections.views.parts import SESSION, ids, of
from recorder.projections.views.view import View

_CLASSES = ", ".join(f"'{each}'" for each in AVOIDABLE)

CACHE_VIEWS = (
    View(
        "cache_misses",
        "A request for which the provider's prompt cache had less than it could have had, and why.",
        {
            **ids("c"),
            **of("c", "started_ns provider api"),
            "model": "c.model",
            "class": "c.cache_class",
            "is_avoidable": f"CASE WHEN c.cache_class IN ({_CLASSES}) THEN 1 ELSE 0 END",
            "input_tokens": "c.input_tokens",
            "could_tokens": "c.could_tokens",
            "cached_tokens": "c.cached_tokens",
            "missed_tokens": "c.missed_tokens",
            "is_estimate": "c.is_estimate",
            "since_use_ns": "c.since_use_ns",
            "path": "c.path",
            "previous_exchange_id": "c.previous_exchange_id",
            "common_bytes": "c.common_bytes",
            "prompt_bytes": "c.prompt_bytes",
        },
        f"""FROM {TABLES["prompts"]} AS c
{SESSION("c")}
WHERE c.cache_class IS NOT NULL AND c.cache_class <> 'hit' AND c.cache_class <> 'first'""",
        """SELECT class, path, count(*) AS times, sum(missed_tokens) AS missed
FROM cache_misses GROUP BY class, path ORDER BY missed DESC;""",
    ),
)
"""The views that `VIEWS` has from here."""
