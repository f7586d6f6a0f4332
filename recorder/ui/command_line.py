"""The `recorder` commands that pages offer for copying, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from sqlalchemy import URL

from recorder.store.engine import engine_of
from recorder.store.location import default_url
from recorder.store.query import Value


def recorder_line(url: URL, *words: str) -> str:
    """Return a command on a database. A password is left out: PostgreSQL's programs read PGPASSWORD and ~/.pgpass."""
    return shlex.join(("recorder", *words, *_database(url)))


def query_line(url: URL, sql: str, values: Mapping[str, Value]) -> str:
    """Return the `recorder query` that runs a statement with these values.

    NULL becomes an empty text, since an option has no other.
    """
    given = [word for name, value in values.items() for word in ("-p", name, "" if value is None else str(value))]
    return recorder_line(url, "query", sql, *given)


def _database(url: URL) -> tuple[str, ...]:
    """Return the option that names a database; none for the default one."""
    if url == default_url():
        return ()
    files = engine_of(url).files(url)
    return "--db", str(files[0]) if files else url.set(password=None).render_as_string()
