"""`recorder db backup`: a copy of the database, verified."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from sqlalchemy import URL

from recorder.archive.place import chosen_url, database_name, is_archive
from recorder.commands.ops.journals import journals
from recorder.commands.terminal.options import database_option, flag
from recorder.commands.terminal.output import echo
from recorder.commands.terminal.progress import progress_bar
from recorder.errors import UsageError
from recorder.journal.format import MAGIC
from recorder.journal.reader import segment_name, segment_numbers, size_bytes
from recorder.model.text import counted, safe_text
from recorder.store.location import journal_root
from recorder.store.maintain.upkeep import upkeep_of


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@flag("--force", help="Replace FILE if it exists.")
@database_option
def backup(db: str | None, file: Path, force: bool) -> None:
    """Copy the database to FILE as it is now. Recorders can continue.

    The copy is checked and on the disk before it gets its name. It is a database like any other:
    `--db FILE` reads it.

    \b
    recorder db backup recordings-2026-11-20.db
    """
    url = chosen_url(db)
    if is_archive(url):
        raise UsageError(
            f"{database_name(url)} is an archive: copy its catalog as any database, and the files of its data path."
        )
    file = file.expanduser().absolute()
    with progress_bar("Copying") as move:
        made = upkeep_of(url).back_up(
            url, file, lambda done, total: move(completed=done, total=total), force=force
        )
    ended = f"{counted(made.exchanges, 'exchange')} that {'has' if made.exchanges == 1 else 'have'} ended"
    echo(safe_text(f"{file} has {ended} ({file.stat().st_size:,} bytes)."))
    say_waiting(url, made.offsets)


def say_waiting(url: URL, offsets: Mapping[str, tuple[int, int]]) -> None:
    """Print how many bytes of the journals are not in a copy of the database."""
    waiting = waiting_bytes(journal_root(url), offsets)
    if waiting:
        echo(
            f"Up to {waiting:,} bytes are still in journals and not in it: open streams, and what "
            "killed recorders left (`recorder db recover` ingests that)."
        )


def waiting_bytes(root: Path, offsets: Mapping[str, tuple[int, int]]) -> int:
    """Return the size of the journals after the offsets up to which they are in the log."""
    total = 0
    for directory in journals(root):
        segment, offset = offsets.get(directory.name, (0, 0))
        for number in segment_numbers(directory):
            if number >= segment:
                done = offset if number == segment else 0
                total += max(
                    0, size_bytes(directory / segment_name(number)) - max(done, len(MAGIC))
                )
    return total
