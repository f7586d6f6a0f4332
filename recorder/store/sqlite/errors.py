"""The meaning of SQLite's errors: `recorder.store.engine.Errors`."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager

from sqlalchemy import URL

from recorder.store.sqlite import address, connection

_OF_STATEMENT = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)


def translated(url: URL) -> AbstractContextManager[None]:
    return connection.translated(address.path(url))


def is_of_statement(error: BaseException) -> bool:
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)  # what the driver itself refuses has none
    return code is None or code & 0xFF in _OF_STATEMENT
