"""Cassettes: text files that hold a session or a part of one, and their conversion to records of a
journal.

Must not know: the database, HTTP servers, the command line.

    sse_jsonl    our own cassette, `.sse.jsonl`, for git and tests
    jsonl        our own export: every row of the log
    har, vcr     recordings of other tools
    plain        bodies of event streams, payloads line by line, JSON documents
    content      detects the format of a file

A cassette is checked to its end before its first record is yielded: to read a file twice is cheaper
than to undo half of an import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.journal.format import Mark
from recorder.model.events import Session

SIZE_LIMIT = 2**30
"""Bytes of a file: a thousand times the largest stream we have seen. What is larger is not a
cassette but a mistake.
"""

SUFFIX = ".sse.jsonl"
"""Of our own: what git, tests and people know a cassette by."""


def refused(path: Path | str, error: OSError) -> RecorderError:
    """Return the error for a file that cannot be opened or read, the same for every purpose."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFoundError(f"There is no file {path}.")
    if isinstance(error, IsADirectoryError):
        return UsageError(f"{path} is a directory: name the files in it.")
    return RecorderError(f"The file {path} cannot be read: {error.strerror}.")


@contextmanager
def refusing(said: str) -> Iterator[None]:
    """Turn what is wrong with a part of a file inside into a `RecorderError` that says so first."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise RecorderError(f"{said}: {error}") from error


class Entry(NamedTuple):
    """The fields of a record of a journal. A request begins an exchange, an end ends it."""

    mark: Mark
    t_ns: int
    payload: bytes


class Names(NamedTuple):
    """The source of ids and times: the caller's, so that the same file can give the same entries."""

    new_id: Callable[[], str]
    now_ns: Callable[[], int]


class Cassette(Protocol):
    """A file that was checked."""

    events: int
    """How many events of response bodies it has, known when its entries were read."""

    def session(self, name: str, names: Names) -> Session:
        """Return the session of the file, under the given name and a new id."""

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield the exchanges of the file, as parts of a session."""
