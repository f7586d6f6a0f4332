"""A file that has the URL of a server while it listens, for scripts that start one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from recorder.errors import RecorderError

ready_file_option = click.option(
    "--ready-file",
    metavar="PATH",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the URL of this server to this file while it listens.",
)


@contextmanager
def announced(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes the URL to the file, and delete the file at the end of the block."""
    _remove(path)  # of one that was killed
    try:
        yield lambda url: write(path, url)
    finally:
        _remove(path)


def write(path: Path | None, url: str) -> None:
    """Raises `RecorderError`."""
    if path is None:
        return
    from recorder.cassettes.sse_jsonl.writer import save

    try:
        save(path, [f"{url}\n".encode()])  # private: the URL may have the token in it
    except OSError as error:
        raise RecorderError(f"The ready file {path} cannot be written: {error.strerror}.") from error


def _remove(path: Path | None) -> None:
    if path is not None:
        with suppress(OSError):
            path.unlink()
