"""SQL of the user's own that DuckDB answers, over a log and its archives as if they were one database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sqlalchemy import URL

from recorder.errors import RecorderError
from recorder.store.archive.registry import warn_left_out
from recorder.store.archive.views import open_views
from recorder.store.duckdb.query import DuckdbQuery
from recorder.store.engine import engine_of
from recorder.store.queries.query import Query


@contextmanager
def open_attached(log: URL, archives: Sequence[URL]) -> Iterator[Query]:
    """Open a log and its archives for questions. What cannot be read is left out, with a warning.

    Raise `NotFoundError` or `StoreError` if the log cannot be read.
    """
    with ExitStack() as rest:
        query: Query
        try:
            query = rest.enter_context(open_in_duckdb(log, "query"))
        except RecorderError as error:
            for archive in archives:
                warn_left_out(archive, error)
            query = rest.enter_context(engine_of(log).query(log))
        yield query


@contextmanager
def open_in_duckdb(url: URL, command: str) -> Iterator[Query]:
    """Open a log, with the archives that can be read, or an archive. Raise if DuckDB is not installed.

    The log's own engine is opened first, and closed: it says if the log can be read here, and if it is up to date.
    """
    with engine_of(url).query(url) as query:
        if engine_of(url).is_archive:  # whose own engine is DuckDB
            yield query
            return
        is_stale = query.is_stale()
    with open_views(url, command, leaves_out=True) as connection:
        yield DuckdbQuery(connection, f"SELECT {is_stale}")
