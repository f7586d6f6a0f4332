"""`recorder cassette`: cassettes as files of a repository, checked and brought into one form."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from recorder.cassettes.check import findings
from recorder.cassettes.sse_jsonl import CASSETTE_LIMIT, TOO_LARGE, formatted
from recorder.cassettes.writing import save
from recorder.commands.output import echo, safe_text, write_line
from recorder.errors import RecorderError

FOUND = 4  # exit code: a finding

_files = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))


@click.group()
def command() -> None:
    """Check cassettes, and bring them into their canonical form.

    A cassette is a session as a text file for git: `recorder export --format cassette` writes it, `recorder import`
    reads it.
    """


@command.command()
@_files
def check(files: Sequence[Path]) -> None:
    """Say what is wrong with each FILE: what cannot be read or cannot be so, and what looks like a key.

    The exit code is 4 if there is anything, 1 if a FILE cannot be opened.

    \b
    recorder cassette check *.sse.jsonl
    """
    found = 0

    def check_one(path: Path) -> None:
        nonlocal found
        for said in _findings(path):
            found += 1
            write_line(safe_text(f"{path}: {said}"))

    if not _with_each(files, check_one):
        sys.exit(1)
    if found:
        sys.exit(FOUND)


@command.command()
@_files
def fmt(files: Sequence[Path]) -> None:
    """Write each FILE anew in its canonical form, if it is in another.

    Headers are redacted, exchanges numbered from 1. What the cassette says stays the same. A file is replaced as a
    whole or left as it is; one that cannot be read is named and passed over, and the exit code is 1.

    \b
    recorder cassette fmt *.sse.jsonl
    """
    if not _with_each(files, _format):
        sys.exit(1)


def _with_each(files: Sequence[Path], work: Callable[[Path], None]) -> bool:
    """Do something with each file; returns whether it could be done with all."""
    failed = 0
    for path in files:
        try:
            work(path)
        except (OSError, RecorderError) as error:
            failed += 1
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            echo(safe_text(f"{path} is passed over: {said.rstrip('.')}."))
    return not failed


def _findings(path: Path) -> list[str]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > CASSETTE_LIMIT:
            return [str(TOO_LARGE)]
        return findings(file)


def _format(path: Path) -> None:
    with path.open("rb") as file:
        lines = formatted(file)
        file.seek(0)
        if file.read() == b"".join(lines):
            return
    save(path, lines)
    echo(safe_text(f"{path} is formatted."))
