"""The place of a database: the URL for the value of `--db`, the name to print, the paths that
belong to it.
"""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from recorder.errors import UsageError
from recorder.store.engine import address_of, engine_name, no_such_engine

# how the URL of an archive begins (`recorder.archive.place`): it is not a path
ARCHIVE = "ducklake"
VARIABLE = "RECORDER_DB"
"""The environment variable with the value of `--db`. Processes of recorder's own get the URL in it:
it may have a password, and all users of a machine see the arguments of its processes."""


def default_url() -> URL:
    """Return the URL of the database in the user's data directory."""
    return database_url(user_data_path("recorder", appauthor=False) / "recorder.db")


def database_url(value: str | Path | URL) -> URL:
    """Return the URL of a database, from a path or a URL of SQLAlchemy: of a file, its path is
    absolute.

    Raise `UsageError` for an engine that recorder does not have, and for a URL that names no
    database.
    """
    if isinstance(value, str) and "://" in value:
        try:
            value = make_url(value)
        except (ArgumentError, ValueError) as error:  # a ValueError of a port that is not a number
            raise UsageError(
                "That is not a database URL: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE."
            ) from error
    elif isinstance(value, str) and value.startswith(f"{ARCHIVE}:"):
        raise no_such_engine(ARCHIVE)
    url = value if isinstance(value, URL) else URL.create("sqlite", database=str(value))
    return address_of(url).normalize(url)


def chosen_url(database: str | None) -> URL:
    """Return the URL that `--db` names, or that of the default database."""
    return database_url(database) if database else default_url()


def database_path(url: URL) -> Path:
    """Return the file of a URL that `database_url` made.

    Raise `UsageError` if the database is not a file.
    """
    return address_of(url).path(url)


def database_name(url: URL) -> str:
    """Return a database's path, or its place on a server, for people. Never a password."""
    return address_of(url).display_name(url)


def journal_root(url: URL) -> Path:
    """Return the folder of the journals on this machine whose events go into a database."""
    return address_of(url).journal_root(url)


def is_same_database(url: URL, other: URL) -> bool:
    """Return whether two URLs are known, without connecting, to be of one database."""
    return engine_name(url) == engine_name(other) and address_of(url).is_same(url, other)
