"""The connection that `recorder.store.maintain.verify.log` reads a log with, on either engine, for one thread.

Rules of this file:

* A transaction sees the log as it is at one moment, and is rolled back at its end.
* A scratch connection has empty tables with the names of some of the log's, in front of these: rows written there are
  deleted at the end of the transaction, and the log's own tables have the name of their schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from sqlalchemy import URL, Table

from recorder.store.maintain.upkeep import VerifyConnection, upkeep_of


def opened(url: URL) -> AbstractContextManager[VerifyConnection]:
    """Open a log. Raises `NotFoundError` if nothing was recorded there, `StoreError` if it cannot be read here."""
    return upkeep_of(url).verify_connection(url)


def scratch(url: URL, tables: Sequence[Table]) -> AbstractContextManager[VerifyConnection]:
    """Open a connection that can write to tables of those names. Raises `RecorderError` if they cannot be made."""
    return upkeep_of(url).scratch_connection(url, tables)
