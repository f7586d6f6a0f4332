"""A probe of the log: it reads the sums of ended exchanges, in a few short statements.

Rules of this file:

* It is read-only, it is over in `LIMIT_S`, and it stays in no transaction.
* It asks for exchanges by their ids, and reads each once, when it has ended: what it costs does not grow with the log.
* A connection to a server is kept from one probe to the next: to make one holds up the event loop for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from sqlalchemy import URL

from recorder.errors import StoreError
from recorder.journal.reader import size_bytes
from recorder.model.payloads import EndRecord
from recorder.store.engine import engine_of
from recorder.store.location import database_path
from recorder.store.sqlite.connection import open_reader, translated

LIMIT_S = 1.0
CONNECT_S = 2  # to a server: the least that its library takes
STEPS = 10_000  # of SQLite's machine between two looks at the time
ENOUGH_S = 0.3  # after which no more is asked: the rest is for the next probe
IDS = 50  # asked for at once: exchanges of a thousand events take some milliseconds

_ENDED = """SELECT x.exchange_id, e.raw, (
    SELECT coalesce(sum(json_array_length({reads})), 0) FROM events AS r
    WHERE r.session_id = e.session_id AND r.exchange_id = e.exchange_id AND r.kind = 'reads' AND r.type IS NULL
) FROM exchanges AS x JOIN events AS e ON e.session_id = x.session_id AND e.exchange_id = x.exchange_id
AND e.kind = 'end' WHERE x.exchange_id {is_asked_for}"""


class Ended(NamedTuple):
    """The sums of an exchange that has ended in the log."""

    exchange_id: str
    chunks: int
    size_bytes: int
    gap_chunks: int
    gap_bytes: int


class ProbeResult(NamedTuple):
    """The exchanges that the log has, among those in question."""

    begun: list[str]
    ended: list[Ended]
    database_bytes: int | None = None
    wal_bytes: int | None = None  # of a file
    error: str | None = None  # why the log could not be read, or not in time


NOTHING = ProbeResult([], [])

Ask = Callable[[str, Any], list[Any]]
"""The rows of a statement with one value."""


class LogProbe(Protocol):
    """A probe of one recorder's log, for one thread."""

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        """Find the exchanges that have begun and those that have ended, as far as time allows."""

    def close(self) -> None: ...


def log_probe(url: URL) -> LogProbe:
    """Return the probe of a database."""
    return _PROBES[engine_of(url).name](url)


class FileProbe:
    """A probe of a database file."""

    _IS_ASKED_FOR = "IN (SELECT value FROM json_each(?))"
    _BEGUN = f"SELECT exchange_id FROM exchanges WHERE exchange_id {_IS_ASKED_FOR}"
    _ENDED = _ENDED.format(reads="CAST(r.raw AS TEXT)", is_asked_for=_IS_ASKED_FOR)

    def __init__(self, url: URL) -> None:
        self._path = database_path(url)
        self._wal = Path(f"{self._path}-wal")

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        try:
            found = self._look(begun, ended)
        except StoreError as error:
            found = NOTHING._replace(error=str(error))
        return found._replace(
            database_bytes=size_bytes(self._path),
            wal_bytes=size_bytes(self._wal),
        )

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        with translated(self._path):
            with open_reader(self._path, LIMIT_S) as connection:
                began_s = time.monotonic()
                connection.set_progress_handler(lambda: time.monotonic() > began_s + LIMIT_S, STEPS)

                def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                    return connection.execute(sql, (msgspec.json.encode(ids).decode(),)).fetchall()

                return _found(ask, (self._BEGUN, begun), (self._ENDED, ended))

    def close(self) -> None:
        """Nothing is kept open."""


class ServerProbe:
    """A probe of a database on a server."""

    _SIZE = "SELECT pg_database_size(current_database())"
    _IS_ASKED_FOR = "= ANY (CAST(%s AS uuid[]))"
    _BEGUN = f"SELECT exchange_id FROM exchanges WHERE exchange_id {_IS_ASKED_FOR}"
    _ENDED = _ENDED.format(reads="CAST(convert_from(r.raw, 'UTF8') AS json)", is_asked_for=_IS_ASKED_FOR)

    def __init__(self, url: URL) -> None:
        self._url = url
        self._connection: Any = None

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        was_kept = self._connection is not None
        try:
            return self._look(begun, ended)
        except StoreError as error:
            self.close()
            # One that was kept may have ended long ago, with a server that is back.
            return self.look(begun, ended) if was_kept else NOTHING._replace(error=str(error))

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        from recorder.store.postgres.connection import connect_reader, translated

        with translated(self._url):
            if self._connection is None:
                limit = {"statement_timeout": str(round(LIMIT_S * 1000))}
                self._connection = connect_reader(self._url, limit, connect_timeout=CONNECT_S)

            def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                return list(self._connection.execute(sql, (list(ids),), binary=True).fetchall())

            [(size,)] = self._connection.execute(self._SIZE).fetchall()
            found = _found(ask, (self._BEGUN, begun), (self._ENDED, ended))
        return found._replace(database_bytes=size)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_PROBES: Mapping[str, Callable[[URL], LogProbe]] = {"sqlite": FileProbe, "postgresql": ServerProbe}

Query = tuple[str, Sequence[str]]


def _found(ask: Ask, begun: Query, ended: Query) -> ProbeResult:
    until_s = time.monotonic() + ENOUGH_S
    return ProbeResult(
        [row[0] for row in _rows(ask, *begun, until_s)],
        [_ended(*row) for row in _rows(ask, *ended, until_s)],
    )


def _rows(ask: Ask, sql: str, ids: Sequence[str], until_s: float) -> Iterator[Any]:
    for start in range(0, len(ids), IDS):
        yield from ask(sql, ids[start : start + IDS])
        if time.monotonic() > until_s:
            return


def _ended(exchange_id: str, raw: bytes, chunks: int) -> Ended:
    end = msgspec.json.decode(raw, type=EndRecord)
    return Ended(exchange_id, chunks, end.wire_bytes, end.gap_chunks, end.gap_bytes)
