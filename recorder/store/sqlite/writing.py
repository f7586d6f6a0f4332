"""Connections that write to a file, and its locks: a `recorder.store.protocols.Writing`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from math import inf

from sqlalchemy import URL

from recorder.store.sqlite import address, connection
from recorder.store.sqlite import writer as of_file
from recorder.store.sqlite.writer import SqliteWriter


def writer(url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> SqliteWriter:
    return SqliteWriter(address.path(url), busy_timeout_s)


def task_lock(url: URL, task: str) -> AbstractContextManager[None]:
    return connection.task_lock(address.path(url), task)


def sweep(url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
    return of_file.sweep(address.path(url), vacuum, busy_timeout_s)


def sweep_catalog(url: URL) -> None:
    of_file.sweep_catalog(address.path(url))
