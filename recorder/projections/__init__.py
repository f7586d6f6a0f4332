"""The meaning of the log as tables: events → facts → rows, and the views on them.

A further projection is a file with a `PROJECTION` and its line here, and a migration that makes its table. Must not
know: the database.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.projections import anomalies, exchanges, history, items, phases, results, timing, usage
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
)

TABLES: Mapping[str, str] = {each.name: each.table for each in PROJECTIONS}
"""The tables of the projections by their names: a version stands in its `Projection` and nowhere else."""
