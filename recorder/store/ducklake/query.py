"""SQL of the user's own on an archive: its tables and the views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL

from recorder.store.duckdb.query import DuckdbQuery
from recorder.store.ducklake.connection import data_path, lake, translated
from recorder.store.ducklake.schema import require_revision

_IS_STALE = "SELECT EXISTS (SELECT 1 FROM rebuilds)"  # the archiver takes no session whose projections are not computed


@contextmanager
def open_archive(url: URL) -> Iterator[DuckdbQuery]:
    """Open an archive for questions. Raise `NotFoundError` or `StoreError` if there is none that can be read here."""
    with lake(url, "query") as connection:
        with translated(url):
            require_revision(url, connection)
            connection.execute("SET integer_division = true")  # as in the other engines
            folder = data_path(connection)
        yield DuckdbQuery(connection, [folder], _IS_STALE)
