"""`recorder db upgrade` and `recorder db rebuild`: bring schema and projections to the version of
this program.
"""

from __future__ import annotations

import click

from recorder.archive.place import chosen_url, database_name, database_of, is_archive, require_log
from recorder.archive.schema import upgrade as upgrade_archive
from recorder.commands.terminal.options import database_option, flag
from recorder.commands.terminal.output import echo
from recorder.commands.terminal.progress import progress_bar
from recorder.errors import UsageError
from recorder.model.text import counted
from recorder.store.engine import OWN_READER_ROLE, READER_ROLE, WRITER_ROLE, schema_of
from recorder.store.maintain.rebuild import rebuild
from recorder.store.write.writer import Store


@click.command()
@flag(
    "--roles",
    help=f"On PostgreSQL, make the roles {WRITER_ROLE}, {READER_ROLE} and {OWN_READER_ROLE} with their rights.",
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
    recorder db upgrade --db postgresql://owner@db.example/log --partitions day
    """
    url = chosen_url(db)
    schema = schema_of(database_of(url))
    if roles and not schema.grants:
        raise UsageError("Roles are for PostgreSQL: the mode of a file decides who may use it.")
    if partitions is not None and not schema.partitions:
        raise UsageError(
            "Partitions are for PostgreSQL: a file has none, and `recorder db purge` deletes from it."
        )
    if is_archive(url):
        upgrade_archive(url)
        echo(f"{database_name(url)} is up to date.")
        return
    with Store(url) as store:
        with store.transaction():
            is_due = store.projector.is_due()
        if is_due:
            _rebuild(store)
        if roles:
            store.grant(schema.grants)
        if partitions is not None:
            store.grant(schema.partitions[partitions])
        echo(f"{database_name(url)} is up to date.")


@click.command("rebuild")
@database_option
def rebuild_command(db: str | None) -> None:
    """Compute messages, tool calls, usage and all other projections again from the log.

    Recorders and readers can continue. An interrupted rebuild continues where it was when it is
    called again.

    \b
    recorder db rebuild
    """
    url = chosen_url(db)
    require_log(url)
    with Store(url) as store:
        _rebuild(store)


def _rebuild(store: Store) -> None:
    with progress_bar("Rebuilding") as move:
        rebuilt = rebuild(store, lambda done, total: move(completed=done, total=total))
    echo(f"{counted(rebuilt.exchanges, 'exchange')} rebuilt.")
    for session_id, exchange_id, reason in rebuilt.put_aside:
        echo(
            f"Exchange {exchange_id} of session {session_id} has no projections, please report it: {reason}"
        )
