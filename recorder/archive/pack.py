"""Sessions on their way into an archive: their rows as a log has them, in a temporary file of SQLite.

Rules of this file:

* A log is read through its own driver, never through DuckDB: then one process may read a file, and delete from it. So
  its rows go to a file of their own first, and DuckDB reads that.
* A session is read at one moment, row by row. DuckDB gets a piece at a time: it holds what it sorts and writes some ten
  times over.
* The tables are those of the archive, and an event has its hash besides: so the file also proves what the archive gives
  back, whatever the order of its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple
from sqlalchemy import URL, create_engine
from sqlalchemy.pool import NullPool

from recorder.archive.lake import LAKE, PACK
from recorder.archive.schema import COPIED, MONTH, OF_CHAIN, OF_SESSIONS, LakeTable, id_list, month_of
from recorder.archive.unpack import RootKind, root_kind
from recorder.errors import StoreError
from recorder.model.events import Event, Exchange
from recorder.store.location import database_url
from recorder.store.maintain.purge.delete import last_hashes
from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.maintain.verify.log import all_of, differing_keys
from recorder.store.schema import events, exchanges, tombstones
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PIECE_BYTES = 8 * 2**20  # of rows that DuckDB sorts and writes at once
ROW_BYTES = 64  # of a row, besides its texts and bytes

Row = Sequence[Any]

TABLES = {table.name: table for table in COPIED if table.name != tombstones.name}
"""The tables whose rows go with a session. It has a tombstone when it is purged."""

_ROWS = {name: Statement(all_of(OF_SESSIONS[name]), is_long=True) for name in TABLES}
_FIRST = Statement(f"{all_of(events)} AND pos = 0")
_PIECES = """SELECT min(rowid), max(rowid)
FROM (SELECT rowid, sum({size}) OVER (ORDER BY rowid) / {limit} AS piece FROM {table}) GROUP BY piece"""


def _columns(name: str) -> dict[str, str]:
    """Return the columns of a table in the file, with their types."""
    types = {**TABLES[name].columns, events.c.hash.name: "BLOB"}
    of_chain = OF_CHAIN if name == exchanges.name else ()
    return {column: types[column] for column in (*OF_SESSIONS[name].c.keys(), *of_chain, MONTH)}


class Pack:
    """The rows of sessions, in a file that nobody else has open."""

    def __init__(self, folder: Path) -> None:
        self.url = database_url(folder / "pack.db")
        self.last_hashes: dict[str, dict[str, bytes | None]] = {}
        """The hash of the last event of each exchange, by session."""
        self._pieces: list[tuple[str, LakeTable]] = []
        with self._opened() as file:
            for name in TABLES:
                columns = ", ".join(f'"{column}" {type}' for column, type in _columns(name).items())
                file.execute(f"CREATE TABLE {name} ({columns})")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file, by the driver of the engine."""
        with create_engine(self.url, poolclass=NullPool).connect() as connection:
            file: Any = connection.connection.driver_connection
            for pragma in ("journal_mode = OFF", "synchronous = OFF"):  # nobody needs it after a crash
                file.execute(f"PRAGMA {pragma}")
            yield file
            file.commit()

    def add(self, reader: VerifyConnection, session_id: str) -> None:
        """Add a session as a log has it at this moment.

        Raise `StoreError` if an exchange has no beginning: then its hashes follow from nothing that an archive has.
        """
        month, key = month_of(session_id), {"id": session_id}
        with self._opened() as file, reader.transaction():
            last = self.last_hashes[session_id] = last_hashes(reader.ask, session_id)
            begun = {}
            for row in reader.ask(_ROWS[exchanges.name], key):
                exchange = Exchange(*row)
                begun[exchange.exchange_id] = exchange
            kinds = _root_kinds(begun, reader.ask(_FIRST, key))
            if begun.keys() - kinds.keys():
                raise StoreError(
                    f"Session {session_id} has exchanges with no beginning: run `recorder verify {session_id}`."
                )
            for name in TABLES:
                insert = f"INSERT INTO {name} VALUES ({', '.join('?' * len(_columns(name)))})"
                if name == exchanges.name:
                    for id, exchange in begun.items():
                        file.execute(insert, (*astuple(exchange), last[id], kinds[id], month))
                    continue
                with closing(reader.ask(_ROWS[name], key)) as rows:
                    file.executemany(insert, ((*row, month) for row in rows))

    def divide(self, session_ids: Collection[str]) -> None:
        """Leave out all other sessions, and make a view of each piece of a table."""
        with self._opened() as file:
            for name, table in TABLES.items():
                file.execute(f"DELETE FROM {name} WHERE session_id NOT IN {id_list(session_ids)}")
                texts = [column for column, type in table.columns.items() if type.startswith(("VARCHAR", "BLOB"))]
                size = " + ".join([str(ROW_BYTES), *(f'coalesce(length("{column}"), 0)' for column in texts)])
                bounds = file.execute(_PIECES.format(size=size, limit=PIECE_BYTES, table=name)).fetchall()
                for first, last in bounds:
                    view = f"{name}_{first}"
                    file.execute(f"CREATE VIEW {view} AS SELECT * FROM {name} WHERE rowid BETWEEN {first} AND {last}")
                    self._pieces.append((view, table))

    def write(self, archive: DuckDBPyConnection) -> None:
        """Add all pieces to an archive, whose connection has this file attached as `PACK`. In a transaction."""
        for view, table in self._pieces:
            columns = ", ".join(f'"{column}"' for column in table.columns)
            archive.execute(
                f"INSERT INTO {LAKE}.{table.name} ({columns}) SELECT {columns} FROM {PACK}.{view} "
                f"ORDER BY {', '.join(table.key)}"
            )

    def differing(self, log: URL) -> set[str]:
        """Return the sessions of which the file and a log have other rows."""
        differing: set[str] = set()
        with self._opened() as file:
            file.execute("ATTACH ? AS log", [log.database])
            for name in TABLES:
                rows = file.execute(differing_keys(OF_SESSIONS[name], ("main", "log"), "session_id"))
                differing.update(session_id for (session_id,) in rows)
        return differing


def _root_kinds(begun: Mapping[str, Exchange], firsts: Iterable[Row]) -> dict[str, RootKind]:
    """Return the root of each exchange whose first event is chained to one."""
    kinds = {}
    for row in firsts:
        first = Event(*row)
        kind = root_kind(begun[first.exchange_id], first) if first.exchange_id in begun else None
        if kind is not None:
            kinds[first.exchange_id] = kind
    return kinds
