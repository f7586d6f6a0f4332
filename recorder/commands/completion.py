"""`recorder completion`: the script that lets a shell complete verbs, options and names of sessions."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from recorder.commands.terminal.output import write_line

VARIABLE = "_RECORDER_COMPLETE"  # click's, by the name of the program
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, options, and names of sessions of the usual database.

    bash: put the first line below into ~/.bashrc. zsh: the same with zsh, into ~/.zshrc behind compinit; or write the
    script as `_recorder` into a folder of fpath. fish: write it to ~/.config/fish/completions/recorder.fish. Then start
    a new shell.

    \b
    eval "$(recorder completion bash)"
    recorder completion zsh > _recorder
    recorder completion fish > recorder.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click has these three"
    root = ctx.find_root()
    write_line(found(root.command, {}, str(root.info_name), VARIABLE).source().rstrip())
