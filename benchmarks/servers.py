"""A PostgreSQL to measure: the one that `RECORDER_TEST_POSTGRES` names, or one started here, as it
is by default.

It writes through to the disk, which the one of the tests does not.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL

from benchmarks import machine
from recorder.store.engine import address_of
from recorder.store.location import database_url
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from tests.support import postgres

DURABLE = {"fsync": "on", "full_page_writes": "on"}


@contextmanager
def server() -> Iterator[postgres.Server | None]:
    """`None`, and a sentence on the terminal, where there is none to be had."""
    folder = postgres.programs()
    if postgres.VARIABLE in os.environ:
        with postgres.server() as given:
            yield given
    elif folder is None:
        print(postgres.MISSING)
        yield None
    else:
        with tempfile.TemporaryDirectory(prefix="recorder-postgres-") as directory:
            with postgres.Cluster(folder, Path(directory), **DURABLE) as cluster:
                yield postgres.Server(cluster.url)


@contextmanager
def database(on: postgres.Server, template: str | None = None) -> Iterator[URL]:
    """A database of it, gone at the end."""
    url = database_url(on.create(template))
    try:
        yield url
    finally:
        on.drop(url)


def backend_cpu_s(store: Store) -> float:
    """What the server's process behind a connection has used, 0 for a file; not a number if it is
    elsewhere.
    """
    if address_of(store.url).is_local:
        return 0.0
    if not str(store.url.query.get("host", "")).startswith("/"):
        return math.nan
    with store.transaction():
        [(pid,)] = store.ask(Statement("SELECT pg_backend_pid()"), {})
    return machine.cpu_s(pid)
