"""The reference of the command line, made of what `--help` says; `tools.reference` writes it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import click

from recorder.commands import recorder
from recorder.commands.verbs import VERBS

WIDTH = 120

EXIT_CODES = {
    0: "ok",
    1: "an error",
    2: "wrong usage",
    3: "nothing found; an empty list is still printed",
    4: "a difference or a finding",
    5: "a replay that got a request it has no recording of, or whose client tried to reach an API past it",
    130: "interrupted",
}


class Paragraph(NamedTuple):
    """A part of a help text: prose, or lines that stay as they are."""

    text: str
    is_example: bool


class CommandHelp(NamedTuple):
    """What `--help` says of a command."""

    name: str  # with all words: `recorder db copy`
    summary: str
    usage: str
    paragraphs: list[Paragraph]
    options: list[tuple[str, str]]
    commands: list[CommandHelp]


def help_of(name: str, command: click.Command, summary: str) -> CommandHelp:
    """What `--help` says of a command and of those below it."""
    # Click keeps the help option that it makes first: it has the names that it has in the program.
    with click.Context(command, info_name=name, **recorder.context_settings) as ctx:
        usage = " ".join([name, *command.collect_usage_pieces(ctx)])
        records = [
            each.get_help_record(ctx) for each in command.params if isinstance(each, click.Option)
        ]
        below = (
            list(commands_of(command, ctx))
            if isinstance(command, click.Group) and command is not recorder
            else []
        )
        commands = [
            help_of(f"{name} {each}", sub, sub.get_short_help_str(limit=1_000))
            for each, sub in below
        ]
    return CommandHelp(
        name,
        summary,
        usage,
        list(paragraphs(command.help)),
        [each for each in records if each],
        commands,
    )


def paragraphs(text: str | None) -> Iterator[Paragraph]:
    for part in inspect.cleandoc(text or "").split("\n\n"):
        is_example = part.startswith("\b")
        lines = part.removeprefix("\b").strip("\n")
        yield Paragraph(lines if is_example else " ".join(lines.split()), is_example)


def commands_of(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group with their names, whenever it loads them."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield name, command


def verb(name: str) -> click.Command:
    """The command of a verb."""
    with click.Context(recorder, info_name="recorder") as context:
        found = recorder.get_command(context, name)
    assert found is not None
    return found


def program() -> CommandHelp:
    """What `recorder --help` says."""
    return help_of("recorder", recorder, "record stream sessions byte for byte, and replay them")


def every_verb() -> list[CommandHelp]:
    """What `--help` says of every verb."""
    return [help_of(f"recorder {name}", verb(name), summary) for name, summary in VERBS.items()]


def with_code(text: str) -> str:
    """A text in which words that a shell gets are code, and nothing else is markup."""
    return "".join(
        part
        if part.startswith("`")
        else _OPTION.sub(r"`\g<0>`", re.sub(r"[*\\]|<(?=[\w/!?])", r"\\\g<0>", part))
        for part in re.split(r"(`[^`]*`)", text)
    )


_OPTION = re.compile(r"(?<![\w/-])--?[a-z][\w-]*(?:=\S*\w)?")


def page() -> str:
    """The text of the page."""
    return "\n".join(
        [*_opening(), *(line for each in every_verb() for line in _section(each, "##"))]
    )


def _opening() -> Iterator[str]:
    yield from ("# Command line", "")
    yield from _wrapped("This page is what `recorder --help` and `recorder COMMAND --help` say.")
    yield ""
    yield from _body(program())
    yield from ("## Commands", "", "| command | what it does |", "|---|---|")
    for each in every_verb():
        yield f"| [`{each.name}`](#{each.name.replace(' ', '-')}) | {with_code(each.summary)} |"
    yield from ("", "## Exit codes", "", "| code | meaning |", "|---|---|")
    yield from (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    yield ""
    yield from _wrapped("`recorder run` ends with the code of its command.")
    yield from ("", "## Settings", "")
    yield from _wrapped(
        "Every option is a setting, too. `--port` of `recorder serve` is the variable `RECORDER_SERVE_PORT`, "
        "and `port` in the table `[serve]` of `recorder.toml`, in the current folder or in the user's folder of "
        "settings. `RECORDER_DB` names the database of all commands. An option wins over a variable, and that over a "
        "file. The file in the current folder may set only what neither sends, listens nor writes outside of that "
        "folder, until `recorder trust` was run on it."
    )
    yield ""


def _section(command: CommandHelp, level: str) -> Iterator[str]:
    yield from (f"{level} {command.name}", "")
    yield from _body(command)
    for each in command.commands:
        yield from _section(each, f"{level}#")


def _body(command: CommandHelp) -> Iterator[str]:
    yield from ("```text", command.usage, "```", "")
    for paragraph in command.paragraphs:
        yield from (
            ("```text", paragraph.text, "```")
            if paragraph.is_example
            else _wrapped(with_code(paragraph.text))
        )
        yield ""
    for names, text in command.options:
        yield from _wrapped(f"* `{names}`: {with_code(_spaced(text))}", "  ")
    if command.options:
        yield ""


def _spaced(text: str) -> str:
    return re.sub(r" {2,}", " ", text)


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of a paragraph; none begins with what would be markup there."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
