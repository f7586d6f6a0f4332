"""Files that hold streams: opened whatever they come through, and read as what they are."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from recorder.cassettes import SIZE_LIMIT, Cassette, Names, refused
from recorder.cassettes.content import HEAD_BYTES, Format, formats
from recorder.cassettes.har.reader import Har
from recorder.cassettes.jsonl import Jsonl
from recorder.cassettes.plain import PlainRequest, PlainStream
from recorder.cassettes.sse_jsonl import SseJsonl
from recorder.cassettes.vcr.reader import Vcr
from recorder.commands.ui.output import echo
from recorder.errors import NotFoundError, RecorderError, StoreError, UsageError
from recorder.model.text import safe_text
from recorder.proxy.recording import new_id
from recorder.wire.grouping.rules import cleaned

STDIN = Path("-")
BLOCK_BYTES = 2**20  # of a pipe, read at a time
NAMES = Names(new_id, time.time_ns)

_ENDING = re.compile(r"(?<=.)(?:\.chunks|\.sse(?=\.jsonl$))?\.[^.]*$")
_SELF_CONTAINED: Mapping[Format, Callable[[BinaryIO], Cassette]] = {
    "jsonl": Jsonl,
    "cassette": SseJsonl,
    "har": Har,
    "vcr": Vcr,
}


def cassette_in(
    file: BinaryIO, format: str = "auto", dialect: str | None = None, request: PlainRequest | None = None
) -> Cassette:
    """What a file holds. Raises `RecorderError`, whose message is why not."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        raise RecorderError("it is empty")
    if size > SIZE_LIMIT:
        raise RecorderError(f"it is over {SIZE_LIMIT // 2**30} GiB, far more than any stream: split it")
    file.seek(0)
    likely = formats(file.read(HEAD_BYTES)) if format == "auto" else (cast(Format, format),)
    likeliest: RecorderError | None = None  # why it is not what it looks like: what a person can mend
    for each in likely:
        try:
            return _read_as(each, file, dialect, request)
        except RecorderError as error:
            likeliest = likeliest or error
    raise likeliest or RecorderError("it is no stream of server-sent events, no JSON, and no export of recorder")


def _read_as(format: Format, file: BinaryIO, dialect: str | None, request: PlainRequest | None) -> Cassette:
    if format in _SELF_CONTAINED:
        return _SELF_CONTAINED[format](file)
    return PlainStream(file, format, dialect, request)


def opening(path: Path) -> BinaryIO:
    """A file, open for reading. Raises `RecorderError`, in the same words for every command."""
    try:
        return path.open("rb")
    except OSError as error:
        raise refused(path, error) from error


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file that can be read twice; what comes through a pipe is one for as long as it is needed.

    Raises like `opening`.
    """
    with contextlib.ExitStack() as stack:
        file: BinaryIO = sys.stdin.buffer if path == STDIN else stack.enter_context(opening(path))
        if not file.seekable():
            pipe, file = file, cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile()))
            left = SIZE_LIMIT + 1
            while left > 0 and (block := pipe.read(min(left, BLOCK_BYTES))):
                file.write(block)
                left -= len(block)
        yield file


def own_name(cassette: Cassette, path: Path) -> str:
    """The name of a file without its ending. What came through a pipe has none, but may say one itself."""
    said = getattr(cassette, "name", None)
    return cleaned(said or "stdin" if path == STDIN else _ENDING.sub("", path.name)) or "import"


def shown(path: Path) -> str:
    """A path, as a person calls it."""
    return "stdin" if path == STDIN else str(path)


def reason(error: Exception) -> str:
    """Why, to be read after a colon."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said.rstrip(".")


class Passing:
    """Many files, one after another: one that cannot be read is named, and the others are read all the same."""

    def __init__(self) -> None:
        self._codes: set[int] = set()

    @contextlib.contextmanager
    def over(self, path: Path) -> Iterator[None]:
        """The work with one file. A database that refuses is no matter of the file."""
        try:
            yield
        except StoreError:
            raise
        except (NotFoundError, UsageError) as error:  # there is no such file
            self._say(error.exit_code, str(error))
        except (OSError, RecorderError) as error:
            is_opening = isinstance(error.__cause__, OSError)  # then it is a whole sentence
            said = str(error) if is_opening else f"{shown(path)} is passed over: {reason(error)}."
            self._say(RecorderError.exit_code, said)

    def close(self) -> None:
        """Exit with what all failures have in common, if there were any."""
        if self._codes:
            sys.exit(self._codes.pop() if len(self._codes) == 1 else RecorderError.exit_code)

    def _say(self, code: int, sentence: str) -> None:
        self._codes.add(code)
        echo(safe_text(sentence))
