"""Which database a command is about, and where the journals beside it are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from sqlalchemy import URL

from recorder.location import database_url, default_url, journal_root

__all__ = ["chosen_url", "database_option", "journal_root"]

F = TypeVar("F", bound=Callable[..., Any])


def database_option(function: F) -> F:
    """The `--db` of every command that opens the database."""
    return click.option(
        "--db",
        metavar="URL|PATH",
        envvar="RECORDER_DB",
        help="The database: a path or a SQLAlchemy URL. [default: a file in the user's data directory]",
    )(function)


def chosen_url(database: str | None) -> URL:
    """The URL that `--db` names, or that of the default database."""
    return database_url(database) if database else default_url()
