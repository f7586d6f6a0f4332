"""The low-water mark of the disk: below it a recorder continues, and warns."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

log = logging.getLogger(__name__)

MARK_BYTES = 128 * 2**20  # a journal may take a tenth of what is free: below this it holds some seconds
LOOK_S = 10.0  # a disk that is filled at 100 MB/s has as much left when it is noticed as the mark asks for, or less


async def watch_disk(path: Path, mark_bytes: int = MARK_BYTES, look_s: float = LOOK_S) -> None:
    """Check the disk for ever; warn once when free space falls below the mark, and once when it is back."""
    low = False
    while True:
        free = free_bytes(path)
        if free is not None and (free < mark_bytes) != low:
            low = not low
            log.warning("%s", low_sentence(path, free) if low else f"There is room again on the disk of {path}.")
        await asyncio.sleep(look_s)


def free_bytes(path: Path) -> int | None:
    """Return the free bytes on the disk of a path; None if the system does not report it."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def low_sentence(path: Path, free: int) -> str:
    return f"Only {free // 2**20} MiB are free on the disk of {path}: free some, or gaps will follow."
