"""The tokens of each exchange: the last that was reported, never a sum of reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.events import Event, Exchange
from recorder.facts import Ended, Fact, Finished, Usage, UsageReported
from recorder.projections.projection import Handler, Projection, Witness
from recorder.projections.storable import storable


class UsageRow(msgspec.Struct, frozen=True):
    """The token counts of one exchange, `NULL` where not reported. See `recorder.facts.Usage`."""

    session_id: str
    exchange_id: str
    input_tokens: int | None
    cache_read_input_tokens: int | None
    cache_write_input_tokens: int | None
    output_tokens: int | None
    reasoning_output_tokens: int | None
    total_tokens: int | None
    usage_raw: str | None  # the provider's JSON
    partial: bool  # the stream broke off, or still runs: there may be more


class _Usage:
    def __init__(self, exchange: Exchange, _: Witness) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._usage = Usage()
        self._raw: str | None = None
        self._is_finished = self._is_whole = False

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {UsageReported: self._on_usage, Finished: self._on_finished, Ended: self._on_ended}

    def _on_usage(self, fact: UsageReported, event: Event) -> None:
        self._usage, self._raw = fact.usage, fact.raw

    def _on_finished(self, fact: Finished, event: Event) -> None:
        self._is_finished = True

    def _on_ended(self, fact: Ended, event: Event) -> None:
        self._is_whole = self._is_finished or fact.status == "completed"

    def rows(self) -> Iterable[UsageRow]:
        counts = msgspec.structs.asdict(self._usage)
        yield UsageRow(*self._ids, **counts, usage_raw=storable(self._raw), partial=not self._is_whole)


PROJECTION = Projection("usage", 1, UsageRow, ("session_id", "exchange_id"), _Usage)
