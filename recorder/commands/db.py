"""`recorder db`: the place of the database, and its maintenance."""

from __future__ import annotations

import click

from recorder.commands.verbs import LoadingGroup


@click.group(
    cls=LoadingGroup,
    places={
        "archive": "recorder.commands.ops.archive:archive_command",
        "backup": "recorder.commands.ops.backup:backup",
        "copy": "recorder.commands.ops.copy:command",
        "path": "recorder.commands.ops.path:path",
        "purge": "recorder.commands.ops.purge:purge_command",
        "rebuild": "recorder.commands.ops.upgrade:rebuild_command",
        "recover": "recorder.commands.ops.recover:recover_command",
        "upgrade": "recorder.commands.ops.upgrade:upgrade",
    },
    moved={
        "archives": "`recorder db archive --list`",
        "attach": "`recorder db archive --attach ARCHIVE`",
        "detach": "`recorder db archive --detach ARCHIVE`",
    },
)
def command() -> None:
    """Manage the database."""
