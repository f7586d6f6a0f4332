"""A file that has the URL of a server while it listens, for scripts that start one.

What stands at that path already is replaced only if a recorder wrote it, which one that was killed
may have left. All else stays, and the command is refused: a path may be mistyped, or come from
somebody else.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recorder.errors import RecorderError, UsageError
from recorder.files import save

SIZE_LIMIT = 1024  # bytes: a host and a token have far less
_WRITTEN = re.compile(rb"http://[\w.:\[\]-]+:\d{1,5}(?:/t/[\w-]+)?\n")


@contextmanager
def announced(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes the URL to the file, and delete that file at the end of the
    block.

    Raise `UsageError` if a file is there that no recorder wrote.
    """
    if path is None:
        yield lambda url: None
        return
    if _content(path) is not None:
        _remove(path)  # of one that was killed
    written: list[bytes] = []

    def announce(url: str) -> None:
        write(path, url)
        written.append(_line(url))

    try:
        yield announce
    finally:
        with suppress(UsageError):  # something else is there by now, which is not ours
            if _content(path) in written:
                _remove(path)


def write(path: Path, url: str) -> None:
    """Raise `RecorderError` if the file cannot be written, `UsageError` if it is there and no
    recorder wrote it.
    """
    _content(path)
    try:
        save(path, [_line(url)])  # private: the URL may have the token in it
    except OSError as error:
        raise RecorderError(
            f"The ready file {path} cannot be written: {error.strerror}."
        ) from error


def _line(url: str) -> bytes:
    return f"{url}\n".encode()


def _content(path: Path) -> bytes | None:
    """Return what a recorder wrote to the file, None if there is none.

    Raise `UsageError` for another file.
    """
    try:
        status = path.lstat()  # of a link itself, which no recorder makes
        is_small_file = stat.S_ISREG(status.st_mode) and status.st_size <= SIZE_LIMIT
        content = path.read_bytes() if is_small_file else b""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"The ready file {path} cannot be read: {error.strerror}.") from error
    if not _WRITTEN.fullmatch(content) or status.st_uid != os.geteuid():
        raise UsageError(
            f"--ready-file {path}: there is a file that no recorder wrote. Name one that does not exist."
        )
    return content


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
