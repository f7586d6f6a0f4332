"""Files that are replaced as a whole or not at all, and brought onto the disk."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path


def save(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file by lines, as a whole or not at all. Raises `OSError`, and what `lines` raises.

    Only the owner can read a new file, whatever the umask is, because it has conversations. Git
    does not keep that.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def to_disk(descriptor: int) -> None:
    """Bring a file onto the disk. Raise `OSError`."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # where fsync leaves it to the cache of the disk
    else:
        os.fsync(descriptor)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, onto the disk. Raise `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        to_disk(descriptor)
    finally:
        os.close(descriptor)
