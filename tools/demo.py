"""A recording of the demo, for pages that show what is in one, and its session as a file that
plays.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory


@cache
def database() -> Path:
    """Record the demo, once for a process.

    Return the database, which is gone when the process ends.
    """
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "demo.db"
    _recorder("demo", "--db", str(path))
    return path


def session_file() -> str:
    """Return its session as one HTML file."""
    return _recorder("export", "latest", "--format", "html", "--db", str(database()))


def _recorder(*words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "recorder", *words], check=True, capture_output=True, text=True
    )
    return ran.stdout
