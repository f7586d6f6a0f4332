"""SQL of the user's own over a log and its archives, asked in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from sqlalchemy import URL

from recorder.store.queries.query import Query
from recorder.store.queries.query_process import open_query as open_in_process

OWN, DUCKDB = "own", "duckdb"
"""Who answers: the log's own engine, and for archives DuckDB; or DuckDB in any case."""

_OPENERS: Mapping[str, str] = {
    OWN: "recorder.archive.sql:open_attached",
    DUCKDB: "recorder.archive.sql:open_in_duckdb",
}


def open_query(url: URL, engine: str = OWN) -> AbstractContextManager[Query]:
    """Open a log with its archives, or an archive, for questions.

    Raise `NotFoundError` or `StoreError` if there is none that can be read here.
    """
    return open_in_process(url, _OPENERS[engine])
