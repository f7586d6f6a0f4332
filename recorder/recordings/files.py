"""Files that hold streams, of any format: opened from any kind of path, and recognized by their
content.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

from msgspec.structs import replace

from recorder.cassettes import SIZE_LIMIT, Cassette, Names, refused
from recorder.cassettes.ai_sdk import Generations
from recorder.cassettes.cassetter import Cassetter
from recorder.cassettes.claude_tap import ClaudeTap
from recorder.cassettes.content import HEAD_BYTES, Format, formats, is_wide, unread_program
from recorder.cassettes.har.reader import Har
from recorder.cassettes.jsonl import Jsonl
from recorder.cassettes.litellm import LiteLlm
from recorder.cassettes.plain import PlainRequest, PlainStream
from recorder.cassettes.sse_jsonl import SseJsonl, read_session
from recorder.cassettes.transcripts import Transcript
from recorder.cassettes.transcripts.claude_code import ClaudeCode
from recorder.cassettes.transcripts.codex import Codex
from recorder.cassettes.transcripts.gemini_cli import GeminiCli
from recorder.cassettes.transcripts.opencode import OpenCode
from recorder.cassettes.vcr.reader import Vcr
from recorder.errors import RecorderError
from recorder.model.events import MemoryBudget
from recorder.model.ids import uuid7
from recorder.recordings.memory import assembled
from recorder.recordings.names import STDIN
from recorder.recordings.session import RecordedSession
from recorder.wire.grouping.rules import cleaned

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BYTES = 2**20  # of a pipe, read at a time
_IN_A_MILLISECOND = 2**12  # ids: what has room before the random part of a UUIDv7


class IncreasingIds:
    """New ids, each after the one before: the log orders exchanges by their ids, and an import
    makes many at once.
    """

    def __init__(self) -> None:
        self._ms = self._number = 0

    def __call__(self) -> str:
        now_ms = time.time_ns() // 1_000_000
        self._number = self._number + 1 if now_ms <= self._ms else 0
        self._ms = max(now_ms, self._ms) + self._number // _IN_A_MILLISECOND
        self._number %= _IN_A_MILLISECOND
        return uuid7(self._ms * 1_000_000, self._number.to_bytes(2) + os.urandom(8))


NAMES = Names(IncreasingIds(), time.time_ns)


def _names_of(name: str) -> Names:
    """Return ids for a file that comes into no log: the same each time, so that what is shown of it
    can be compared.

    They follow from the name: two files whose spans go to one collector have others.
    """
    shared = sha256(name.encode()).digest()[:10]
    ids = (uuid7(number * 1_000_000, shared) for number in itertools.count())
    return Names(ids.__next__, time.time_ns)


_ENDING = re.compile(r"(?<=.)(?:\.chunks|\.sse(?=\.jsonl))?\.[^.]*(?:\.zst)?$")
_ZSTD = b"\x28\xb5\x2f\xfd"  # Codex compresses old rollouts so
_SELF_CONTAINED: Mapping[Format, Callable[[BinaryIO], Cassette]] = {
    "jsonl": Jsonl,
    "cassette": SseJsonl,
    "har": Har,
    "vcr": Vcr,
    "claude-tap": ClaudeTap,
    "ai-sdk": Generations,
    "cassetter": Cassetter,
    "litellm": LiteLlm,
    "claude-code": ClaudeCode,
    "codex": Codex,
    "gemini-cli": GeminiCli,
    "opencode": OpenCode,
}


def cassette_in(
    file: BinaryIO,
    format: str = "auto",
    dialect: str | None = None,
    request: PlainRequest | None = None,
) -> Cassette:
    """Return the cassette in a file. Raises `RecorderError` with the reason if it holds none."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        raise RecorderError("it is empty")
    if size > SIZE_LIMIT:
        raise RecorderError(
            f"it is over {SIZE_LIMIT // 2**30} GiB, far more than any stream: split it"
        )
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if is_wide(head):
        raise RecorderError(
            "it is UTF-16 or UTF-32, and streams are UTF-8: convert it, for example with iconv"
        )
    if format == "auto" and (program := unread_program(head)) is not None:
        raise RecorderError(f"it is a recording of {program}, which is not supported")
    likely = formats(head) if format == "auto" else (cast(Format, format),)
    likeliest: RecorderError | None = None  # of the likeliest format: what a person can mend
    for each in likely:
        try:
            if each in _SELF_CONTAINED:
                return _SELF_CONTAINED[each](file)
            return PlainStream(file, each, dialect, request)
        except RecorderError as error:
            likeliest = likeliest or error
    raise likeliest or RecorderError(
        "it is not a stream of server-sent events, no JSON, and no export of recorder"
    )


