"""The place of an archive: the URL of its catalog behind `ducklake+`, and the names that a user
gives.

Rules of this file:

* These are the functions of `recorder.store.location` for everybody to whom an archive may be given
  as `--db`. The store itself knows logs only, and refuses the URL of an archive.
* Nothing here connects, and nothing needs DuckDB.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from recorder.errors import NotFoundError, UsageError
from recorder.store import location
from recorder.store.engine import address_of, engine_name

NAME = location.ARCHIVE
DIALECT = "duckdb"  # of the SQL that an archive is asked

_FORMS = "ducklake:PATH, ducklake:sqlite:PATH, or ducklake:postgresql://USER@HOST/DATABASE"


def is_archive(url: URL) -> bool:
    """Return whether a URL is of an archive, and not of a log."""
    return url.get_backend_name() == NAME


def database_of(url: URL) -> URL:
    """Return the URL of the database that there is: that of the catalog for an archive, the same
    for a log.
    """
    if not is_archive(url):
        return url
    return url.set(drivername=url.drivername.partition("+")[2])


def database_url(value: str | Path | URL) -> URL:
    """Return the URL of a log or of an archive; of a file, its path is absolute.

    Raise `UsageError` for an engine that recorder does not have, and for a URL that names no
    database.
    """
    if isinstance(value, str):
        kind, _, rest = value.partition(":")
        if kind == NAME and not rest.startswith("//"):
            value = _of_catalog(rest)
        elif kind.partition("+")[0] == NAME:
            value = _url(value)
    if isinstance(value, URL) and is_archive(value):
        return _normalized(value)
    return location.database_url(value)


def chosen_url(database: str | None) -> URL:
    """Return the URL that `--db` names, or that of the default log."""
    return database_url(database) if database else location.default_url()


def database_name(url: URL) -> str:
    """Return the path of a log, or its place on a server, for people; of an archive, that of its
    catalog.
    """
    name = location.database_name(database_of(url))
    return f"{NAME}:{name}" if is_archive(url) else name


def dialect_of(url: URL) -> str:
    """Return the dialect of the SQL that a log or an archive is asked."""
    return DIALECT if is_archive(url) else engine_name(url)


def is_missing(url: URL) -> bool:
    """Return whether it is certain, without connecting, that there is no log or archive yet."""
    database = database_of(url)
    return address_of(database).is_missing(database)


def require(url: URL) -> None:
    """Raise `NotFoundError` if there is no log or archive yet, `StoreError` if its path is of
    something else.
    """
    if is_archive(url) and is_missing(url):
        raise no_archive(url)
    database = database_of(url)
    address_of(database).require(database)


def require_log(url: URL) -> None:
    """Raise `UsageError` for an archive, and the errors of `require`."""
    if is_archive(url):
        raise UsageError(f"{database_name(url)} is an archive itself: give the log with --db.")
    require(url)


def no_archive(url: URL) -> NotFoundError:
    """Return the error for an archive that nobody made yet."""
    return NotFoundError(
        f"There is no archive {database_name(url)} yet: `recorder db archive --to … --data …` makes it."
    )


def _of_catalog(text: str) -> URL:
    """Return the URL for what a user writes after `ducklake:`."""
    kind, colon, rest = text.partition(":")
    if colon and rest.startswith("//"):
        url = _url(f"{'postgresql' if kind == 'postgres' else kind}:{rest}")
        return url.set(drivername=f"{NAME}+{url.drivername}")
    if colon and kind in ("postgres", "postgresql"):
        return _of_libpq(rest)
    path = rest if colon and kind == "sqlite" else text
    return URL.create(f"{NAME}+sqlite", database=path)


def _url(text: str) -> URL:
    try:
        return make_url(text)
    except ArgumentError as error:
        raise UsageError(f"That is not an archive: give {_FORMS}.") from error


def _of_libpq(text: str) -> URL:
    """Return the URL for a connection string of libpq, as DuckLake takes it."""
    try:
        values = dict(part.split("=", 1) for part in shlex.split(text))
    except ValueError as error:
        raise UsageError(f"That is not an archive: give {_FORMS}.") from error
    host = port = None
    if not values.get("host", "/").startswith("/"):  # else a folder with a socket
        host = values.pop("host")
        port = int(values.pop("port")) if values.get("port", "").isdecimal() else None
    username, password, database = (
        values.pop(name, None) for name in ("user", "password", "dbname")
    )
    return URL.create(f"{NAME}+postgresql", username, password, host, port, database, values)


def _normalized(url: URL) -> URL:
    """Return the one form of the URL of an archive. Raise `UsageError` if it names no database."""
    kind = url.drivername.partition("+")[2] or "sqlite"
    if kind.partition("+")[0] in ("", NAME):
        raise UsageError(f"An archive has its catalog in SQLite or PostgreSQL: give {_FORMS}.")
    catalog = location.database_url(url.set(drivername=kind))
    return catalog.set(drivername=f"{NAME}+{catalog.get_backend_name()}")
