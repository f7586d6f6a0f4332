"""Connections that write to a server, and locks there: a `recorder.store.engine.Writing`."""

from __future__ import annotations

from math import inf

import psycopg
from sqlalchemy import URL

from recorder.store.postgres import writer as of_server
from recorder.store.postgres.connection import task_lock as task_lock
from recorder.store.postgres.writer import PostgresWriter
from recorder.store.postgres.writer import sweep_catalog as sweep_catalog

_TEMPORARY = ("08", "28", "3D", "40", "53", "55", "57", "58", "XX", "25006", "25P03", "25P04", "42501")
"""SQLSTATE classes and codes of the server's condition, which passes or is mended without us: no connection, no login,
no database, a rollback, no resources, a lock, an operator, the system, damage; a standby, a transaction that was idle
or open for too long, a missing right."""


def is_of_statement(error: BaseException) -> bool:
    code = getattr(error, "sqlstate", None)
    if code is None:  # libpq has none for a connection that breaks, psycopg none for what it refuses itself
        return isinstance(error, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError)
    return not str(code).startswith(_TEMPORARY)


def writer(url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> PostgresWriter:
    return PostgresWriter(url, busy_timeout_s, answer_timeout_s)


def sweep(url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
    return not vacuum or of_server.sweep(url, busy_timeout_s)
