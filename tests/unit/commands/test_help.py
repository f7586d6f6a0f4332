"""Every command says how it is used, and what it says can be typed."""

from __future__ import annotations

import click
import pytest

from recorder.commands import recorder
from recorder.commands.verbs import VERBS
from tests.support.commands import COMMANDS, blocks, examples, parse
from tests.support.corpus import ROOT
from tests.support.server import run


def test_every_command_has_an_example_of_itself_that_can_be_typed() -> None:
    shown = {
        name: [parse(words) for words in examples(blocks(each.help))]
        for name, each in COMMANDS.items()
    }
    assert [name for name, names in shown.items() if name not in names] == []


def test_help_is_printed() -> None:
    for name in ("", *VERBS):
        ran = run(ROOT / "recorder.db", *name.split(), "--help")
        assert (ran.code, ran.err) == (0, ""), name
        assert ran.out.decode().startswith(f"Usage: recorder {name}".rstrip())


def test_help_fits_eighty_columns() -> None:
    """On a terminal of that width; click wraps all but examples and the names of options."""
    long = []
    for name in ("", *VERBS, *COMMANDS):
        command: click.Command = recorder
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word) or command
        info_name = f"recorder {name}".strip()
        context = click.Context(
            command, info_name=info_name, terminal_width=80, **recorder.context_settings
        )
        long += [line for line in command.get_help(context).splitlines() if len(line) > 80]
    assert long == []


def test_every_example_of_the_program_itself_can_be_typed() -> None:
    shown = [parse(arguments) for arguments in examples(blocks(recorder.help))]
    assert len(shown) >= 3


def test_an_example_that_cannot_be_typed_is_found() -> None:
    [wrong] = examples('\b\neval "$(recorder replay latest --sped 4)" # no such option')
    with pytest.raises(click.NoSuchOption):
        parse(wrong)
