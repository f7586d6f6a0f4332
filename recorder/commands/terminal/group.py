"""Groups of commands that are loaded when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from recorder.errors import UsageError
from recorder.program import load


class LoadingGroup(click.Group):
    """A group that loads a command when it is called: `recorder sessions` imports no proxy.

    `places` has where each command is, as `MODULE:NAME`. Only help loads all of them, where it shows theirs.
    `moved` has what is written in place of commands that are gone.
    """

    def __init__(self, *, places: Mapping[str, str], moved: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self._places, self._moved = places, moved

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._moved and not ctx.resilient_parsing:
            raise UsageError(f"`{ctx.command_path} {cmd_name}` is now written {self._moved[cmd_name]}.")
        if cmd_name not in self._places:
            return None
        command: click.Command = load(self._places[cmd_name])
        return command
