"""Rows of sessions on their way into an archive: read by the page, written to DuckDB by the piece, summed up.

Rules of this file:

* A log is read through its own driver, never through DuckDB: then one process may read a file, and delete from it.
* A transaction of the log holds one page, and memory a few pieces, however long a session is.
* Rows are the same if their sums are: the sum of the digests of all rows of a table, in whatever order they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Table

from recorder.errors import StoreError
from recorder.model.events import Event, Exchange
from recorder.store.bodies.rows import whole_events
from recorder.store.duckdb.connection import quoted
from recorder.store.ducklake.chain import RootKind, root_kind
from recorder.store.ducklake.connection import LAKE
from recorder.store.ducklake.schema import COPIED, LakeTable, month_of
from recorder.store.maintain.purge.delete import last_hashes
from recorder.store.maintain.verify.connection import VerifyConnection
from recorder.store.maintain.verify.session_rows import all_of
from recorder.store.schema import dead_letters, events, exchanges, sessions, tables_of, tombstones
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PAGE_ROWS = 2_000
PAGE_BYTES = 4 * 2**20  # a page passes it by one row at most
PIECE_BYTES = 8 * 2**20  # of rows that are sorted and written at once: DuckDB holds them some ten times over
LARGE_BYTES = 2**20  # of a row that is sent by itself: as a part of a JSON text it would take five times its size
ROW_BYTES = 64  # of a row, besides its texts and bytes

Row = tuple[Any, ...]
TABLES: Mapping[str, LakeTable] = {table.name: table for table in COPIED if table.name != tombstones.name}
"""The tables whose rows go with a session. It has a tombstone when it is purged."""

_encode = msgspec.msgpack.Encoder().encode
_to_json = msgspec.json.Encoder().encode  # bytes are base64


class RowSum(msgspec.Struct):
    """The number of some rows, and the sum of their digests."""

    rows: int = 0
    digests: int = 0

    def add(self, row: Row) -> None:
        self.rows += 1
        self.digests = (self.digests + int.from_bytes(sha256(_encode(row)).digest())) % 2**256


Sums = dict[str, RowSum]
"""The sums of a session, by table; a table without a row is not there."""


class Extent(msgspec.Struct):
    """The events of an exchange: the hash of the last one, how many there are, and the bytes that they take."""

    last_hash: bytes
    events: int = 0
    size_bytes: int = 0


class SessionContent(msgspec.Struct):
    """A session as a log has it: the sums of its rows, and its exchanges by their ids, in order."""

    session_id: str
    sums: Sums = msgspec.field(default_factory=dict)
    exchanges: dict[str, Extent] = msgspec.field(default_factory=dict)

    @property
    def last_hashes(self) -> dict[str, bytes | None]:
        """The hash of the last event of each exchange."""
        return {exchange_id: extent.last_hash for exchange_id, extent in self.exchanges.items()}

    def add(self, table: str, rows: Iterable[Row]) -> None:
        total = self.sums.setdefault(table, RowSum())
        for row in rows:
            total.add(row)


def size_of(row: Row) -> int:
    """Return the bytes that a row takes, about."""
    return ROW_BYTES + sum(len(value) for value in row if isinstance(value, str | bytes))


class LakeWriter:
    """The rows of one transaction, sent to an archive by the piece. The caller begins and commits."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection
        self._waiting: dict[str, list[Row]] = {}
        self._bytes: dict[str, int] = {}

    def add(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows, or hold them for the next piece of their table."""
        for row in rows:
            self._waiting.setdefault(table, []).append(row)
            self._bytes[table] = self._bytes.get(table, 0) + size_of(row)
            if self._bytes[table] >= PIECE_BYTES:
                self._send(table)
        while sum(self._bytes.values()) >= PIECE_BYTES:
            self._send(max(self._bytes, key=self._bytes.__getitem__))

    def flush(self) -> None:
        """Write all rows that are held."""
        for table in list(self._waiting):
            self._send(table)

    def _send(self, table: str) -> None:
        rows = self._waiting.pop(table)
        del self._bytes[table]
        small = [row for row in rows if size_of(row) < LARGE_BYTES]
        if small:
            named = [dict(zip(_NUMBERS, row, strict=False)) for row in small]
            self._connection.execute(_OF_JSON[table], [_to_json(named).decode()])
        for row in rows:
            if size_of(row) >= LARGE_BYTES:
                self._connection.execute(_OF_VALUES[table], row)


_NUMBERS = [str(number) for number in range(64)]  # the names of columns in JSON; no table has so many


def _types(table: LakeTable) -> list[str]:
    return [type.removesuffix(" NOT NULL") for type in table.columns.values()]


def _into(table: LakeTable) -> str:
    names = ", ".join(f'"{name}"' for name in table.columns)
    return f"INSERT INTO {LAKE}.{table.name} ({names})"


def _of_json(table: LakeTable) -> str:
    """Return the statement that adds the rows of a JSON array, sorted. A list of values for each column, or rows one by
    one, take a hundred times longer: Python's values are converted one by one.
    """
    types = dict(zip(_NUMBERS, _types(table), strict=False))
    shape = {name: "VARCHAR" if type == "BLOB" else type for name, type in types.items()}
    values = (f'from_base64(r."{name}")' if type == "BLOB" else f'r."{name}"' for name, type in types.items())
    rows = f"SELECT unnest(from_json_strict($1, {quoted(_to_json([shape]).decode())})) AS r"
    key = ", ".join(str(list(table.columns).index(name) + 1) for name in table.key)
    return f"{_into(table)} SELECT {', '.join(values)} FROM ({rows}) ORDER BY {key}"


_OF_JSON = {name: _of_json(table) for name, table in TABLES.items()}
_OF_VALUES = {name: f"{_into(table)} VALUES ({', '.join('?' * len(table.columns))})" for name, table in TABLES.items()}


class LogRows:
    """The rows of a log, as they are stored."""

    def __init__(self, reader: VerifyConnection) -> None:
        self._reader = reader

    def last_hashes(self, session_id: str) -> dict[str, bytes | None]:
        """Return the last hash of each exchange of a session."""
        with self._reader.transaction():
            return last_hashes(self._reader.ask, session_id)

    def event(self, row: Row) -> Event:
        """Return the event of a row, with the rows that it refers to. Raise `ValueError` if it cannot be."""
        with self._reader.transaction():
            return next(whole_events([row], self._reader.ask))

    def read(self, session_id: str, take: Callable[[str, Sequence[Row]], None]) -> SessionContent:
        """Pass all rows of a session on as an archive has them, by table; return what was read.

        Of a session that changes meanwhile, an exchange is left out that began since or lost its events: then the last
        hashes are not those of the log. Raise `StoreError` if a chain begins with neither root.
        """
        content, month = SessionContent(session_id), month_of(session_id)

        def passed(table: str, rows: Iterable[Row]) -> None:
            rows = [(*row, month) for row in rows]
            content.add(table, rows)
            take(table, rows)

        begun = {row[1]: Exchange(*row) for page in self._pages(exchanges, session_id) for row in page}
        kinds: dict[str, RootKind | None] = {}
        for page in self._pages(events, session_id):
            page = [row for row in page if row[1] in begun]
            for row in page:
                if row[_POS] == 0:
                    kinds[row[1]] = root_kind(begun[row[1]], Event(*row))
                extent = content.exchanges.setdefault(row[1], Extent(row[-1]))
                extent.last_hash, extent.events = row[-1], extent.events + 1
                extent.size_bytes += size_of(row)
            if page:
                passed(events.name, (row[:-1] for row in page))
        if any(kinds.get(exchange_id) is None for exchange_id in content.exchanges):
            raise StoreError(
                f"Session {session_id} has exchanges with no beginning: run `recorder verify {session_id}`."
            )
        lasts = content.last_hashes
        rows = [msgspec.structs.astuple(exchange) for exchange in begun.values() if exchange.exchange_id in lasts]
        passed(exchanges.name, ((*row, lasts[row[1]], kinds[row[1]]) for row in rows))
        for table in _OTHERS:
            for page in self._pages(table, session_id):
                passed(table.name, page)
        return content

    def _pages(self, table: Table, session_id: str) -> Iterator[list[Row]]:
        """Yield the rows of a session in order of their key, each page in a transaction of its own."""
        first, after, width = _PAGES[table.name]
        statement, values = first, {"id": session_id}
        while True:
            page: list[Row] = []
            size_bytes = 0
            with self._reader.transaction(), closing(self._reader.ask(statement, values)) as rows:
                for row in rows:
                    page.append(tuple(row))
                    size_bytes += size_of(page[-1])
                    if size_bytes >= PAGE_BYTES:
                        break
            if page:
                yield page
            if after is None or (len(page) < PAGE_ROWS and size_bytes < PAGE_BYTES):
                return
            place = {name: page[-1][number] for name, number in width.items()}
            statement, values = after, {"id": session_id, **place}


def _pages(table: Table) -> tuple[Statement, Statement | None, Mapping[str, int]]:
    """Return the statements for the first page and for the next, and the places in a row of what the next needs."""
    names = [column.name for column in table.c]
    key = [column.name for column in table.primary_key if column.name != "session_id"]
    end = f"ORDER BY {', '.join(('session_id', *key))} LIMIT {PAGE_ROWS}"
    first = Statement(f"{all_of(table)} {end}", is_long=True)
    if not key:
        return first, None, {}
    place = {f"k{number}": names.index(name) for number, name in enumerate(key)}
    behind = f"({', '.join(key)}) > ({', '.join(f':{name}' for name in place)})"
    return first, Statement(f"{all_of(table)} AND {behind} {end}", is_long=True), place


_OTHERS = (sessions, *tables_of.values(), dead_letters)
_PAGES = {table.name: _pages(table) for table in (events, exchanges, *_OTHERS)}
_POS = list(events.c).index(events.c.pos)
