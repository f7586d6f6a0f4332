"""Every command says how it is used, and what it says can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from recorder.commands import recorder
from recorder.commands.verbs import VERBS
from tests.support.corpus import ROOT
from tests.support.server import run

# Up to what ends a command in a shell, or in the quotes of `eval "$(…)"`.
_EXAMPLE = re.compile(r"(?:^|[\s(])recorder ((?:\\\n|[^|>&)#;\n])+)")


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for each, sub in commands_of(command, click.Context(command)):
            yield from commands(f"{name} {each}", sub)
    else:
        yield name, command


def commands_of(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group with their names, whenever it loads them."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield name, command


def verb(name: str) -> click.Command:
    with click.Context(recorder, info_name="recorder") as context:
        found = recorder.get_command(context, name)
    assert found is not None
    return found


COMMANDS = dict(each for name in VERBS for each in commands(name, verb(name)))


def examples(text: str) -> list[list[str]]:
    """The command lines of ours in a text, without `recorder`."""
    return [shlex.split(match[1].replace("\\\n", "")) for match in _EXAMPLE.finditer(text)]


def blocks(help: str | None) -> str:
    """The parts of a help that click leaves as they are: where examples stand."""
    return "\n".join(part for part in (help or "").split("\n\n") if part.lstrip(" ").startswith("\b"))


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_of_itself(name: str) -> None:
    shown = [parse(arguments) for arguments in examples(blocks(COMMANDS[name].help))]
    assert name in shown, f"recorder {name} --help has no example"


@pytest.mark.parametrize("name", ["", *VERBS])
def test_help_is_printed(name: str) -> None:
    ran = run(ROOT / "recorder.db", *name.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.decode().startswith(f"Usage: recorder {name}".rstrip())


@pytest.mark.parametrize("name", ["", *VERBS, *COMMANDS])
def test_help_fits_eighty_columns(name: str) -> None:
    """On a terminal of that width; click wraps all but examples and the names of options."""
    command: click.Command = recorder
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word) or command
    context = click.Context(command, info_name=f"recorder {name}".strip(), terminal_width=80)
    assert [line for line in command.get_help(context).splitlines() if len(line) > 80] == []


def test_every_example_of_the_program_itself_can_be_typed() -> None:
    shown = [parse(arguments) for arguments in examples(blocks(recorder.help))]
    assert len(shown) >= 3


def test_an_example_that_cannot_be_typed_is_found() -> None:
    [wrong] = examples('\b\neval "$(recorder replay latest --sped 4)" # no such option')
    with pytest.raises(click.NoSuchOption):
        parse(wrong)
