"""`recorder db`: the place of the database, and its maintenance."""

from __future__ import annotations

import click

from recorder.commands.ops.archive import archive_command
from recorder.commands.ops.attach import archives_command, attach_command, detach_command
from recorder.commands.ops.backup import backup
from recorder.commands.ops.copy import command as copy_command
from recorder.commands.ops.purge import purge_command
from recorder.commands.ops.recover import recover_command
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.output import echo, write_line
from recorder.commands.terminal.progress import progress_bar
from recorder.errors import UsageError
from recorder.model.text import counted
from recorder.store.engine import READER_ROLE, WRITER_ROLE, engine_of
from recorder.store.location import chosen_url, database_name
from recorder.store.rebuild import rebuild
from recorder.store.writer import Store


@click.group()
def command() -> None:
    """Manage the database."""


command.add_command(archive_command)
command.add_command(archives_command)
command.add_command(attach_command)
command.add_command(backup)
command.add_command(copy_command)
command.add_command(detach_command)
command.add_command(purge_command)
command.add_command(recover_command)


@command.command()
@database_option
def path(db: str | None) -> None:
    """Print the path of the database, or its URL on a server, without a password.

    \b
    sqlite3 -readonly "$(recorder db path)" "select name from sessions"
    """
    write_line(database_name(chosen_url(db)))


@command.command()
@click.option(
    "--roles",
    is_flag=True,
    help=f"On PostgreSQL, make the roles {WRITER_ROLE} and {READER_ROLE}, and grant them their rights.",
)
@click.option(
    "--partitions",
    type=click.Choice(["month", "day"]),
    help="On PostgreSQL, make a partition for each month, or for each day, from now on. A month with rows remains one.",
)
@database_option
def upgrade(roles: bool, partitions: str | None, db: str | None) -> None:
    """Create the log, or upgrade it to the version of this program.

    \b
    recorder db upgrade --db recordings.db
    recorder db upgrade --db postgresql://owner@db.example/recordings --roles
    recorder db upgrade --db postgresql://owner@db.example/recordings --partitions day
    """
    url = chosen_url(db)
    engine = engine_of(url)
    if roles and not engine.grants:
        raise UsageError("Roles are for PostgreSQL: the mode of a file decides who may use it.")
    if partitions is not None and not engine.partitions:
        raise UsageError("Partitions are for PostgreSQL: a file has none, and `recorder db purge` deletes from it.")
    if engine.is_archive:
        engine.upgrade(url)
        echo(f"{database_name(url)} is up to date.")
        return
    with Store(url) as store:
        with store.transaction():
            is_due = store.projector.is_due()
        if is_due:
            _rebuild(store)
        if roles:
            store.grant(engine.grants)
        if partitions is not None:
            store.grant(engine.partitions[partitions])
        echo(f"{database_name(url)} is up to date.")


@command.command("rebuild")
@database_option
def rebuild_command(db: str | None) -> None:
    """Compute messages, tool calls, usage and all other projections again from the log.

    Recorders and readers can continue. An interrupted rebuild continues where it was when it is called again.

    \b
    recorder db rebuild
    """
    url = chosen_url(db)
    engine_of(url).require(url)
    with Store(url) as store:
        _rebuild(store)


def _rebuild(store: Store) -> None:
    with progress_bar("Rebuilding") as move:
        rebuilt = rebuild(store, lambda done, total: move(completed=done, total=total))
    echo(f"{counted(rebuilt.exchanges, 'exchange')} rebuilt.")
    for session_id, exchange_id, reason in rebuilt.put_aside:
        echo(f"Exchange {exchange_id} of session {session_id} has no projections, please report it: {reason}")
