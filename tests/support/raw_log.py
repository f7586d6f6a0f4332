"""A database as any program sees it, through nothing of recorder but how it writes an id: a file, or one on a server.

with asking(db) as ask:
    rows = ask("SELECT raw FROM events WHERE exchange_id = ?", exchange_id)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from recorder.store.engine import engine_of
from recorder.store.location import database_path
from tests.support.postgres import conninfo

Ask = Callable[..., list[tuple[Any, ...]]]


@contextmanager
def asking(db: Path | URL) -> Iterator[Ask]:
    """Questions to one state of it. Values stand for `?`."""
    if isinstance(db, URL) and not engine_of(db).is_local:
        with _on_a_server(db) as ask:
            yield ask
        return
    path = database_path(db) if isinstance(db, URL) else db
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        yield lambda sql, *values: connection.execute(sql, values).fetchall()


@contextmanager
def _on_a_server(url: URL) -> Iterator[Ask]:
    import psycopg

    from recorder.store.postgres.connection import adapt

    with psycopg.connect(conninfo(url), options="-c search_path=recorder") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        adapt(connection)
        yield lambda sql, *values: connection.execute(sql.replace("?", "%s").encode(), values).fetchall()
