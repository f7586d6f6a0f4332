"""`recorder import`: streams that were stored elsewhere, and our own exports, as sessions of the log."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import click
from rich.console import Console
from rich.progress import track
from sqlalchemy import URL

from recorder.cassettes import SIZE_LIMIT, Cassette, Names
from recorder.cassettes.content import HEAD_BYTES, Format, formats
from recorder.cassettes.foreign import Foreign, Request, read_request
from recorder.cassettes.har import Har
from recorder.cassettes.jsonl import Jsonl
from recorder.cassettes.sse_jsonl import SseJsonl
from recorder.commands.database import chosen_url, database_option, journal_root
from recorder.commands.intake import Intake
from recorder.commands.output import echo, safe_text
from recorder.dialects import DIALECTS
from recorder.errors import RecorderError, StoreError, UsageError
from recorder.events import Session
from recorder.grouping import cleaned
from recorder.store import Store
from recorder.transports.recording import new_id

STDIN = Path("-")
BLOCK_BYTES = 2**20  # of a pipe, read at a time
BUSY_S = 2.0  # a locked database is tried again for as long as it takes, and Ctrl-C waits for one try at most
NAMES = Names(new_id, time.time_ns)

_ENDING = re.compile(r"(?<=.)(?:\.chunks|\.sse(?=\.jsonl$))?\.[^.]*$")
_SELF_CONTAINED: Mapping[Format, Callable[[BinaryIO], Cassette]] = {"jsonl": Jsonl, "cassette": SseJsonl, "har": Har}


class Wanted(NamedTuple):
    """What the user said about the files."""

    format: str
    dialect: str | None
    request: Request | None
    session: str | None


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format",
    type=click.Choice(["auto", "sse", "payloads", "json", "jsonl", "cassette", "har"]),
    default="auto",
    show_default=True,
    help="sse: the body of an event stream. payloads: the JSON of one event a line. json: a body that is one document. "
    "jsonl, cassette: what `recorder export` wrote. har: what a browser saved. auto: by the content.",
)
@click.option(
    "--dialect", type=click.Choice([dialect.name for dialect in DIALECTS]), help="The API. [default: by the content]"
)
@click.option(
    "--request",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The request, as JSON: an object with method, url, headers and body, or the body alone. For one FILE.",
)
@click.option("--session", metavar="NAME", help="One session for all files. [default: one each, named like the file]")
@database_option
def command(
    db: str | None, files: Sequence[Path], format: str, dialect: str | None, request: Path | None, session: str | None
) -> None:
    """Enter stored streams into the log: each FILE, or `-` for stdin, becomes a session named like it.

    Bodies are kept byte for byte. When events came say our own exports, cassettes and HAR files; of all others the
    times are made up, one event every 10 ms. The origin of what was imported is `import`. A file that cannot be read
    is named and passed over.

    \b
    recorder import body.sse
    recorder import run.sse.jsonl
    recorder import fixtures/*.chunks.txt --dialect openai-responses --session fixtures
    recorder export latest | recorder import - --session copy --db other.db
    """
    if request is not None and len(files) > 1:
        raise UsageError("--request says what one response answers: give one FILE with it.")
    name = cleaned(session)
    if session is not None and name is None:
        raise UsageError("--session needs a name that can be seen.")
    wanted = Wanted(format, dialect, _request(request) if request else None, name)
    if not _import(chosen_url(db), files, wanted):
        sys.exit(1)


def _request(path: Path) -> Request:
    try:
        return read_request(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"--request {path} cannot be read: {_reason(error)}.") from error


def _import(url: URL, files: Sequence[Path], wanted: Wanted) -> bool:
    """Enter what can be read; returns whether that was all."""
    made = _Sessions(wanted.session)
    read = events = 0
    with Store(url, BUSY_S) as store, Intake(store, journal_root(url)) as intake:
        for path in _with_progress(files):
            try:
                with _opened(path) as file:
                    cassette = _cassette(file, wanted)
                    intake.take(cassette.entries(made.session(cassette, path), NAMES))
            except (OSError, RecorderError) as error:
                if isinstance(error, StoreError):
                    raise
                echo(safe_text(f"{_shown(path)} is passed over: {_reason(error)}."))
                continue
            read += 1
            events += cassette.events
    if read:
        echo(f"{_count(read, 'file')} imported: {_count(made.count, 'session')}, {_count(events, 'event')}.")
    return read == len(files)


class _Sessions:
    """The sessions that files become: one each, or one for all."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._shared: Session | None = None
        self.count = 0

    def session(self, cassette: Cassette, path: Path) -> Session:
        if self._shared is not None:
            return self._shared
        self.count += 1
        session = cassette.session(self._name or _own_name(cassette, path), NAMES)
        if self._name:
            self._shared = session
        return session


def _own_name(cassette: Cassette, path: Path) -> str:
    """The name of a file without its ending. What came through a pipe has none, but may say one itself."""
    said = getattr(cassette, "name", None)
    return cleaned(said or "stdin" if path == STDIN else _ENDING.sub("", path.name)) or "import"


def _cassette(file: BinaryIO, wanted: Wanted) -> Cassette:
    """What a file holds. Raises `RecorderError`, whose message is why not."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        raise RecorderError("it is empty")
    if size > SIZE_LIMIT:
        raise RecorderError(f"it is over {SIZE_LIMIT // 2**30} GiB, far more than any stream: split it")
    file.seek(0)
    likely = formats(file.read(HEAD_BYTES)) if wanted.format == "auto" else (cast(Format, wanted.format),)
    if not likely:
        raise RecorderError("it is no stream of server-sent events, no JSON, and no export of recorder")
    for format in likely[:-1]:
        with contextlib.suppress(RecorderError):
            return _read_as(format, file, wanted)
    return _read_as(likely[-1], file, wanted)


def _read_as(format: Format, file: BinaryIO, wanted: Wanted) -> Cassette:
    if format in _SELF_CONTAINED:
        return _SELF_CONTAINED[format](file)
    return Foreign(file, format, wanted.dialect, wanted.request)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file that can be read twice; what comes through a pipe is one for as long as it is needed."""
    with contextlib.ExitStack() as stack:
        file: BinaryIO = sys.stdin.buffer if path == STDIN else stack.enter_context(path.open("rb"))
        if not file.seekable():
            pipe, file = file, cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile()))
            left = SIZE_LIMIT + 1
            while left > 0 and (block := pipe.read(min(left, BLOCK_BYTES))):
                file.write(block)
                left -= len(block)
        yield file


def _with_progress(files: Sequence[Path]) -> Iterable[Path]:
    """The files, with a bar on a terminal if there are many to wait for."""
    if len(files) == 1 or not sys.stderr.isatty():
        return files
    return track(files, "Importing", console=Console(stderr=True), transient=True)


def _shown(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


def _reason(error: Exception) -> str:
    """Why, to be read after a colon."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said.rstrip(".")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
