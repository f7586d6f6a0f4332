"""What a collector says of itself: for its admin port, and in a file for `recorder doctor`."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from recorder.journal.reader import PARTIAL

STATUS = "status"


def collected_root(journal_root: Path) -> Path:
    """Return the folder in which collectors on this machine make journals again, beside those of
    its recorders.
    """
    return journal_root.with_name(f"{journal_root.name}.collected")


class Status(msgspec.Struct):
    """What a collector sees. What is counted is counted since it began."""

    url: str
    recorders: int = 0  # whose segments it takes
    # segments that are not in the log, of those recorders and of some that nobody has taken
    waiting: int = 0
    oldest_s: float | None = None  # when the oldest of them was put into the bucket
    segments: int = 0
    size_bytes: int = 0
    problems: dict[str, str] = {}  # by recorder; of the bucket itself under its URL
    noted_s: float = 0.0  # when this was written down

    @property
    def lag_s(self) -> float:
        """Return the age of the oldest segment that is not in the log."""
        return max(0.0, time.time() - self.oldest_s) if self.oldest_s is not None else 0.0


def write_status(root: Path, status: Status) -> None:
    """Leave the status for `recorder doctor`. Raise `OSError`."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = root / f"{STATUS}{PARTIAL}"
    partial.write_bytes(msgspec.json.encode(msgspec.structs.replace(status, noted_s=time.time())))
    partial.rename(root / STATUS)


def drop_status(root: Path) -> None:
    """Remove the status: this collector ends, and that is not a problem."""
    (root / STATUS).unlink(missing_ok=True)


def read_status(root: Path) -> Status | None:
    """Return what the last collector of this machine left; None if there was none."""
    try:
        return msgspec.json.decode((root / STATUS).read_bytes(), type=Status)
    except (OSError, msgspec.DecodeError):
        return None
