"""The connections to a server that only read, for an event loop.

Rules of this file:

* Only what reads imports it: `sqlalchemy.ext.asyncio` loads the ORM, which costs a process its start.
* The statement of a task that is cancelled is ended by psycopg, which asks the server to cancel it, and its connection
  closed by SQLAlchemy.
"""

from __future__ import annotations

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from recorder.store.engine import READERS
from recorder.store.postgres.connection import CONNECTION, prepare


def reader_engine(url: URL) -> AsyncEngine:
    """Return the connections to a database. Who wants more than there are waits for one, however long."""
    engine = create_async_engine(url, pool_size=READERS, max_overflow=0, pool_timeout=None, connect_args=CONNECTION)
    prepare(engine.sync_engine, {"default_transaction_read_only": "on"})
    return engine
