"""Connections that write to a file, and its locks: a `recorder.store.engine.Writing`."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from math import inf

from sqlalchemy import URL

from recorder.store.sqlite import address, connection
from recorder.store.sqlite import writer as of_file
from recorder.store.sqlite.writer import SqliteWriter

_OF_STATEMENT = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)


def is_of_statement(error: BaseException) -> bool:
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)  # what the driver itself refuses has none
    return code is None or code & 0xFF in _OF_STATEMENT


def writer(url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> SqliteWriter:
    return SqliteWriter(address.path(url), busy_timeout_s)


def task_lock(url: URL, task: str) -> AbstractContextManager[None]:
    return connection.task_lock(address.path(url), task)


def sweep(url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
    return of_file.sweep(address.path(url), vacuum, busy_timeout_s)


def sweep_catalog(url: URL) -> None:
    of_file.sweep_catalog(address.path(url))
