"""The probe of a log in a database file: it opens the file again each time, which takes a part of a millisecond."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from recorder.errors import StoreError
from recorder.journal.reader import size_bytes
from recorder.store.maintain.log_probe import ENDED, LIMIT_S, NOTHING, ProbeResult, found
from recorder.store.sqlite.connection import open_reader, translated

STEPS = 10_000  # of SQLite's machine between two looks at the time


class SqliteLogProbe:
    """A `recorder.store.maintain.log_probe.LogProbe`."""

    _IS_ASKED_FOR = "IN (SELECT value FROM json_each(?))"
    _BEGUN = f"SELECT exchange_id FROM exchanges WHERE exchange_id {_IS_ASKED_FOR}"
    _ENDED = ENDED.format(reads="CAST(r.raw AS TEXT)", is_asked_for=_IS_ASKED_FOR)

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = Path(f"{self._path}-wal")

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        try:
            result = self._look(begun, ended)
        except StoreError as error:
            result = NOTHING._replace(error=str(error))
        return result._replace(database_bytes=size_bytes(self._path), wal_bytes=size_bytes(self._wal))

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        with translated(self._path):
            with open_reader(self._path, LIMIT_S) as connection:
                began_s = time.monotonic()
                connection.set_progress_handler(lambda: time.monotonic() > began_s + LIMIT_S, STEPS)

                def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                    return connection.execute(sql, (msgspec.json.encode(ids).decode(),)).fetchall()

                return found(ask, (self._BEGUN, begun), (self._ENDED, ended))

    def interrupt(self) -> None:
        """Do nothing: no server keeps it waiting, and nothing ends a call of the system that hangs."""

    def close(self) -> None:
        """Nothing is kept open."""
