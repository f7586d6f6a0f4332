"""Files that a command reads one after another: one that cannot be read is named, and the others
are read.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from recorder.commands.terminal.output import echo
from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.model.text import safe_text
from recorder.recordings.files import reason, shown


class SkippedFiles:
    """The files that could not be read, each named on stderr, and the exit code that they cause."""

    def __init__(self) -> None:
        self._codes: set[int] = set()

    @contextlib.contextmanager
    def over(self, path: Path) -> Iterator[None]:
        """Skip the file if the block cannot read it.

        An error of the database is raised: it is not a fault of the file.
        """
        try:
            yield
        except StoreError:
            raise
        except (NotFoundError, UsageError) as error:  # there is no such file
            self._add(error.exit_code, str(error))
        except (OSError, RecorderError) as error:
            is_opening = isinstance(error.__cause__, OSError)  # then it is a whole sentence
            sentence = (
                str(error) if is_opening else f"{shown(path)} is passed over: {reason(error)}."
            )
            self._add(RecorderError.exit_code, sentence)

    def line(self, path: Path, number: int, why: str) -> None:
        """Name a line that was left out of a file."""
        self._add(RecorderError.exit_code, f"{shown(path)}:{number} is skipped: {why}.")

    def close(self) -> None:
        """Exit with the code that all skipped files have in common, if there are any; else with
        that of an error.
        """
        if self._codes:
            sys.exit(self._codes.pop() if len(self._codes) == 1 else RecorderError.exit_code)

    def _add(self, code: int, sentence: str) -> None:
        self._codes.add(code)
        echo(safe_text(sentence))
