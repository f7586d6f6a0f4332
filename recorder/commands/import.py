"""`recorder import`: foreign streams and our own exports, added to the log as sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click
from sqlalchemy import URL

from recorder.cassettes import Cassette, Entry
from recorder.cassettes.content import Format
from recorder.cassettes.plain import DOCUMENT_LIMIT, PlainRequest, read_request
from recorder.cassettes.transcripts import Transcript
from recorder.commands.serving.history import LeftOut, TranscriptHistory, transcripts_in
from recorder.commands.serving.intake import Intake
from recorder.commands.terminal.files import SkippedFiles
from recorder.commands.terminal.options import database_option, json_options
from recorder.commands.terminal.output import echo, write_json
from recorder.commands.terminal.progress import Update, progress_bar
from recorder.commands.terminal.session_names import NEVER_FOUND, new_name
from recorder.errors import RecorderError, UsageError
from recorder.model.events import LATEST, Session
from recorder.model.text import counted, safe_text
from recorder.recordings.files import NAMES, cassette_in, opened, opening, own_name, reason, shown
from recorder.store.location import chosen_url, journal_root
from recorder.store.write.writer import Store
from recorder.wire.dialects import DIALECTS, names

LISTED = 20  # sessions that are named: what fits a terminal
MOVE_BYTES = 64 * 2**10  # between two moves of the bar, which take longer than an event
# a locked database is tried again for as long as it takes, and Ctrl-C waits for one try at most
BUSY_S = 2.0


class Wanted(NamedTuple):
    """The options for the files of one import."""

    format: str
    dialect: str | None
    request: PlainRequest | None
    session: str | None


def _known(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Return the name of a dialect: also one of the settings, which are read when the command is
    known.
    """
    if name is not None and name not in names():
        raise click.BadParameter(f"{name!r} is not one of {', '.join(names())}.", context, option)
    return name


@click.command()
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
)
@click.option(
    "--format",
    type=click.Choice(["auto", *get_args(Format)]),
    metavar="FORMAT",
    default="auto",
    help="sse: the body of an event stream. payloads: the JSON of one event a line. json: a body that is one document. "
    "jsonl, cassette: what `recorder export` wrote. har: what a browser saved. vcr: YAML or JSON of vcrpy. "
    "cassetter: its YAML or TOML. litellm: payloads of its logs. claude-tap: its trace, lines or a bundle. "
    "ai-sdk: .devtools/generations.json of Vercel's AI SDK. claude-code, codex, gemini-cli, "
    "opencode: what the agent keeps of its sessions. auto: by the content.",
)
@click.option(
    "--dialect",
    metavar="API",
    callback=_known,
    help=f"The API: {', '.join(dialect.name for dialect in DIALECTS)}, or NAME of a table [dialect.NAME] in "
    "recorder.toml. [default: by the content]",
)
@click.option(
    "--request",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The request, as JSON: an object with method, url, headers and body, or the body alone. For one FILE.",
)
@click.option(
    "--session",
    metavar="NAME",
    help="One session for all files. [default: one each, named like the file]",
)
@json_options("A JSON array; keys are the SQL column names.", "One JSON object a line.")
@database_option
def command(
    db: str | None,
    files: Sequence[Path],
    format: str,
    dialect: str | None,
    request: Path | None,
    session: str | None,
    output: str,
) -> None:
    """Add stored streams to the log: each FILE, or `-` for stdin, becomes a session with its name.

    Of a directory, the transcripts that agents wrote of their own sessions are added: what is new
    in them, as derived, without times of bytes.

    Bodies are kept byte for byte. Our own exports, cassettes and HAR files have the times of
    events; LiteLLM, claude-tap and the AI SDK those of calls; for all others the times are made up,
    one event every 10 ms. The origin of an imported session is `import`. A file that cannot be read
    is named and skipped; the exit code is then 1, or 3 if it does not exist. --json lists each
    imported file with its session.

    \b
    recorder import body.sse
    recorder import run.sse.jsonl --json
    recorder import ~/.claude/projects ~/.codex/sessions
    recorder import fixtures/*.chunks.txt --dialect openai-responses --session all
    recorder export latest | recorder import - --session copy --db other.db
    """
    if request is not None and len(files) > 1:
        raise UsageError("--request says what one response answers: give one FILE with it.")
    name = new_name(session) if session is not None else None
    wanted, skipped = (
        Wanted(format, dialect, _request(request) if request else None, name),
        SkippedFiles(),
    )
    imported = _import(chosen_url(db), _found(files, skipped), wanted, skipped)
    if output != "table":
        write_json((each.row() for each in imported.made), output)
    elif imported.made:
        _say(imported.made)
    _say_left_out(imported.left_out)
    skipped.close()


def _found(files: Sequence[Path], skipped: SkippedFiles) -> list[Path]:
    """Return the files, with the transcripts of each directory in its place."""
    found = list[Path]()
    for path in files:
        with skipped.over(path):
            found += transcripts_in(path)
    return found


