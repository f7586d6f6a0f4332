"""An empty log in a file, to be copied: running all migrations takes 0.1 s of processor time, a
copy a millisecond.

`tests/integration/store/test_migrate.py` runs them, and so does each recorder that tests start
without a database.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from recorder.store.write.writer import Store


def empty(path: Path) -> Path:
    """Return `path`, where an empty log is now: as a `Store` makes it, for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_made())
    return path


@cache
def _made() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        Store(path).close()
        return path.read_bytes()
