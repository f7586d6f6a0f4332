"""The database behind a URL, whichever it is: to be read, and what its errors mean."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from recorder.errors import NotFoundError, StoreError
from recorder.store.location import database_name, database_path, is_file
from recorder.store.sqlite import connection as sqlite


def reader_engine(url: URL) -> AsyncEngine:
    """Connections that only read, for an event loop."""
    if is_file(url):
        return sqlite.reader_engine(database_path(url))
    from recorder.store.postgres import connection as postgres

    return postgres.reader_engine(url)


def translated(url: URL) -> AbstractContextManager[None]:
    """What a driver raises inside leaves as an error of recorder."""
    if is_file(url):
        return sqlite.translated(database_path(url))
    from recorder.store.postgres import connection as postgres

    return postgres.translated(url)


def require(url: URL) -> None:
    """Raises `NotFoundError` if there is no such file, `StoreError` if it is none. A server is asked later."""
    if not is_file(url):
        return
    path = database_path(url)
    if path.is_dir():
        raise StoreError(f"{path} is a directory: the database needs the path of a file.")
    if not path.exists():
        raise nothing_in(url)


def nothing_in(url: URL) -> NotFoundError:
    return NotFoundError(f"There is no database {database_name(url)} yet: nothing has been recorded there.")
