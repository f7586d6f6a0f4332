"""The commands of the program by their names, and the examples that their help shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from recorder.commands import recorder
from recorder.commands.verbs import VERBS
from tools.cli_docs import commands_of, verb

# Up to what ends a command in a shell, or in the quotes of `eval "$(…)"`.
_EXAMPLE = re.compile(r"(?:^|[\s(])recorder ((?:\\\n|[^|>&)#;\n])+)")


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for each, sub in commands_of(command, click.Context(command)):
            yield from commands(f"{name} {each}", sub)
    else:
        yield name, command


COMMANDS = dict(each for name in VERBS for each in commands(name, verb(name)))


def examples(text: str) -> list[list[str]]:
    """The command lines of ours in a text, without `recorder`."""
    return [shlex.split(match[1].replace("\\\n", "")) for match in _EXAMPLE.finditer(text)]


def blocks(help: str | None) -> str:
    """The parts of a help that click leaves as they are: where examples stand."""
    return "\n".join(
        part for part in (help or "").split("\n\n") if part.lstrip(" ").startswith("\b")
    )


def parse(arguments: list[str]) -> str:
    """The name of the command that these are for. Raises what click raises; runs nothing."""
    with click.Context(recorder, info_name="recorder") as context:
        command: click.Command = recorder
        names = []
        while isinstance(command, click.Group):
            name, found, arguments = command.resolve_command(context, arguments)
            assert name is not None
            assert found is not None
            names.append(name)
            command = found
        command.make_context(names[-1], list(arguments), parent=context)
    return " ".join(names)
