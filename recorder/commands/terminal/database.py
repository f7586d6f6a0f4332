"""The option that names the database of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from recorder.store.location import VARIABLE

F = TypeVar("F", bound=Callable[..., Any])


def database_option(function: F) -> F:
    """Add the option `--db` to a command that opens the database."""
    return click.option(
        "--db",
        metavar="URL|PATH",
        envvar=VARIABLE,
        help="The database: a path or a SQLAlchemy URL. [default: a file in the user's data directory]",
    )(function)
