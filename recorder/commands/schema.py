"""`recorder schema`: the JSON Schemas of what commands write with `--json`.

They are files beside the verbs, written by hand: a promise, and not what some class happens to be. Tests compare them
with real output, and let them only grow.
"""

from __future__ import annotations

import difflib
from importlib.resources import files

import click

from recorder.commands.terminal.output import echo, write_bytes, write_line
from recorder.errors import NotFoundError

_FOLDER = files("recorder.commands") / "schemas"
_SUFFIX = ".json"


def names() -> list[str]:
    """Return the names of all schemas: the words of a command, and of an option that gives it another form."""
    return sorted(each.name.removesuffix(_SUFFIX) for each in _FOLDER.iterdir() if each.name.endswith(_SUFFIX))


def _completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete)]


@click.command()
@click.argument("name", required=False, shell_complete=_completed)
def command(name: str | None) -> None:
    """Print the JSON Schema of what a command writes with --json. Without NAME, list the names.

    NAME is the command with hyphens between its words (`prices-list`), and with the option that gives it another form
    (`show-request`, `query-list`). A line of --jsonl is one item of the array. Schemas only grow: a property keeps its
    name and its type, and new ones may come. They are of JSON Schema 2020-12.

    \b
    recorder schema
    recorder schema sessions
    recorder schema show-request > show-request.schema.json
    """
    if name is None:
        for each in names():
            write_line(each)
        echo("`recorder schema NAME` prints one.")
        return
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "`recorder schema` lists them."
        raise NotFoundError(f"There is no schema {name!r}. {hint}")
    write_bytes((_FOLDER / f"{name}{_SUFFIX}").read_bytes())
