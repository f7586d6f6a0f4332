"""Rows of `events` → events: a row may hold a recipe instead of a body, which is put together from
other rows.

Rows become events here only, and the rows that recipes refer to are read with one query for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from recorder.model.events import SHARED, Event
from recorder.model.shared_body import Recipe, read_recipe
from recorder.store.schema import events
from recorder.store.sql import FORMS, Statement

Row = Sequence[Any]
Ask = Callable[[Statement, Any], Iterable[Row]]

_KIND, _TYPE, _RAW = (list(events.c).index(events.c[name]) for name in ("kind", "type", "raw"))


def sources_sql(engine: str) -> str:
    """Return the select of the rows that a recipe needs, with the values of `SharedRow.parameters`."""
    return f"""SELECT CAST(e.exchange_id AS TEXT), e.pos, e.type, e.raw FROM {FORMS[engine].at_places}
AND e.kind = 'request' AND e.type IN ('body', 'shared')"""


_SOURCES = Statement(sources_sql)


class SharedRow:
    """A row whose event is put together from other rows."""

    def __init__(self, row: Row) -> None:
        """Decode the recipe. Raises `ValueError` if it is invalid."""
        self._row = row
        self._recipe: Recipe = read_recipe(row[_RAW])
        self.places = self._recipe.places()

    @property
    def parameters(self) -> Mapping[str, str]:
        """Return the parameters of `sources_sql`."""
        places = [{"x": exchange_id, "pos": pos} for exchange_id, pos in self.places]
        return {"session_id": self._row[0], "places": msgspec.json.encode(places).decode()}

    def event(self, sources: Iterable[Row]) -> Event:
        """Return the event.

        Raises `ValueError` if a row is missing or does not hold what is needed.
        """
        held = {(exchange_id, pos): _literal(type, raw) for exchange_id, pos, type, raw in sources}
        missing = [place for place in self.places if place not in held]
        if missing:
            raise ValueError("position {1} of exchange {0} is not there".format(*missing[0]))
        body = self._recipe.body([held[place] for place in self.places])
        return msgspec.structs.replace(Event(*self._row), type="body", raw=body)


def is_shared(row: Row) -> bool:
    """Return whether the event of a row is put together from other rows."""
    return (row[_KIND], row[_TYPE]) == ("request", SHARED)


def is_same(existing: Row | None, row: Row) -> bool:
    """Return whether two rows are of one event.

    If only one of them is a recipe, the equal hash decides.
    """
    if existing is None or existing == row:
        return existing is not None
    differing = [number for number, value in enumerate(row) if existing[number] != value]
    return {*differing} <= {_TYPE, _RAW} and (is_shared(existing) or is_shared(row))


def whole_event(row: Row, ask: Ask) -> Event:
    """Return the event of a row. Raises `ValueError` if it cannot be put together."""
    if not is_shared(row):
        return Event(*row)
    whole = SharedRow(row)
    return whole.event(ask(_SOURCES, whole.parameters))


def whole_events(rows: Iterable[Row], ask: Ask) -> Iterator[Event]:
    """Yield the events of rows. Raises `ValueError` if one cannot be put together."""
    for row in rows:
        yield whole_event(row, ask)


def events_as_they_are(rows: Iterable[Row], ask: Ask) -> Iterator[Event]:
    """Yield the events of rows; one that cannot be put together keeps its raw recipe, which its
    hash does not fit.
    """
    for row in rows:
        try:
            yield whole_event(row, ask)
        except ValueError:
            yield Event(*row)


def damaged(row: Row, error: ValueError) -> str:
    """Return the message for a row whose event cannot be put together."""
    return (
        f"The body of the request at position {row[2]} of exchange {row[1]} cannot be put together: {error}. "
        "`recorder verify` says what else of the log is damaged."
    )


def _literal(type: str, raw: bytes) -> bytes:
    if not isinstance(raw, bytes):
        raise ValueError("a row that is needed holds no bytes")
    return read_recipe(raw).literal if type == SHARED else raw
