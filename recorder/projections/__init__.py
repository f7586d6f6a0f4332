"""The meaning of the log as tables: events → facts → rows, and the SQL views on them.

Must not know: the database.

`fact_reader` gives an event to the decoder of its dialect (`recorder.wire.dialects`), which returns facts; `fold` gives
the facts to each projection, which makes rows: `items` follows messages, reasoning and tool calls, and `item` makes the
row of each. `recorder.store.write.projector` writes the rows. A further projection is a module with a `PROJECTION`,
its line in `PROJECTIONS`, and a migration that creates its table.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.projections import (
    anomalies,
    exchanges,
    history,
    items,
    iterations,
    parameters,
    phases,
    prompts,
    requests,
    results,
    timing,
    usage,
    user_texts,
)
from recorder.projections.projection import Projection

__all__ = ["PROJECTIONS", "TABLES", "Projection"]

PROJECTIONS: tuple[Projection, ...] = (
    exchanges.PROJECTION,
    items.PROJECTION,
    phases.PROJECTION,
    usage.PROJECTION,
    timing.PROJECTION,
    results.PROJECTION,
    anomalies.PROJECTION,
    history.PROJECTION,
    requests.PROJECTION,
    user_texts.PROJECTION,
    parameters.PROJECTION,
    prompts.PROJECTION,
    iterations.PROJECTION,
)

TABLES: Mapping[str, str] = {each.name: each.table for each in PROJECTIONS}
"""The tables of the projections by their names: a version stands in its `Projection` and nowhere else."""
