"""`recorder db`: the place of the database, and its maintenance."""

from __future__ import annotations

import click

from recorder.commands.terminal.group import LoadingGroup

_OPS = "recorder.commands.ops"


@click.group(
    cls=LoadingGroup,
    places={
        "archive": (f"{_OPS}.archive", "archive_command"),
        "backup": (f"{_OPS}.backup", "backup"),
        "copy": (f"{_OPS}.copy", "command"),
        "path": (f"{_OPS}.path", "path"),
        "purge": (f"{_OPS}.purge", "purge_command"),
        "rebuild": (f"{_OPS}.upgrade", "rebuild_command"),
        "recover": (f"{_OPS}.recover", "recover_command"),
        "upgrade": (f"{_OPS}.upgrade", "upgrade"),
    },
    moved={
        "archives": "`recorder db archive --list`",
        "attach": "`recorder db archive --attach ARCHIVE`",
        "detach": "`recorder db archive --detach ARCHIVE`",
    },
)
def command() -> None:
    """Manage the database."""
