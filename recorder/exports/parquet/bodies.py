"""The bodies of requests in an export of events: whole, although their rows may be recipes.

Rules of this file:

* A recipe needs other rows of its session (`recorder.model.shared_body`). All rows of request bodies are read once, to
  a temporary table that may be on disk, and put together from there, a few at a time.
* They are in files of their own beside the other events of a day, each of a bounded size: a program that reads a column
  takes thousands of rows at once, and bodies are a thousand times as long as other events.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recorder.exports.parquet.manifest import SUFFIX
from recorder.model.events import SHARED, Event
from recorder.store.bodies.rows import Row, events_as_they_are
from recorder.store.duckdb.connection import quoted
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE_BYTES = 16 * 2**20  # of bodies in one file, which a reader may hold all at once
PAGE_ROWS = 16  # read at once, of up to 1 MiB each

BODIES = "bodies-"  # the beginning of the names of files
LONG_BYTES = 16_384  # of a whole body: what is shorter is written with the other events

_BODIES = f"kind = 'request' AND coalesce(type, '') IN ('body', '{SHARED}')"
_APART = f"{_BODIES} AND (type = '{SHARED}' OR octet_length(raw) >= {LONG_BYTES})"
OTHERS = f"NOT ({_APART})"
"""The condition of all events that are not written apart: all but long bodies of requests, and those of recipes."""


class BodyExport:
    """The request bodies of the exchanges in the table `days`, out of the view `events`."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        """Read the bodies out of the view, all of those that a recipe may need."""
        self._connection = connection
        self._connection.execute(
            f"CREATE TEMP TABLE bodies AS SELECT *, row_number() OVER () AS number FROM events WHERE {_BODIES}"
            " AND session_id IN (SELECT session_id FROM days)"
        )
        self._connection.execute(
            "CREATE TEMP TABLE chosen AS SELECT number FROM bodies SEMI JOIN days USING (session_id, exchange_id)"
            f" WHERE {_APART} ORDER BY number"
        )

    def write(self, folder: Path) -> int:
        """Write `bodies-N.parquet` to the folder of each day. Return the number of rows."""
        files = enumerate(_in_files(events_as_they_are(self._rows(), self._ask)))
        rows = sum(self._write_file(folder, number, events) for number, events in files)
        self._connection.execute("DROP TABLE bodies; DROP TABLE chosen")
        return rows

    def _rows(self) -> Iterator[Row]:
        """Yield the rows of the exchanges that are exported, of which a page is held."""
        numbers = [number for (number,) in self._connection.execute("SELECT number FROM chosen").fetchall()]
        for start in range(0, len(numbers), PAGE_ROWS):
            page = ", ".join(map(str, numbers[start : start + PAGE_ROWS]))
            yield from self._connection.execute(
                f"SELECT * EXCLUDE number FROM bodies WHERE number IN ({page}) ORDER BY number"
            ).fetchall()

    def _ask(self, _statement: Statement, values: Any) -> Iterable[Row]:
        """Return the rows that a recipe needs: the temporary table has them, whatever the engine of the log."""
        places = [(place["x"], place["pos"]) for place in msgspec.json.decode(values["places"])]
        wanted = " OR ".join(f"(exchange_id = {quoted(exchange_id)} AND pos = {pos:d})" for exchange_id, pos in places)
        return self._connection.execute(
            f"SELECT exchange_id, pos, type, raw FROM bodies WHERE session_id = {quoted(values['session_id'])}"
            f" AND ({wanted or 'false'})"
        ).fetchall()

    def _write_file(self, folder: Path, number: int, events: Sequence[Event]) -> int:
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE whole AS SELECT * EXCLUDE number FROM bodies WHERE false"
        )
        places = f"({', '.join('?' * len(Event.__struct_fields__))})"
        for start in range(0, len(events), PAGE_ROWS):
            rows = [msgspec.structs.astuple(event) for event in events[start : start + PAGE_ROWS]]
            self._connection.execute(f"INSERT INTO whole VALUES {', '.join([places] * len(rows))}", [*chain(*rows)])
        staged = folder / f"{number}"
        self._connection.execute(
            f"COPY (SELECT w.*, d.day FROM whole AS w JOIN days AS d USING (session_id, exchange_id)) TO "
            f"{quoted(str(staged))} (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day))"
        )
        self._connection.execute("DROP TABLE whole")
        for path in sorted(staged.rglob(f"*{SUFFIX}")):
            of_day = folder / path.parent.name
            of_day.mkdir(exist_ok=True)
            path.rename(of_day / f"{BODIES}{number}{SUFFIX}")
        shutil.rmtree(staged)
        return len(events)


def _in_files(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield events in groups of a bounded size."""
    held: list[Event] = []
    size_bytes = 0
    for event in events:
        held.append(event)
        size_bytes += len(event.raw)
        if size_bytes >= FILE_BYTES:
            yield held
            held, size_bytes = [], 0
    if held:
        yield held
