"""The events of a session for its timeline, column by column: a session may have a million.

The database makes a list of each column of an exchange, so that there is a row for each exchange,
and not for each event: that takes a quarter of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from sqlalchemy import BigInteger, bindparam, select

from recorder.store.queries.outlines import Outline
from recorder.store.queries.reader import LogReader
from recorder.store.schema import events
from recorder.store.sql import OfEngine, of_session

SLICE = 50_000  # events that one transaction reads: a twentieth of a second
TICKS_LIMIT = 1_000_000  # events of one answer: 20 MB of JSON, and more than a browser draws


def _listed(expression: str) -> OfEngine:
    """Return the values of the events of an exchange, in order of position, as JSON."""

    def written(engine: str) -> str:
        if engine == "sqlite":
            # it goes along the key, which ends with the position
            return f"json_group_array({expression})"
        return f"CAST(json_agg({expression} ORDER BY pos) AS text)"

    return OfEngine(written)


_COLUMNS = {"t_ns": "t_ns", "kind": "kind", "type": "type", "output_index": "output_index"}
_SLICE = (
    select(
        events.c.exchange_id,
        *(_listed(expression).label(name) for name, expression in _COLUMNS.items()),
    )
    .where(
        of_session(events),
        events.c.exchange_id.between(bindparam("first"), bindparam("last")),
        events.c.pos > bindparam("after", type_=BigInteger),
        events.c.pos <= bindparam("until", type_=BigInteger),
    )
    .group_by(events.c.exchange_id)
)
# Tuples: the garbage collector goes through lists again and again, which takes a twentieth of the
# time.
_NUMBERS, _INDICES = (
    msgspec.json.Decoder(tuple[int, ...]),
    msgspec.json.Decoder(tuple[int | None, ...]),
)
_KINDS, _TYPES = msgspec.json.Decoder(tuple[str, ...]), msgspec.json.Decoder(tuple[str | None, ...])


@dataclass(slots=True)
class Ticks:
    """The events of an exchange from one of its positions on: there is no hole in them."""

    first_pos: int
    t_ns: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    types: tuple[str | None, ...] = ()
    output_indices: tuple[int | None, ...] = ()

    def __len__(self) -> int:
        return len(self.t_ns)

    def by_output(self) -> dict[int | None, list[int]]:
        """Return the places of the events of each output index."""
        found: dict[int | None, list[int]] = defaultdict(list)
        for place, index in enumerate(self.output_indices):
            found[index].append(place)
        return found


class _Slice(NamedTuple):
    """Exchanges in the order of their ids, or a part of one: so many events as one transaction
    reads.
    """

    first: str
    last: str
    after: int
    until: int


async def read_ticks(
    log: LogReader, session_id: str, outlines: Iterable[Outline], after: int
) -> tuple[dict[str, Ticks], bool]:
    """Return the events of some exchanges of a session after a position, and whether these are all."""
    found: dict[str, Ticks] = defaultdict(lambda: Ticks(after + 1))
    count = 0
    for part in _slices(outlines, after):
        if count >= TICKS_LIMIT:
            return found, False
        for row in await log.rows(_SLICE, session_id=session_id, **part._asdict()):
            ticks = found[row.exchange_id]
            count -= len(ticks)
            ticks.t_ns += _NUMBERS.decode(row.t_ns)
            ticks.kinds += _KINDS.decode(row.kind)
            ticks.types += _TYPES.decode(row.type)
            ticks.output_indices += _INDICES.decode(row.output_index)
            count += len(ticks)
    return found, True


def _slices(outlines: Iterable[Outline], after: int) -> Iterator[_Slice]:
    """Yield parts of about as many events.

    Exchanges that follow each other by their ids are read together.
    """
    together: list[Outline] = []
    count = 0
    for each in sorted(outlines, key=lambda outline: outline.exchange_id):
        if count + each.events > SLICE:
            yield from _parts(together, after)
            together, count = [], 0
        together.append(each)
        count += each.events
    yield from _parts(together, after)


def _parts(together: list[Outline], after: int) -> Iterator[_Slice]:
    """Yield exchanges as one part, or one that is larger as several."""
    last_pos = max((each.events for each in together), default=0) - 1
    for start in range(after, last_pos, SLICE):
        yield _Slice(
            together[0].exchange_id, together[-1].exchange_id, start, min(start + SLICE, last_pos)
        )
