"""`recorder cassette`: cassettes as files of a repository, checked and brought into one form."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import click

from recorder.cassettes.sse_jsonl import CASSETTE_LIMIT, TOO_LARGE, formatted
from recorder.cassettes.sse_jsonl.check import findings
from recorder.commands.terminal.files import SkippedFiles
from recorder.commands.terminal.output import echo, write_line
from recorder.files import save
from recorder.model.text import safe_text
from recorder.recordings.files import opening

FOUND = 4  # exit code: a finding

_files = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))


@click.group()
def command() -> None:
    """Check cassettes, and rewrite them in their canonical form.

    A cassette is a session as a text file for git: `recorder export --format cassette` writes it, `recorder import`
    reads it.
    """


@command.command()
@_files
def check(files: Sequence[Path]) -> None:
    """Check each FILE for unreadable lines, contradictions, and text that looks like a secret.

    The exit code is 4 if there is a finding, 1 if a FILE cannot be opened, 3 if it does not exist.

    \b
    recorder cassette check *.sse.jsonl
    """
    found, skipped = 0, SkippedFiles()
    for path in files:
        with skipped.over(path), opening(path) as file:
            for finding in _findings(file):
                found += 1
                write_line(safe_text(f"{path}: {finding}"))
    skipped.close()
    if found:
        sys.exit(FOUND)


@command.command()
@_files
def fmt(files: Sequence[Path]) -> None:
    """Rewrite each FILE in its canonical form.

    Headers are redacted, exchanges are numbered from 1. The content stays the same. A file is replaced as a whole or
    not at all; one that cannot be read is named and skipped, and the exit code is 1, or 3 if it does not exist.

    \b
    recorder cassette fmt *.sse.jsonl
    """
    skipped = SkippedFiles()
    for path in files:
        with skipped.over(path):
            _format(path)
    skipped.close()


def _findings(file: BinaryIO) -> list[str]:
    if os.fstat(file.fileno()).st_size > CASSETTE_LIMIT:
        return [str(TOO_LARGE)]
    return findings(file)


def _format(path: Path) -> None:
    with opening(path) as file:
        lines = formatted(file)
        file.seek(0)
        if file.read() == b"".join(lines):
            return
    save(path, lines)
    echo(safe_text(f"{path} is formatted."))
