"""What is deleted, out of where it still stands: after a purge.

Rules of this file:

* Deleted is not gone. SQLite overwrites what is deleted where it stands (`secure_delete`), but pages that were split or
  joined before keep copies of what was moved out of them. Only a new file has none: a sweep writes it anew.
* A server keeps what is deleted for those who read since before, and until a VACUUM; its bytes stay until their room
  is used again, and in its WAL and backups. Nobody who only uses the server can promise more.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from recorder.store.engine import BUSY_TIMEOUT_S, engine_of
from recorder.store.location import database_url


def sweep(database: str | Path | URL, *, vacuum: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> bool:
    """Leave no trace of what was deleted, as far as that is in our hands: in the full-text index, in a file, in its
    WAL; on a server, in the tables.

    Without `vacuum` a file keeps its size, and copies of what was once moved in it; a server does it when it likes.
    Returns whether nobody was in the way: a reader who stays in a transaction keeps what was there when it began.
    """
    url = database_url(database)
    return engine_of(url).sweep(url, vacuum=vacuum, busy_timeout_s=busy_timeout_s)
