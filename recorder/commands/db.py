"""`recorder db`: where the database is, and keeping it."""

from __future__ import annotations

import sys
import time

import click
from rich.console import Console
from rich.progress import Progress

from recorder.commands.database import chosen_url, database_option, journal_root
from recorder.commands.output import echo, write_line
from recorder.errors import NotFoundError
from recorder.ingest import recover
from recorder.location import database_path
from recorder.rebuild import rebuild
from recorder.store import Store


@click.group()
def command() -> None:
    """Keep the database."""


@command.command()
@database_option
def path(db: str | None) -> None:
    """Print where the database is.

    \b
    sqlite3 -readonly "$(recorder db path)" "select name from sessions"
    """
    write_line(str(database_path(chosen_url(db))))


@command.command()
@database_option
def upgrade(db: str | None) -> None:
    """Create the database, or bring it up to the version of this program.

    \b
    recorder db upgrade --db recordings.db
    """
    url = chosen_url(db)
    with Store(url) as store:
        with store.transaction():
            is_due = store.projector.is_due()
        if is_due:
            _rebuild(store)
        echo(f"{database_path(url)} is up to date.")


@command.command("rebuild")
@database_option
def rebuild_command(db: str | None) -> None:
    """Compute messages, tool calls, usage and all other projections anew from the log.

    Recorders may go on recording, and whoever reads is not disturbed. A rebuild that is interrupted goes on where it
    was when it is called again.

    \b
    recorder db rebuild
    """
    url = chosen_url(db)
    path = database_path(url)
    if not path.exists():
        raise NotFoundError(f"There is no database {path} yet: nothing has been recorded there.")
    with Store(url) as store:
        _rebuild(store)


def _rebuild(store: Store) -> None:
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("Rebuilding")
        rebuilt = rebuild(store, lambda done, total: progress.update(task, completed=done, total=total))
    echo(f"{rebuilt.exchanges:,} exchange{'s' if rebuilt.exchanges != 1 else ''} rebuilt.")
    for session_id, exchange_id, reason in rebuilt.put_aside:
        echo(f"Exchange {exchange_id} of session {session_id} has no projections, please report it: {reason}")


@command.command("recover")
@database_option
def recover_command(db: str | None) -> None:
    """Ingest what recorders that were killed left in their journals. `recorder serve` does so by itself.

    \b
    recorder db recover
    """
    url = chosen_url(db)
    path = database_path(url)
    if not path.exists() and not journal_root(url).exists():
        raise NotFoundError(f"There is no database {path}, and no journal beside it: nothing has been recorded there.")
    with Store(url) as store:
        found = recover(store, journal_root(url), _wait)
    echo(f"{found} journal{'s' if found != 1 else ''} recovered." if found else "There is nothing to recover.")


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False
