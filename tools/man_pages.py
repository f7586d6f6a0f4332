"""The man pages, made of what `--help` says: `python -m tools.man_pages FOLDER` writes them.

A page for the program and one for each verb, in the macros of man(7), with nothing in them that
changes with a day. The build of the wheel runs this, so it imports nothing but the program.

Not by click-man (0.6 was tried): it escapes neither a backslash nor a dot at the beginning of a
line, sets examples as prose, has no exit status, and finds no command of a group that loads its
commands when they are called.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from recorder.commands.verbs import VERBS
from tools import cli_docs
from tools.cli_docs import EXIT_CODES, CommandHelp, Paragraph

_SPECIAL = {
    "\\": r"\[rs]",
    "-": r"\-",
    "'": r"\[aq]",
    "^": r"\[ha]",
    "~": r"\[ti]",
    '"': r"\[dq]",
    "`": r"\[ga]",
}

FILES = (
    (
        "recorder.toml",
        "Settings, in the current folder; they win over those of the user. See recorder-trust(1).",
    ),
    (
        "~/.config/recorder/recorder.toml",
        "Settings of the user. On macOS in ~/Library/Application Support.",
    ),
    (
        "~/.local/share/recorder/recorder.db",
        "The usual database: `recorder db path` prints its place.",
    ),
)
ENVIRONMENT = (
    ("RECORDER_DB", "The database: a path or a SQLAlchemy URL."),
    ("RECORDER_COMMAND_OPTION", "The value of an option of a command, as RECORDER_SERVE_PORT."),
)


def pages() -> dict[str, str]:
    """The text of every man page by its file name."""
    found = {"recorder.1": "\n".join(_program()) + "\n"}
    for each in cli_docs.every_verb():
        found[f"{each.name.replace(' ', '-')}.1"] = "\n".join(_verb(each)) + "\n"
    return found


def _program() -> Iterator[str]:
    program = cli_docs.program()
    yield from _heading(program)
    yield ".SH COMMANDS"
    for name, summary in VERBS.items():
        yield from (".TP", rf"\fBrecorder\-{escaped(name)}\fR(1)", formatted(summary))
    for title, entries in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        yield f".SH {title}"
        for name, text in entries:
            yield from (".TP", rf"\fB{escaped(name)}\fR", formatted(text))
    yield from _exit_status()


def _verb(command: CommandHelp) -> Iterator[str]:
    yield from _heading(command)
    for each in command.commands:
        yield from (
            f".SS {escaped(each.name)}",
            *_synopsis(each),
            *_description(each.paragraphs),
            *_options(each),
        )
    yield from _exit_status()
    yield from (".SH SEE ALSO", r"\fBrecorder\fR(1)")


def _heading(command: CommandHelp) -> Iterator[str]:
    title = escaped(command.name.replace(" ", "-"))
    yield from (rf'.TH "{title.upper()}" 1 "" "recorder" "recorder"', ".nh", ".ad l", ".SH NAME")
    summary = command.summary[0].lower() + command.summary[1:].rstrip(".")
    yield rf"{title} \- {formatted(summary)}"
    yield from (
        ".SH SYNOPSIS",
        *_synopsis(command),
        ".SH DESCRIPTION",
        *_description(command.paragraphs),
    )
    if command.options:
        yield from (".SH OPTIONS", *_options(command))
    if command.commands:
        yield ".SH COMMANDS"


def _synopsis(command: CommandHelp) -> Iterator[str]:
    yield rf"\fB{escaped(command.name)}\fR {escaped(command.usage.removeprefix(command.name).strip())}"


def _description(paragraphs: list[Paragraph]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield ".PP"
        if paragraph.is_example:
            yield from (
                ".EX",
                ".RS 4",
                *(escaped(line) for line in paragraph.text.splitlines()),
                ".RE",
                ".EE",
            )
        else:
            yield formatted(paragraph.text)


def _options(command: CommandHelp) -> Iterator[str]:
    for names, text in command.options:
        yield from (".TP", rf"\fB{escaped(names)}\fR", formatted(re.sub(r" {2,}", " ", text)))


def _exit_status() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", rf"\fB{code}\fR", formatted(meaning))


def formatted(text: str) -> str:
    """A text of one line, with code in bold."""
    parts = re.split(r"`([^`]*)`", text)
    return "".join(
        rf"\fB{escaped(part)}\fR" if number % 2 else escaped(part)
        for number, part in enumerate(parts)
    )


def escaped(text: str) -> str:
    """A text that roff sets as it stands: no macro at its beginning, no character but ASCII."""
    special = "".join(
        _SPECIAL.get(each, each if each.isascii() else rf"\[u{ord(each):04X}]") for each in text
    )
    return rf"\&{special}" if special.startswith(".") else special


def write(folder: Path) -> None:
    """Write all pages into a folder, and remove those of verbs that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.1"):
        path.unlink()
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
