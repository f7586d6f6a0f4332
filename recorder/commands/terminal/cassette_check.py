"""`recorder lint --cassette`: cassettes as files of a repository."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from recorder.cassettes.sse_jsonl import CASSETTE_LIMIT, TOO_LARGE
from recorder.cassettes.sse_jsonl.check import findings
from recorder.commands.terminal.files import SkippedFiles
from recorder.commands.terminal.output import FOUND, write_line
from recorder.errors import UsageError
from recorder.model.text import safe_text
from recorder.recordings.files import opening


def check(paths: Iterable[str], format: str) -> None:
    """Print the findings in files; exit if there is one, or if a file cannot be read."""
    if format != "table":
        raise UsageError("--cassette prints a line for each finding, and no JSON.")
    found, skipped = 0, SkippedFiles()
    for path in map(Path, paths):
        with skipped.over(path), opening(path) as file:
            for finding in _findings(file):
                found += 1
                write_line(safe_text(f"{path}: {finding}"))
    skipped.close()
    if found:
        sys.exit(FOUND)


def _findings(file: BinaryIO) -> list[str]:
    if os.fstat(file.fileno()).st_size > CASSETTE_LIMIT:
        return [str(TOO_LARGE)]
    return findings(file)
