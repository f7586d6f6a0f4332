"""The helper that forks commands: a server that has ended is seen as ended."""

from __future__ import annotations

import os
from pathlib import Path

from tests.forked import Process


def test_a_process_whose_end_was_waited_for_is_not_alive(tmp_path: Path) -> None:
    """Many, since for a moment after the end a wrong answer is possible."""
    out = tmp_path / "out"
    out.touch()
    for _ in range(20):
        process = Process(["--version"], os.environ, tmp_path, (str(out), str(out)))
        assert (process.wait(60), process.poll()) == (0, 0)
