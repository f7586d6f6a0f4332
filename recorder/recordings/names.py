"""Names of recordings: which of them mean a file, and not a session of the log.

It loads no reader of a format: most commands ask, and few are given a file.
"""

from __future__ import annotations

from pathlib import Path

STDIN = Path("-")


def is_file(name: str) -> bool:
    """Return True for a file.

    One in this directory that has the name of a session, and no ending, is called ./NAME.
    """
    return name == str(STDIN) or (looks_like_file(name) and Path(name).is_file())


def looks_like_file(name: str) -> bool:
    """Return True for a name that a file in this directory has only if it is given as a path, or
    with its ending.
    """
    return "/" in name or "." in name
