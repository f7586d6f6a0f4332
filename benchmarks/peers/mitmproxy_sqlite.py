"""mitmproxy's part in the comparison: an addon that passes streams on as they come, and keeps their
events in SQLite.

    PEER_DATABASE=events.db mitmdump --mode reverse:http://127.0.0.1:UPSTREAM_PORT -p PORT -s THIS_FILE

Written as one would for oneself: one connection, WAL, a row an event, a commit every tenth of a
second at most. It is no part of the recorder, and mitmproxy is not a dependency of it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

COMMIT_S = 0.1

_connection = sqlite3.connect(os.environ["PEER_DATABASE"], isolation_level=None)
_connection.execute("PRAGMA journal_mode = WAL")
_connection.execute("PRAGMA synchronous = NORMAL")
_connection.execute("CREATE TABLE events (flow TEXT, position INTEGER, t_ns INTEGER, raw BLOB)")
_began_s = 0.0


def _keep(rows: list[tuple[str, int, int, bytes]]) -> None:
    global _began_s
    now_s = time.monotonic()
    if _connection.in_transaction and now_s - _began_s > COMMIT_S:
        _connection.execute("COMMIT")
    if not _connection.in_transaction:
        _connection.execute("BEGIN")
        _began_s = now_s
    _connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)


def responseheaders(flow: Any) -> None:
    """Called by mitmproxy for each response."""
    flow.response.stream = _keeping(flow.id)


def done() -> None:
    """Called by mitmproxy when it ends."""
    if _connection.in_transaction:
        _connection.execute("COMMIT")
    _connection.close()


def _keeping(flow: str) -> Callable[[bytes], bytes]:
    held, position = b"", 0

    def keep(data: bytes) -> bytes:
        nonlocal held, position
        *events, held = (held + data).split(b"\n\n")
        if events:
            t_ns = time.monotonic_ns()
            _keep([(flow, position + count, t_ns, event) for count, event in enumerate(events)])
            position += len(events)
        return data

    return keep
