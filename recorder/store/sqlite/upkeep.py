"""The checks, the probe and the copy of a log in a file: a `recorder.store.maintain.upkeep.Upkeep`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import URL

from recorder.errors import StoreError
from recorder.journal.reader import size_bytes
from recorder.store.maintain.log_probe import LIMIT_S, NOTHING, LogProbe, ProbeResult
from recorder.store.sqlite import address
from recorder.store.sqlite.backup import back_up as back_up
from recorder.store.sqlite.connection import open_reader, translated
from recorder.store.sqlite.health import checks as checks
from recorder.store.sqlite.health import file_checks as file_checks
from recorder.store.sqlite.health import library_checks as library_checks

STEPS = 10_000  # of SQLite's machine between two looks at the time


class SqliteLogProbe(LogProbe):
    """A probe that opens the file again each time, which takes a part of a millisecond. Nothing ends a call of the
    system that hangs.
    """

    reads = "CAST(r.raw AS TEXT)"
    is_asked_for = "IN (SELECT value FROM json_each(?))"

    def __init__(self, url: URL) -> None:
        self._path = address.path(url)

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        try:
            result = self._look(begun, ended)
        except StoreError as error:
            result = NOTHING._replace(error=str(error))
        wal_bytes = size_bytes(Path(f"{self._path}-wal"))
        return result._replace(database_bytes=size_bytes(self._path), wal_bytes=wal_bytes)

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        with translated(self._path), open_reader(self._path, LIMIT_S) as connection:
            began_s = time.monotonic()
            connection.set_progress_handler(lambda: time.monotonic() > began_s + LIMIT_S, STEPS)

            def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                return connection.execute(sql, (msgspec.json.encode(ids).decode(),)).fetchall()

            return self.found(ask, begun, ended)


log_probe = SqliteLogProbe
