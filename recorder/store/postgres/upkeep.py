"""The checks and the probe of a log on a server: a `recorder.store.maintain.upkeep.Upkeep`.

It loads no driver: `recorder doctor` says that there is none, and a recorder has its probe load it in another thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

from sqlalchemy import URL

from recorder.errors import StoreError, UsageError
from recorder.program import load
from recorder.store.engine import Progress
from recorder.store.maintain.checks import CheckResult
from recorder.store.maintain.log_probe import LIMIT_S, NOTHING, LogProbe, ProbeResult
from recorder.store.postgres import address
from recorder.store.postgres.health import checks as checks

CONNECT_S = 2  # the least that libpq takes
_SIZE = "SELECT pg_database_size(current_database())"


class PostgresLogProbe(LogProbe):
    """A probe whose connection is kept from one look to the next."""

    reads = "CAST(convert_from(r.raw, 'UTF8') AS json)"
    is_asked_for = "= ANY (CAST(%s AS uuid[]))"

    def __init__(self, url: URL) -> None:
        self._url = url
        self._connection: Any = None
        self._closing = Lock()

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        was_kept = self._connection is not None
        try:
            return self._look(begun, ended)
        except StoreError as error:
            self.close()
            # One that was kept may have ended long ago, with a server that is back.
            return self.look(begun, ended) if was_kept else NOTHING._replace(error=str(error))

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        connections = load("recorder.store.postgres.connection")  # in the thread of the probe
        with connections.translated(self._url):
            if self._connection is None:
                limit = {"statement_timeout": str(round(LIMIT_S * 1000))}
                self._connection = connections.connect_reader(self._url, limit, connect_timeout=CONNECT_S)

            def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                return list(self._connection.execute(sql, (list(ids),), binary=True).fetchall())

            [(size,)] = self._connection.execute(_SIZE).fetchall()
            result = self.found(ask, begun, ended)
        return result._replace(database_bytes=size)

    def interrupt(self) -> None:
        """End the connection: a server that hangs keeps its statement limit no more than anything else."""
        with self._closing:  # the descriptor is of this connection, and not of what comes after it
            if self._connection is not None and not self._connection.closed:
                load("recorder.store.postgres.patience:hang_up")(self._connection)

    def close(self) -> None:
        with self._closing:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


log_probe = PostgresLogProbe


def library_checks() -> Iterator[CheckResult]:
    return iter(())


def file_checks(_url: URL) -> Iterator[CheckResult]:
    return iter(())


def back_up(url: URL, target: Path, progress: Progress, *, force: bool) -> NoReturn:
    raise UsageError(f"{address.display_name(url)} is on a server: copy it with `pg_dump --schema recorder`.")