def _request(path: Path) -> PlainRequest:
    with opening(path) as file:
        try:
            return read_request(file.read(DOCUMENT_LIMIT + 1))
        except (OSError, ValueError, RecorderError) as error:
            raise UsageError(f"--request {path} cannot be read: {reason(error)}.") from error


class Made(NamedTuple):
    """A file that was read, and its session."""

    path: Path
    session: Session
    events: int

    def row(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "session_id": self.session.session_id,
            "session_name": self.session.name,
            "events": self.events,
        }


class ImportedFiles(NamedTuple):
    """What an import has added, and left out."""

    made: list[Made]
    left_out: LeftOut


def _import(
    url: URL, files: Sequence[Path], wanted: Wanted, skipped: SkippedFiles
) -> ImportedFiles:
    """Add every readable file to the log, with a progress bar on a terminal: by bytes, of all
    files.
    """
    made = list[Made]()
    sizes = [_size(path) for path in files]
    with (
        Store(url, BUSY_S) as store,
        progress_bar("Importing", sum(sizes)) as move,
        Intake(store, journal_root(url)) as intake,
    ):
        sessions = _Sessions(wanted, TranscriptHistory(store))
        for number, path in enumerate(files):
            with skipped.over(path), opened(path) as file:
                cassette = cassette_in(file, wanted.format, wanted.dialect, wanted.request)
                if isinstance(cassette, Transcript):
                    _name_lines(cassette, path, skipped)
                for each, session in sessions.of(cassette, path):
                    intake.take(_moving(each.entries(session, NAMES), move))
                    made.append(Made(path, session, each.events))
            move(completed=sum(sizes[: number + 1]))
    return ImportedFiles(made, sessions.left_out)


class _Sessions:
    """The sessions that files become, and what of transcripts becomes none."""

    def __init__(self, wanted: Wanted, history: TranscriptHistory) -> None:
        self._name, self._history = wanted.session, history
        self._shared: Session | None = None  # if all files become one
        self.left_out = LeftOut()

    def of(self, cassette: Cassette, path: Path) -> Iterator[tuple[Cassette, Session]]:
        """Yield the parts of a file, each with its session."""
        if isinstance(cassette, Transcript):
            yield from self._of_transcripts(cassette.parts(), path)
            return
        session = self._shared or _session(cassette, path, self._name)
        self._shared = session if self._name is not None else None
        yield cassette, session

    def _of_transcripts(
        self, parts: Sequence[Transcript], path: Path
    ) -> Iterator[tuple[Cassette, Session]]:
        for part in parts:
            self.left_out += self._history.leave_out(part, path)
            if part.ids:
                yield part, self._history.session(part, self._name or own_name(part, path))


def _name_lines(transcript: Transcript, path: Path, skipped: SkippedFiles) -> None:
    """Name the lines that could not be read."""
    for line in transcript.skipped[:LISTED]:
        skipped.line(path, line.number, line.reason)
    if len(transcript.skipped) > LISTED:
        echo(f"{shown(path)} has {len(transcript.skipped) - LISTED:,} more of such lines.")


def _size(path: Path) -> int:
    """Return the size of a file; 0 of what is none, or cannot be read: it is skipped later, in a
    sentence.
    """
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _moving(entries: Iterator[Entry], move: Update) -> Iterator[Entry]:
    """Yield entries, and move the bar by their bytes: about as many as they have in their file."""
    size_bytes = 0
    for entry in entries:
        yield entry
        size_bytes += len(entry.payload)
        if size_bytes >= MOVE_BYTES:
            move(advance=size_bytes)
            size_bytes = 0


def _say(made: Sequence[Made]) -> None:
    """Print how much was read, and the names of the sessions."""
    sessions = list({each.session.session_id: each.session for each in made}.values())
    events = counted(sum(each.events for each in made), "event")
    files = counted(len({each.path for each in made}), "file")
    names = [f"{safe_text(each.name)} ({each.session_id})" for each in sessions]
    if len(names) == 1:
        echo(f"{files} imported: session {names[0]}, {events}.")
        return
    echo(f"{files} imported: {counted(len(names), 'session')}, {events}:")
    for name in names[:LISTED]:
        echo(f"  {name}")
    if len(names) > LISTED:
        echo(f"  and {len(names) - LISTED:,} more; `recorder sessions` lists them, --json has all.")


def _say_left_out(left_out: LeftOut) -> None:
    """Print how many responses of transcripts are not new, or not over."""
    if left_out.known:
        echo(
            f"{counted(left_out.known, 'response')} of transcripts had been recorded or imported before."
        )
    if left_out.unsettled:
        echo(
            f"{counted(left_out.unsettled, 'response')} may still be written: import the same again in a minute."
        )


def _session(cassette: Cassette, path: Path, given: str | None) -> Session:
    name = given or own_name(cassette, path)
    if name == LATEST:
        raise UsageError(f"{shown(path)} is passed over: {NEVER_FOUND}: name it with --session.")
    return cassette.session(name, NAMES)
