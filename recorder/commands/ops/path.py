"""`recorder db path`: prints where the database is."""

from __future__ import annotations

import click

from recorder.archive.place import chosen_url, database_name
from recorder.commands.terminal.options import database_option
from recorder.commands.terminal.output import write_line


@click.command()
@database_option
def path(db: str | None) -> None:
    """Print the path of the database, or its URL on a server, without a password.

    \b
    sqlite3 -readonly "$(recorder db path)" "select name from sessions"
    """
    write_line(database_name(chosen_url(db)))
