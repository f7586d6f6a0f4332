"""The databases that the `recorder.toml` of a project may name: files below its folder."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL

from recorder.archive.place import database_url
from recorder.archive.registry import archives_of
from recorder.errors import RecorderError
from recorder.store.location import database_path


def is_below(database: str, folder: Path) -> bool:
    """Return whether a value of `--db` is a file below a folder, and leads to nothing outside of
    it.

    Files beside a database have its name and more, as its journal does: none of them may be a link.
    """
    try:
        url = database_url(database)
        path = database_path(url)
        real, parent, root = (Path(os.path.realpath(each)) for each in (path, path.parent, folder))
    except (RecorderError, ValueError):  # the second for a NUL in a name
        return False
    if not (parent.is_relative_to(root) and real.is_relative_to(root)):
        return False
    return not _has_link(parent, path.name) and not _has_archives(url)


def _has_link(folder: Path, name: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() and entry.name.startswith(name) for entry in entries)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # nobody can say what is in it


def _has_archives(log: URL) -> bool:
    """Return whether a log names archives, which may be on a server: whatever reads the log would
    ask there.
    """
    try:
        return database_path(log).is_file() and bool(archives_of(log))
    except RecorderError:
        return False  # it cannot be read as it is, by no command
