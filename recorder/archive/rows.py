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
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import Table

from recorder.archive.chain import RootKind, root_kind
from recorder.archive.lake import LAKE
from recorder.archive.schema import COPIED, OF_SESSIONS, LakeTable, month_of
from recorder.errors import StoreError
from recorder.model.events import Event, Exchange
from recorder.store.duckdb.connection import quoted
from recorder.store.maintain.purge.delete import last_hashes
from recorder.store.maintain.verify.connection import VerifyConnection
from recorder.store.maintain.verify.session_rows import all_of
from recorder.store.schema import events, exchanges, tombstones
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


class SessionContent(msgspec.Struct):
    """A session as a log has it: the sums of its rows, and the hash of the last event of each exchange."""

    session_id: str
    sums: dict[str, RowSum] = msgspec.field(default_factory=dict)
    """By table; a table without a row is not there."""

    last_hashes: dict[str, bytes | None] = msgspec.field(default_factory=dict)
    root_kinds: dict[str, RootKind | None] = msgspec.field(default_factory=dict)

    def chain(self, event: Event, exchange: Row) -> None:
        """Take the next event of an exchange."""
        self.last_hashes[event.exchange_id] = event.hash
        if event.pos == 0:
            self.root_kinds[event.exchange_id] = root_kind(Exchange(*exchange), event)

    def require_roots(self) -> None:
        """Raise `StoreError` if a chain begins with neither root."""
        if any(self.root_kinds.get(exchange_id) is None for exchange_id in self.last_hashes):
            raise StoreError(
                f"Session {self.session_id} has exchanges with no beginning: run `recorder verify {self.session_id}`."
            )

    def add(self, table: str, rows: Iterable[Row]) -> None:
        for row in rows:
            self.sums.setdefault(table, RowSum()).add(row)


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


def _into(table: LakeTable) -> str:
    names = ", ".join(f'"{name}"' for name in table.columns)
    return f"INSERT INTO {LAKE}.{table.name} ({names})"


def _of_json(table: LakeTable) -> str:
    """Return the statement that adds the rows of a JSON array, sorted. A list of values for each column, or rows one by
    one, take a hundred times longer: Python's values are converted one by one.
    """
    shape, values = {}, []
    for name, type in zip(_NUMBERS, table.columns.values(), strict=False):
        if type.startswith("BLOB"):
            shape[name] = "VARCHAR"
            values.append(f'from_base64(r."{name}")')
        else:
            shape[name] = type.removesuffix(" NOT NULL")
            values.append(f'r."{name}"')
    rows = f"SELECT unnest(from_json_strict($1, {quoted(_to_json([shape]).decode())})) AS r"
    key = ", ".join(str(list(table.columns).index(name) + 1) for name in table.key)
    return f"{_into(table)} SELECT {', '.join(values)} FROM ({rows}) ORDER BY {key}"


_OF_JSON = {name: _of_json(table) for name, table in TABLES.items()}
_OF_VALUES = {name: f"{_into(table)} VALUES ({', '.join('?' * len(table.columns))})" for name, table in TABLES.items()}


Take = Callable[[str, Sequence[Row]], None]
"""Takes rows by the name of their table."""


def nowhere(_table: str, _rows: Sequence[Row]) -> None:
    """Take rows that are only summed up."""


class LogRows:
    """The rows of a log, as they are stored."""

    def __init__(self, reader: VerifyConnection) -> None:
        self._reader = reader

    def last_hashes(self, session_id: str) -> dict[str, bytes | None]:
        """Return the last hash of each exchange of a session."""
        with self._reader.transaction():
            return last_hashes(self._reader.ask, session_id)

    def read(self, session_id: str, take: Take = nowhere) -> SessionContent:
        """Pass all rows of a session on as an archive has them, by table; return what was read.

        Of a session that changes meanwhile, an exchange is left out that began since or lost its events: then the last
        hashes are not those of the log.
        """
        content, month = SessionContent(session_id), month_of(session_id)
        begun = {row[1]: row for page in self._pages(exchanges, session_id) for row in page}
        for page in self._pages(events, session_id):
            rows = [row for row in page if row[1] in begun]
            content.add(events.name, rows)
            for event in (Event(*row) for row in rows):
                content.chain(event, begun[event.exchange_id])
            take(events.name, [(*row[:-1], month) for row in rows])
        for exchange_id, last_hash in content.last_hashes.items():
            content.add(exchanges.name, [begun[exchange_id]])
            of_chain = last_hash, content.root_kinds.get(exchange_id)
            take(exchanges.name, [(*begun[exchange_id], *of_chain, month)])
        for name in TABLES.keys() - {events.name, exchanges.name}:
            for rows in self._pages(OF_SESSIONS[name], session_id):
                content.add(name, rows)
                take(name, [(*row, month) for row in rows])
        return content

    def _pages(self, table: Table, session_id: str) -> Iterator[list[Row]]:
        """Yield the rows of a session in order of their key, each page in a transaction of its own."""
        pages = _PAGES[table.name]
        statement, values = pages.first, {"id": session_id}
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
            if pages.after is None or (len(page) < PAGE_ROWS and size_bytes < PAGE_BYTES):
                return
            place = {name: page[-1][number] for name, number in pages.key.items()}
            statement, values = pages.after, {"id": session_id, **place}


class _Pages(NamedTuple):
    """The statements for the first page of a table and for the next, and the places in a row of what that needs."""

    first: Statement
    after: Statement | None
    key: Mapping[str, int]


def _pages(table: Table) -> _Pages:
    names = table.c.keys()
    key = [column.name for column in table.primary_key if column.name != "session_id"]
    end = f"ORDER BY {', '.join(('session_id', *key))} LIMIT {PAGE_ROWS}"
    first = Statement(f"{all_of(table)} {end}", is_long=True)
    if not key:
        return _Pages(first, None, {})
    place = {f"k{number}": names.index(name) for number, name in enumerate(key)}
    behind = f"({', '.join(key)}) > ({', '.join(f':{name}' for name in place)})"
    return _Pages(first, Statement(f"{all_of(table)} AND {behind} {end}", is_long=True), place)


_PAGES = {name: _pages(OF_SESSIONS[name]) for name in TABLES}
