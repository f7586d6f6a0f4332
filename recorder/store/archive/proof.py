"""Sessions of an archive, read back and compared with what was read from the log.

Rules of this file:

* The connection is a new one, after the commit: nothing of it is in the memory of the one that wrote.
* A session is the same if the sums of its rows are the same in every table, and each chain, computed again from the
  rows of the archive, ends with the hash that the log has. The body of a request may refer to other rows: those are
  taken from the log, which has the same ones if the sums are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from recorder.errors import StoreError
from recorder.model.chain import hash_after
from recorder.model.events import Event, Exchange
from recorder.store.archive.rows import PIECE_BYTES, TABLES, Row, RowSum, SessionContent, Sums
from recorder.store.bodies.rows import is_shared
from recorder.store.duckdb.connection import quoted
from recorder.store.ducklake.chain import root_of
from recorder.store.ducklake.connection import LAKE
from recorder.store.schema import events, exchanges, sessions

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_AT_ONCE = 1_000  # as they come from DuckDB

_ROW_OF_EXCHANGE = len(exchanges.c)


class _EventRange(NamedTuple):
    """Events of one exchange, from a position up to another."""

    session_id: str
    exchange_id: str
    start: int
    stop: int
    size_bytes: int
    is_part: bool


def of_sessions(month: str, session_ids: Collection[str]) -> str:
    """Return the condition on the rows of some sessions of a month."""
    ids = ", ".join(quoted(session_id) for session_id in sorted(session_ids))
    return f"month = {quoted(month)} AND session_id IN ({ids})"


def last_hashes_there(
    connection: DuckDBPyConnection, month: str, session_ids: Collection[str]
) -> dict[str, dict[str, bytes | None]]:
    """Return the last hash of each exchange, of those sessions that an archive has."""
    which = of_sessions(month, session_ids)
    rows = connection.execute(f"SELECT session_id FROM {LAKE}.{sessions.name} WHERE {which}").fetchall()
    found: dict[str, dict[str, bytes | None]] = {session_id: {} for (session_id,) in rows}
    sql = f"SELECT session_id, exchange_id, last_hash FROM {LAKE}.{exchanges.name} WHERE {which}"
    for session_id, exchange_id, last_hash in connection.execute(sql).fetchall():
        found.setdefault(session_id, {})[exchange_id] = last_hash
    return found


class ReadBack:
    """Some sessions of one month of an archive, compared with what the log has of them."""

    def __init__(
        self,
        connection: DuckDBPyConnection,
        month: str,
        contents: Mapping[str, SessionContent],
        whole: Callable[[Row], Event],
    ) -> None:
        """`whole` returns the event of a row that refers to others. It raises `ValueError` if it cannot be."""
        self._connection, self._month, self._contents, self._whole = connection, month, contents, whole
        self._sums: dict[str, Sums] = {session_id: {} for session_id in contents}
        self._chains: dict[tuple[str, str], bytes] = {}  # the hash of the event that was read last; first, the root
        self._lasts: dict[tuple[str, str], bytes | None] = {}

    def same(self) -> set[str]:
        """Return the ids of the sessions that the archive has as the log has them."""
        if not self._contents:
            return set()
        for table in TABLES:
            if table != events.name:
                self._add(table, self._rows(table, of_sessions(self._month, self._contents)))
        for places in self._pieces():
            self._read(places)
        broken = {key[0] for key, last_hash in self._lasts.items() if self._chains[key] != last_hash}
        counts = self._counts()
        return {
            session_id
            for session_id, content in self._contents.items()
            if session_id not in broken
            and self._sums[session_id] == content.sums
            and counts.get(session_id, 0) == content.sums.get(events.name, RowSum()).rows
        }

    def _add(self, table: str, rows: Iterator[Row]) -> None:
        for row in rows:
            self._sums[row[0]].setdefault(table, RowSum()).add(row)
            if table == exchanges.name:
                last_hash, kind, _month = row[_ROW_OF_EXCHANGE:]
                self._lasts[row[:2]] = last_hash
                self._chains[row[:2]] = root_of(kind, Exchange(*row[:_ROW_OF_EXCHANGE]))

    def _read(self, places: Sequence[_EventRange]) -> None:
        first, last = places[0], places[-1]
        condition = f"month = {quoted(self._month)} AND "
        if len(places) == 1:
            condition += f"session_id = {quoted(first.session_id)} AND exchange_id = {quoted(first.exchange_id)} "
            condition += f"AND pos >= {first.start} AND pos < {first.stop}"
        else:
            condition += f"session_id BETWEEN {quoted(first.session_id)} AND {quoted(last.session_id)} "
            begin, end = (quoted(each.session_id + each.exchange_id) for each in (first, last))
            condition += f"AND session_id || exchange_id BETWEEN {begin} AND {end}"  # ids are of one length
        for row in self._rows(events.name, f"{condition} ORDER BY session_id, exchange_id, pos"):
            if row[0] in self._contents:
                self._sums[row[0]].setdefault(events.name, RowSum()).add(row)
                self._link(row)

    def _link(self, row: Row) -> None:
        stored = (*row[:-1], b"")  # without its month, and with a place for a hash
        previous = self._chains.get(stored[:2])
        if previous is None:  # the sums differ, too
            return
        try:
            event = self._whole(stored) if is_shared(stored) else Event(*stored)
        except ValueError:
            self._chains[stored[:2]] = b""
        else:
            self._chains[stored[:2]] = hash_after(previous, event, event.pos)

    def _rows(self, table: str, condition: str) -> Iterator[Row]:
        names = ", ".join(f'"{name}"' for name in TABLES[table].columns)
        found = self._connection.execute(f"SELECT {names} FROM {LAKE}.{table} WHERE {condition}")
        while rows := found.fetchmany(ROWS_AT_ONCE):
            yield from rows

    def _counts(self) -> dict[str, int]:
        """Return the number of events of each session, wherever they are."""
        which = of_sessions(self._month, self._contents)
        sql = f"SELECT session_id, count(*) FROM {LAKE}.{events.name} WHERE {which} GROUP BY session_id"
        return dict(self._connection.execute(sql).fetchall())

    def _pieces(self) -> Iterator[list[_EventRange]]:
        """Yield neighbours that are read, and so sorted, at once; a long exchange is alone, and in parts."""
        piece: list[_EventRange] = []
        for place in self._places():
            if piece and (place.is_part or sum(each.size_bytes for each in piece) + place.size_bytes > PIECE_BYTES):
                yield piece
                piece = []
            piece.append(place)
            if place.is_part:
                yield piece
                piece = []
        if piece:
            yield piece

    def _places(self) -> Iterator[_EventRange]:
        for session_id, content in sorted(self._contents.items()):
            for exchange_id, extent in sorted(content.exchanges.items()):
                step = max(1, extent.events * PIECE_BYTES // max(extent.size_bytes, PIECE_BYTES))
                for start in range(0, extent.events, step):
                    key, size_bytes = (session_id, exchange_id), min(extent.size_bytes, PIECE_BYTES)
                    yield _EventRange(*key, start, start + step, size_bytes, step < extent.events)


def differs(session_ids: Collection[str], archive: str) -> StoreError:
    """Return the error for sessions that an archive does not give back."""
    return StoreError(
        f"{archive} does not give back what was written of session {min(session_ids)}: check its disk. "
        "The session stays in the log."
    )
