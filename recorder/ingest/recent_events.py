"""The events of open exchanges that were written, in memory: one that ends is folded without a look
at the log.

Rules of this file:

* It has all events of an exchange from its first one on, or none: of the others the log is read.
* What it has was written as it is here. If it is not certain that it was, all is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.projections.fold import Folding
from recorder.projections.rows import ResultRow
from recorder.store.write.links import Key, key_of
from recorder.store.write.projector import Whole
from recorder.wire.dialects import tells_targets

LIMIT_BYTES = 32 * 2**20
"""Some 50,000 small events, a thousand answers at once. To read an event back takes a fifth of what
it takes to fold it: for a few long streams that is not worth more memory."""

EVENT_BYTES = 450  # of an event besides its `raw`


class _OpenExchange(msgspec.Struct):
    exchange: Exchange
    events: list[Event] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    # of a stream that has results for calls of others, which do not wait for its end
    folding: Folding | None = None
    told: int = 0  # of these results


class RecentEvents:
    """The events of exchanges that have not ended, as far as there is room."""

    def __init__(self) -> None:
        self._open: dict[Key, _OpenExchange] = {}
        self._size_bytes = 0

    def add(self, begun: Iterable[Exchange], events: Iterable[Event]) -> Mapping[Key, Whole]:
        """Add exchanges and events that are written now.

        Return all of each exchange that ends with them, if all is here.
        """
        ended: dict[Key, Whole] = {}
        exchanges = {key_of(each): each for each in begun}
        for event in events:
            key = event.session_id, event.exchange_id
            exchange = self._open.get(key)
            if exchange is None:
                if event.pos or key not in exchanges:
                    continue
                exchange = self._open[key] = _opened(exchanges[key])
            elif event.pos != len(exchange.events):
                self._drop(key)
                continue
            exchange.events.append(event)
            _tell(exchange, event)
            size_bytes = EVENT_BYTES + len(event.raw)
            exchange.size_bytes += size_bytes
            self._size_bytes += size_bytes
            if event.kind == "end":
                ended[key] = Whole(exchange.exchange, exchange.events)
                self._drop(key)
        while self._size_bytes > LIMIT_BYTES:
            self._drop(next(iter(self._open)))  # the longest open, most likely the longest
        return ended

    def new_results(self) -> list[ResultRow]:
        """Return the results for calls of others that streams have since this was asked last."""
        found: list[ResultRow] = []
        for exchange in self._open.values():
            if exchange.folding is not None:
                rows = exchange.folding.rows_of("results")
                found += rows[exchange.told :]
                exchange.told = len(rows)
        return found

    def sessions_saying(self, ids: Iterable[str]) -> set[str]:
        """Return the sessions of the exchanges here whose response has one of some ids so far."""
        quoted = [msgspec.json.encode(id) for id in ids]

        def says(exchange: _OpenExchange) -> bool:
            bodies = (event.raw for event in exchange.events if event.kind in BODY_KINDS)
            return any(any(id in raw for id in quoted) for raw in bodies)

        return {session_id for (session_id, _), exchange in self._open.items() if says(exchange)}

    def forget(self) -> None:
        """Forget all."""
        self._open.clear()
        self._size_bytes = 0

    def _drop(self, key: Key) -> None:
        self._size_bytes -= self._open.pop(key).size_bytes


def _opened(exchange: Exchange) -> _OpenExchange:
    answers_others = tells_targets(exchange.method, exchange.target)
    return _OpenExchange(exchange, folding=Folding(exchange) if answers_others else None)


def _tell(exchange: _OpenExchange, event: Event) -> None:
    if exchange.folding is None:
        return
    try:
        exchange.folding.apply(event)
    except MemoryError:
        raise
    except Exception:
        # a fault of this program, which is noted when the exchange ends and is projected
        exchange.folding = None