def opening(path: Path) -> BinaryIO:
    """Open a file for reading. Raises `RecorderError`, in the same words for every command."""
    try:
        return path.open("rb")
    except OSError as error:
        raise refused(path, error) from error


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that can be read twice; a pipe, or what is compressed, is copied to a temporary
    file.

    Raises like `opening`, also if the compression is damaged.
    """
    with contextlib.ExitStack() as stack:
        file: BinaryIO = sys.stdin.buffer if path == STDIN else stack.enter_context(opening(path))
        try:
            if not file.seekable():
                file = stack.enter_context(_copy(file))
            unpacked = unpacking(file)
            if unpacked is not file:
                file = stack.enter_context(_copy(unpacked))
        except OSError as error:
            raise refused(shown(path), error) from error
        yield file


def unpacking(file: BinaryIO) -> BinaryIO:
    """Return a reader of what is in a file that zstd has compressed; another file itself, at its
    beginning.
    """
    file.seek(0)
    is_compressed = file.read(len(_ZSTD)) == _ZSTD
    file.seek(0)
    return cast(BinaryIO, zstd.open(file)) if is_compressed else file


def read_unpacked(reader: BinaryIO, size_bytes: int) -> bytes:
    """Read from a file that may be compressed. Raises `OSError`, also if that is damaged."""
    try:
        return reader.read(size_bytes)
    except (EOFError, zstd.ZstdError) as error:
        raise OSError(errno.EBADMSG, "its compression is damaged") from error


@contextlib.contextmanager
def _copy(source: BinaryIO) -> Iterator[BinaryIO]:
    """Copy what can be read only once: as much as is read of any file, and one byte more."""
    with tempfile.TemporaryFile() as file:
        left = SIZE_LIMIT + 1
        while left > 0 and (block := read_unpacked(source, min(left, BLOCK_BYTES))):
            file.write(block)
            left -= len(block)
        yield cast(BinaryIO, file)


def own_name(cassette: Cassette, path: Path) -> str:
    """Return the name of a file without its ending; for a pipe the name of the session in it, or
    "stdin".

    A transcript has the name that its agent gives the session: a sub-agent's is in a file of
    another name.
    """
    if isinstance(cassette, Transcript) and cassette.name:
        name = cassette.name
    elif path != STDIN:
        name = _ENDING.sub("", path.name)
    else:
        name = cassette.name if isinstance(cassette, Jsonl | SseJsonl) else "stdin"
    return cleaned(name or "stdin") or "import"


def shown(path: Path) -> str:
    """Return a path as a person calls it."""
    return "stdin" if path == STDIN else str(path)


def reason(error: Exception) -> str:
    """Return the reason of an error, to be read after a colon."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.rstrip(".")


def load_file(path: Path) -> RecordedSession:
    """Return the session in a file of any format. Raises `RecorderError`."""
    budget = MemoryBudget(f"{shown(path)} takes", "bring it into a log with `recorder import`")
    with opened(path) as file:
        try:
            cassette = cassette_in(file)
            name = own_name(cassette, path)
            names = _names_of(name)
            session = cassette.session(name, names)
            recordings = assembled(cassette.entries(session, names), session.session_id, budget)
        except (OSError, RecorderError) as error:
            raise RecorderError(f"{shown(path)} cannot be read: {reason(error)}.") from error
    named = [replace(each, name=f"exchange {each.number} of {shown(path)}") for each in recordings]
    return RecordedSession(session, named, name=shown(path))


def load_cassette(path: Path) -> RecordedSession:
    """Return the session in a cassette, its ids as they are there.

    Raises `RecorderError` with file and line.
    """
    return RecordedSession(*read_session(path))
