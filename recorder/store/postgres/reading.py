"""The connections to a server that only read, for an event loop: a `recorder.store.engine.Reading`.

Rules of this file:

* Only what reads imports it: a start of what writes does without.
* The statement of a task that is cancelled is ended by psycopg, which asks the server to cancel it,
  and its connection closed by SQLAlchemy.
"""

from __future__ import annotations

from sqlalchemy import URL

from recorder.errors import StoreError
from recorder.store.async_engine import AsyncEngine, create_async_engine
from recorder.store.engine import OWN_READER_ROLE, READERS, Fetch
from recorder.store.postgres.connection import CONNECTION, prepare, require_tables
from recorder.store.postgres.connection import translated as translated
from recorder.store.postgres.ddl import READ_TABLES
from recorder.store.postgres.rights import MAY_SEE_ALL
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


def login_url(url: URL, login: str) -> URL:
    return (
        url.difference_update_query(("user", "password"))
        .set(username=login)
        ._replace(password=None)
    )


async def require_own_rows(url: URL, fetch: Fetch) -> None:
    [(login, may_see_all)] = await fetch(MAY_SEE_ALL)
    if login != url.username:  # a server cuts names that are too long
        raise StoreError(f"There is no login {url.username}: the server took it for {login}.")
    if may_see_all:
        raise StoreError(
            f"The login {login} may see more than the rows of its own: give it the role "
            f"{OWN_READER_ROLE} alone, after `recorder db upgrade --roles`."
        )
