"""PostgreSQL and SQLite: how fast rows are appended and read back, against the drivers with the
same rows.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import URL

from benchmarks import log, servers
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.model.events import Event, Exchange
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from tests.support.postgres import Server, conninfo

APPEND_COLUMNS = (
    Column("rows/s", "rows_s"),
    Column("x COPY", "rows_s", "/", "psycopg, COPY"),
    Column("x executemany", "rows_s", "/", "psycopg, executemany"),
    Column("x sqlite3", "rows_s", "/", "sqlite3, executemany"),
    Column("CPU µs/row", "cpu_us"),
)
READ_COLUMNS = (
    Column("rows/s", "rows_s"),
    Column("x psycopg", "rows_s", "/", "psycopg, SELECT"),
    Column("x sqlite3", "rows_s", "/", "sqlite3, SELECT"),
    Column("CPU µs/row", "cpu_us"),
)

_TYPES = (
    "uuid",
    "uuid",
    "int8",
    "text",
    "int8",
    "text",
    "int8",
    "text",
    "int8",
    "bytea",
    "int8",
    "int8",
    "bytea",
)
_COLUMNS = ", ".join(Event.__struct_fields__)
_OF_EXCHANGE = "SELECT * FROM events WHERE session_id = {0} AND exchange_id = {0} ORDER BY pos"

On = Callable[[URL], None]


def append_rounds(settings: Settings) -> list[Round]:
    """`Store.append` on both engines, in commits of the same size as the drivers'.

    CPU is that of this process.
    """
    with (
        servers.server() as server,
        tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder,
    ):
        rows = log.interleaved(Path(folder), settings)
        alternatives = {
            "SQLite": log.appending(rows, log.by_store),
            "sqlite3, executemany": log.appending(rows, log.raw),
        }
        if server is not None:
            alternatives |= {
                name: _appending(server, rows, append) for name, append in _APPENDERS.items()
            }
        return log.in_rounds(settings, alternatives)


def _appending(
    server: Server, rows: log.Rows, append: Callable[[URL, Sequence[Event]], None]
) -> log.Measure:
    def measure(_: Path) -> Row:
        with servers.database(server) as url:
            _begin(url, rows)
            return log.timed(lambda: append(url, rows.events), len(rows.events))

    return measure


def _begin(url: URL, rows: log.Rows) -> None:
    with Store(url) as store, store.transaction():
        for session in rows.sessions:
            store.add_session(session)
        for exchange in rows.exchanges:
            store.add_exchange(exchange)


def _copy(url: URL, events: Sequence[Event]) -> None:
    with _connected(url) as connection:
        for commit in log.commits(events):
            with connection.cursor() as cursor:
                with cursor.copy(f"COPY events ({_COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(_TYPES)
                    for event in commit:
                        session_id, exchange_id, *rest = msgspec.structs.astuple(event)
                        copy.write_row((UUID(session_id), UUID(exchange_id), *rest))
            connection.commit()


def _insert(url: URL, events: Sequence[Event]) -> None:
    with _connected(url) as connection:
        for commit in log.commits(events):
            with connection.cursor() as cursor:
                rows = [msgspec.structs.astuple(event) for event in commit]
                cursor.executemany(
                    f"INSERT INTO events VALUES ({', '.join(['%s'] * len(_TYPES))})", rows
                )
            connection.commit()


_APPENDERS: dict[str, Callable[[URL, Sequence[Event]], None]] = {
    "PostgreSQL": log.append_by_store,
    "psycopg, COPY": _copy,
    "psycopg, executemany": _insert,
}


@contextmanager
def _connected(url: URL) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(conninfo(url), options=f"-c search_path={SCHEMA}") as connection:
        yield connection


# -- reading


def read_rounds(settings: Settings) -> list[Round]:
    """Every exchange of a log by `LogReader.events`, as commands read it, and its rows by the
    drivers.
    """
    with (
        servers.server() as server,
        tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder,
    ):
        rows = log.interleaved(Path(folder), settings)
        path = Path(folder) / "read.db"
        log.appending(rows, log.by_store)(path)
        alternatives = {
            "SQLite": _reading(rows, lambda: asyncio.run(_read(path, rows.exchanges))),
            "sqlite3, SELECT": _reading(rows, lambda: _select_file(path, rows.exchanges)),
        }
        if server is None:
            return log.in_rounds(settings, alternatives)
        with servers.database(server) as url:
            _begin(url, rows)
            _copy(url, rows.events)
            alternatives |= {
                "PostgreSQL": _reading(rows, lambda: asyncio.run(_read(url, rows.exchanges))),
                "psycopg, SELECT": _reading(rows, lambda: _select(url, rows.exchanges)),
            }
            return log.in_rounds(settings, alternatives)


def _reading(rows: log.Rows, read: Callable[[], int]) -> log.Measure:
    def measure(_: Path) -> Row:
        found: list[int] = []
        row = log.timed(lambda: found.append(read()), len(rows.events))
        if found != [len(rows.events)]:
            raise RuntimeError(f"{found} rows were read, there are {len(rows.events)}")
        return row

    return measure


async def _read(url: Path | URL, exchanges: Sequence[Exchange]) -> int:
    count = 0
    async with await LogReader.open(url) as opened:
        for exchange in exchanges:
            async for _ in opened.events(exchange.session_id, exchange.exchange_id):
                count += 1
    return count


def _select_file(path: Path, exchanges: Sequence[Exchange]) -> int:
    sql = _OF_EXCHANGE.format("?")
    with closing(sqlite3.connect(path)) as connection:
        return sum(
            len(connection.execute(sql, (each.session_id, each.exchange_id)).fetchall())
            for each in exchanges
        )


def _select(url: URL, exchanges: Sequence[Exchange]) -> int:
    sql = _OF_EXCHANGE.format("%s")
    with _connected(url) as connection, connection.cursor(binary=True) as cursor:
        return sum(
            len(cursor.execute(sql, (each.session_id, each.exchange_id)).fetchall())
            for each in exchanges
        )
