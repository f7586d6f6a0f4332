"""Where the database is: what `--db` takes, as a URL, and the paths of the files that belong to it.

A log is in a file of SQLite, or in a database of PostgreSQL. What is in a file has a path; what is not has a name.
"""

from __future__ import annotations

import re
from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from recorder.errors import UsageError

POSTGRESQL = "postgresql"


def default_url() -> URL:
    """The database in the user's data directory."""
    return database_url(user_data_path("recorder", appauthor=False) / "recorder.db")


def database_url(value: str | Path | URL) -> URL:
    """A path or a SQLAlchemy URL as the URL of a database: of a file, its path absolute, or of PostgreSQL.

    Raises `UsageError` for an engine that recorder does not have.
    """
    if isinstance(value, str) and "://" in value:
        try:
            value = make_url(value)
        except ArgumentError as error:
            raise UsageError(
                "That is not a database URL: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE."
            ) from error
    if isinstance(value, URL) and value.get_backend_name() == POSTGRESQL:
        return _on_a_server(value)
    path = _path_of(value) if isinstance(value, URL) else value
    if str(path) in ("", ".", ":memory:"):
        raise UsageError("The log needs a database file: give a path, or sqlite:///PATH.")
    return URL.create("sqlite", database=str(Path(path).expanduser().absolute()))


def is_file(url: URL) -> bool:
    """Whether the database is a file."""
    return url.get_backend_name() != POSTGRESQL


def database_path(url: URL) -> Path:
    """The database file behind a URL that `database_url` made. Raises `UsageError` if there is none."""
    if not is_file(url):
        raise UsageError(f"{database_name(url)} is no file: this works with a database of SQLite only.")
    return Path(url.database or "")


def database_name(url: URL) -> str:
    """What to call the database: its path, or where it is on a server. Never a password."""
    if is_file(url):
        return url.database or ""
    host = url.query.get("host", url.host or "")
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{host if isinstance(host, str) else ','.join(host)}{port}/{url.database}"


def lock_path(path: Path) -> Path:
    """The file whose lock is held by whoever writes to the database."""
    return Path(f"{path}.lock")


def journal_root(url: URL) -> Path:
    """The folder of the journals on this machine whose events go into that database."""
    if is_file(url):
        return Path(f"{database_path(url)}.journal")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", database_name(url).removeprefix("postgresql://")).strip("-")
    return user_data_path("recorder", appauthor=False) / "journals" / name


def _on_a_server(url: URL) -> URL:
    if not url.database:
        raise UsageError("The URL names no database: give postgresql://USER@HOST/DATABASE.")
    return url.set(drivername=f"{POSTGRESQL}+psycopg")


def _path_of(url: URL) -> str:
    engine = url.get_backend_name()
    if engine != "sqlite":
        raise UsageError(
            f"recorder cannot record into {engine}: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE."
        )
    if url.query:
        raise UsageError("The URL of a database file takes no options: recorder sets them itself.")
    return url.database or ""


def chosen_url(database: str | None) -> URL:
    """The URL that `--db` names, or that of the default database."""
    return database_url(database) if database else default_url()
