"""Removal of deleted bytes from the files and tables that still hold them, after a purge.

Rules of this file:

* Deleted is not gone. SQLite overwrites deleted rows in place (`secure_delete`), but pages that were split or joined
  before keep copies of the rows that were moved. Only a new file has none: a sweep writes it anew.
* A server keeps deleted rows for transactions that began before, and until a VACUUM; their bytes stay until the room is
  used again, and in its WAL and backups. A client of the server cannot promise more.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from recorder.store.engine import BUSY_TIMEOUT_S, writing_of
from recorder.store.location import database_url


def sweep(database: str | Path | URL, *, vacuum: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> bool:
    """Remove the traces of deleted rows, as far as possible from here: from the full-text index, a file, its WAL; on a
    server, from the tables.

    Without `vacuum` a file keeps its size, and copies of rows that were moved in it; a server does it at its own time.
    Returns True if no reader prevented it: a transaction that stays open keeps what existed when it began.
    """
    url = database_url(database)
    return writing_of(url).sweep(url, vacuum=vacuum, busy_timeout_s=busy_timeout_s)
