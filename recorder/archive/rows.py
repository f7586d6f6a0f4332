"""Rows of sessions on their way into an archive: read from the log, written to DuckDB by the piece, summed up.

Rules of this file:

* A log is read through its own driver, never through DuckDB: then one process may read a file, and delete from it.
* A session is read at one moment, row by row: memory holds a few pieces, however long it is.
* Rows are the same if their sums are: the sum of the digests of all rows of a table, in whatever order they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Table

from recorder.archive.chain import RootKind, root_kind
from recorder.archive.lake import LAKE
from recorder.archive.schema import COPIED, OF_SESSIONS, LakeTable, month_of
from recorder.errors import StoreError
from recorder.model.events import Event, Exchange
from recorder.store.duckdb.connection import quoted
from recorder.store.maintain.purge.delete import last_hashes
from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.maintain.verify.session_rows import all_of
from recorder.store.schema import events, exchanges, tombstones
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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

    def chain(self, event: Event, exchange: Row | None) -> None:
        """Take the next event of an exchange."""
        self.last_hashes[event.exchange_id] = event.hash
        if event.pos == 0 and exchange is not None:
            self.root_kinds[event.exchange_id] = root_kind(Exchange(*exchange), event)

    def require_roots(self) -> None:
        """Raise `StoreError` if a chain begins with neither root."""
        if any(self.root_kinds.get(exchange_id) is None for exchange_id in self.last_hashes):
            raise StoreError(
                f"Session {self.session_id} has exchanges with no beginning: run `recorder verify {self.session_id}`."
            )

    def add(self, table: str, row: Row) -> None:
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

    def add(self, table: str, row: Row) -> None:
        """Write a row, or hold it for the next piece of its table."""
        self._waiting.setdefault(table, []).append(row)
        self._bytes[table] = self._bytes.get(table, 0) + size_of(row)
        if sum(self._bytes.values()) >= PIECE_BYTES:
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


Take = Callable[[str, Row], None]
"""Takes a row of a table, by its name."""


def nowhere(_table: str, _row: Row) -> None:
    """Take a row that is only summed up."""


class LogRows:
    """The rows of a log, as they are stored."""

    def __init__(self, reader: VerifyConnection) -> None:
        self._reader = reader

    def last_hashes(self, session_id: str) -> dict[str, bytes | None]:
        """Return the last hash of each exchange of a session."""
        with self._reader.transaction():
            return last_hashes(self._reader.ask, session_id)

    def read(self, session_id: str, take: Take = nowhere) -> SessionContent:
        """Pass all rows of a session on as an archive has them, by table; return what was read."""
        content, month = SessionContent(session_id), month_of(session_id)
        with self._reader.transaction():
            begun = {row[1]: row for row in self._rows(exchanges, session_id)}
            for row in self._rows(events, session_id):
                content.add(events.name, row)
                event = Event(*row)
                content.chain(event, begun.get(event.exchange_id))
                take(events.name, (*row[:-1], month))
            for exchange_id, row in begun.items():
                content.add(exchanges.name, row)
                of_chain = content.last_hashes.get(exchange_id), content.root_kinds.get(exchange_id)
                take(exchanges.name, (*row, *of_chain, month))
            for name in TABLES.keys() - {events.name, exchanges.name}:
                for row in self._rows(OF_SESSIONS[name], session_id):
                    content.add(name, row)
                    take(name, (*row, month))
        return content

    def _rows(self, table: Table, session_id: str) -> Iterator[Row]:
        with closing(self._reader.ask(_ROWS[table.name], {"id": session_id})) as rows:
            yield from map(tuple, rows)


def _in_order(table: Table) -> Statement:
    key = ", ".join(column.name for column in table.primary_key)
    return Statement(f"{all_of(table)} ORDER BY {key}", is_long=True)


_ROWS = {name: _in_order(OF_SESSIONS[name]) for name in TABLES}
