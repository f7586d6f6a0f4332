"""A log and its archives, opened for SQL of the user's own as if they were one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from sqlalchemy import URL

from recorder.archive.place import is_archive
from recorder.archive.registry import archives_of, warn_left_out
from recorder.archive.views import open_views
from recorder.errors import RecorderError
from recorder.store.duckdb.query import DuckdbQuery
from recorder.store.queries.query import Query
from recorder.store.queries.query_process import own_engine


@contextmanager
def open_attached(url: URL) -> Iterator[Query]:
    """Open a log and its archives. What cannot be read is left out, with a warning."""
    archives = archives_of(url)
    opener: Callable[[URL], AbstractContextManager[Query]] = own_engine
    if archives or is_archive(url):
        opener = _open_views
    with ExitStack() as rest:
        try:
            query = rest.enter_context(opener(url))
        except RecorderError as error:
            if not archives:
                raise
            for archive in archives:
                warn_left_out(archive, error)
            query = rest.enter_context(own_engine(url))
        yield query


def open_in_duckdb(url: URL) -> AbstractContextManager[Query]:
    """Open a log with the archives that can be read, or an archive.

    Raise if DuckDB is not installed.
    """
    return _open_views(url, "query --engine duckdb")


@contextmanager
def _open_views(url: URL, command: str = "query") -> Iterator[Query]:
    """Open both by DuckDB.

    The log's own engine says first if the log can be read here, and if it is up to date.
    """
    # in an archive, which takes no session whose projections are due
    is_stale = "EXISTS (SELECT 1 FROM rebuilds)"
    if not is_archive(url):
        with own_engine(url) as query:
            is_stale = str(query.is_stale())
    with open_views(url, command, leaves_out=True) as connection:
        yield DuckdbQuery(connection, f"SELECT {is_stale}")
