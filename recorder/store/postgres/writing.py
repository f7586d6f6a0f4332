"""Connections that write to a server, and locks there: a `recorder.store.protocols.Writing`."""

from __future__ import annotations

from math import inf

from sqlalchemy import URL

from recorder.store.postgres import writer as of_server
from recorder.store.postgres.connection import task_lock as task_lock
from recorder.store.postgres.writer import PostgresWriter
from recorder.store.postgres.writer import sweep_catalog as sweep_catalog


def writer(url: URL, busy_timeout_s: float, answer_timeout_s: float = inf) -> PostgresWriter:
    return PostgresWriter(url, busy_timeout_s, answer_timeout_s)


def sweep(url: URL, *, vacuum: bool, busy_timeout_s: float) -> bool:
    return not vacuum or of_server.sweep(url, busy_timeout_s)
