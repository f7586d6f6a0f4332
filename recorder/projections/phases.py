"""The steps of the provider's own tools with their times. They have no content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.model.events import Event
from recorder.model.facts import Fact, ToolProgress
from recorder.model.text import storable, storable_json
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.projection import Handler
from recorder.projections.rows import PhaseRow

PHASES_LIMIT = 10_000  # of one response: what comes after is counted as an anomaly only


class Phases:
    def __init__(self, facts: ExchangeFacts) -> None:
        self._ids, self._note = facts.ids, facts.anomalies.note
        self._rows: list[PhaseRow] = []
        self._last: dict[tuple[int | None, str | None], int] = {}  # the row of each item's last step

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {ToolProgress: self._on_progressed}

    def _on_progressed(self, fact: ToolProgress, event: Event) -> None:
        if len(self._rows) == PHASES_LIMIT:
            self._note("cut", f"phases after the first {PHASES_LIMIT:,}", event)
            return
        item = (event.output_index, None if event.output_index is not None else event.item_id)
        before = self._last.get(item)
        if before is not None:
            self._rows[before] = msgspec.structs.replace(self._rows[before], ended_ns=event.t_ns)
        self._last[item] = len(self._rows)
        self._rows.append(
            PhaseRow(
                *self._ids,
                step=len(self._rows),
                output_index=event.output_index,
                item_id=storable(event.item_id),
                type=storable(fact.type),
                phase=storable(fact.phase),
                detail=storable_json(fact.detail),
                began_ns=event.t_ns,
                ended_ns=None,
            )
        )

    def rows(self) -> Iterable[PhaseRow]:
        return self._rows
