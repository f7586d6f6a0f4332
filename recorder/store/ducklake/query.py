"""SQL of the user's own on an archive: the tables and views of a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL

from recorder.store.archive.views import open_views
from recorder.store.duckdb.query import DuckdbQuery

_IS_STALE = "SELECT EXISTS (SELECT 1 FROM rebuilds)"  # the archiver takes no session whose projections are not computed


@contextmanager
def open_archive(url: URL) -> Iterator[DuckdbQuery]:
    """Open an archive for questions. Raise `NotFoundError` or `StoreError` if there is none that can be read here."""
    with open_views(url, "query") as connection:
        yield DuckdbQuery(connection, _IS_STALE)
