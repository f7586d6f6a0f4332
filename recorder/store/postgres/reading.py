"""The connections to a server that only read, for an event loop: a `recorder.store.engine.Reading`.

Rules of this file:

* Only what reads imports it: a start of what writes does without.
* The statement of a task that is cancelled is ended by psycopg, which asks the server to cancel it,
  and its connection closed by SQLAlchemy.
"""

from __future__ import annotations

from sqlalchemy import URL

from recorder.store.async_engine import AsyncEngine, create_async_engine
from recorder.store.engine import READERS, Fetch
from recorder.store.postgres.connection import CONNECTION, prepare, require_tables
from recorder.store.postgres.connection import translated as translated
from recorder.store.postgres.ddl import READ_TABLES
from recorder.store.schema import READ_REVISION


def reader(url: URL) -> AsyncEngine:
    engine = create_async_engine(
        url, pool_size=READERS, max_overflow=0, pool_timeout=None, connect_args=CONNECTION
    )
    prepare(engine.sync_engine, {"default_transaction_read_only": "on"})
    return engine


async def revision(url: URL, fetch: Fetch) -> str | None:
    require_tables(url, await fetch(READ_TABLES))
    for (number,) in await fetch(READ_REVISION):
        return str(number)
    return None
