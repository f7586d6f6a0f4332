"""SQL of the user's own over a log and its archives, as if they were one database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from sqlalchemy import URL

from recorder.archive.place import is_archive
from recorder.archive.registry import archives_of, warn_left_out
from recorder.errors import RecorderError
from recorder.store.queries.query import Query
from recorder.store.queries.query_process import Opener, own_engine
from recorder.store.queries.query_process import open_query as open_in_process

OWN, DUCKDB = "own", "duckdb"
"""Who answers: the log's own engine, and for archives DuckDB; or DuckDB in any case."""


def open_query(url: URL, engine: str = OWN) -> AbstractContextManager[Query]:
    """Open a log with its archives, or an archive, for questions, in a process of its own.

    Raise `NotFoundError` or `StoreError` if there is none that can be read here.
    """
    return open_in_process(url, _OPENERS[engine])


@contextmanager
def open_attached(url: URL) -> Iterator[Query]:
    """Open a log and its archives. What cannot be read is left out, with a warning."""
    if is_archive(url):
        opening: AbstractContextManager[Query] = _open_views(url, "query")
    elif archives := archives_of(url):
        opening = _open_both(url, archives)
    else:
        opening = own_engine(url)
    with opening as query:
        yield query


@contextmanager
def _open_both(log: URL, archives: list[URL]) -> Iterator[Query]:
    with ExitStack() as rest:
        query: Query
        try:
            query = rest.enter_context(_open_views(log, "query"))
        except RecorderError as error:
            for archive in archives:
                warn_left_out(archive, error)
            query = rest.enter_context(own_engine(log))
        yield query


def open_in_duckdb(url: URL) -> AbstractContextManager[Query]:
    """Open a log with the archives that can be read, or an archive. Raise if DuckDB is not installed."""
    return _open_views(url, "query --engine duckdb")


@contextmanager
def _open_views(url: URL, command: str) -> Iterator[Query]:
    """Open both by DuckDB. The log's own engine says first if the log can be read here, and if it is up to date."""
    from recorder.archive.views import open_views  # they need the extra
    from recorder.store.duckdb.query import DuckdbQuery

    is_stale = "EXISTS (SELECT 1 FROM rebuilds)"  # in an archive, which takes no session whose projections are due
    if not is_archive(url):
        with own_engine(url) as query:
            is_stale = str(query.is_stale())
    with open_views(url, command, leaves_out=True) as connection:
        yield DuckdbQuery(connection, f"SELECT {is_stale}")


_OPENERS: Mapping[str, Opener] = {OWN: open_attached, DUCKDB: open_in_duckdb}
