"""Where the database is: what `--db` takes, as a URL, and the paths of the files that belong to it."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from recorder.errors import UsageError


def default_url() -> URL:
    """The database in the user's data directory."""
    return database_url(user_data_path("recorder", appauthor=False) / "recorder.db")


def database_url(value: str | Path | URL) -> URL:
    """A path or a SQLAlchemy URL as the URL of a database file, its path absolute.

    Raises `UsageError` for an engine that recorder does not have.
    """
    if isinstance(value, str) and "://" in value:
        try:
            value = make_url(value)
        except ArgumentError as error:
            raise UsageError("That is not a database URL: give a path, or sqlite:///PATH.") from error
    path = _path_of(value) if isinstance(value, URL) else value
    if str(path) in ("", ".", ":memory:"):
        raise UsageError("The log needs a database file: give a path, or sqlite:///PATH.")
    return URL.create("sqlite", database=str(Path(path).expanduser().absolute()))


def database_path(url: URL) -> Path:
    """The database file behind a URL that `database_url` made."""
    return Path(url.database or "")


def lock_path(path: Path) -> Path:
    """The file whose lock is held by whoever writes to the database."""
    return Path(f"{path}.lock")


def _path_of(url: URL) -> str:
    engine = url.get_backend_name()
    if engine != "sqlite":
        raise UsageError(f"recorder cannot record into {engine} yet: give a path, or sqlite:///PATH.")
    if url.query:
        raise UsageError("The URL of a database file takes no options: recorder sets them itself.")
    return url.database or ""
