"""`recorder export`: a session on stdout, as text to be imported again or as its bare bodies; a log as Parquet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import click
from click.core import ParameterSource

from recorder.commands import replay
from recorder.commands.terminal import settings
from recorder.commands.terminal.catch_up import current_url, wait_option
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.otlp import otlp_options, write_otlp
from recorder.commands.terminal.output import echo, write_bytes
from recorder.commands.terminal.progress import progress_bar
from recorder.commands.terminal.selection import EXCHANGE_HELP, say_if_stale, select
from recorder.commands.terminal.times import Instant
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.model.events import BODY_KINDS, LATEST, Session
from recorder.model.jsonl import closing_line, event_line, exchange_line, opening_line
from recorder.model.recording import MemoryBudget, Recording
from recorder.model.text import counted
from recorder.recordings.loader import load_exchanges
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.wire.recording import require_answerable
from recorder.wire.turns import is_connection

_BY_ROWS = "--format jsonl writes it row by row"


@click.command()
@click.argument("source", metavar="SESSION|DIR", shell_complete=session_names)
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--format",
    type=click.Choice(
        ["jsonl", "cassette", "payloads", "har", "vcr", "sse", "html", "perfetto", "otlp-json", "chat", "parquet"]
    ),
    metavar="FORMAT",
    default="jsonl",
    show_default=True,
    help="jsonl: every row of the log, for `recorder import`. cassette: the same for people, git and tests, see "
    "`recorder cassette`. payloads: the JSON of one event a line. har: HAR 1.2. vcr: YAML for vcrpy and "
    "pytest-recording. sse: the bytes of the response bodies. html: the player of `recorder ui` and the session as one "
    "page, without secrets, that a browser opens without network. perfetto: a trace of the times, without texts, for "
    "ui.perfetto.dev and speedscope. otlp-json: the spans of OpenTelemetry, one line of OTLP/JSON an exchange. chat: a "
    "line of messages for each conversation, for fine-tuning and evals. parquet: the views of all sessions, as files "
    "in DIR.",
)
@click.option("--exchange", metavar="N|ID", help=EXCHANGE_HELP)
@click.option("--allow-gaps", is_flag=True, help="With sse: also bodies of which some bytes were not kept.")
@otlp_options
@click.option(
    "--since",
    type=Instant(),
    metavar="7d|DATE",
    help="With parquet: only the days (UTC) since then; others in DIR remain. Give it to export again what is new.",
)
@click.option("--session", metavar="SESSION", help="With parquet: only this session.")
@click.option("--events", is_flag=True, help="With parquet: also the events, with their bytes.")
@wait_option
@database_option
@click.pass_context
def command(
    ctx: click.Context,
    db: str | None,
    source: str,
    folder: str | None,
    format: str,
    exchange: str | None,
    allow_gaps: bool,
    content: bool,
    convention: str | None,
    metrics: bool,
    since: int | None,
    session: str | None,
    events: bool,
) -> None:
    """Write SESSION (an id, the beginning of one, a name, or `latest`) to stdout; as Parquet, the whole log to DIR,
    or of SESSION alone if both are given.

    \b
    recorder export latest > run.jsonl
    recorder export latest --format cassette > run.sse.jsonl
    recorder export latest --exchange 1 --format sse > body.sse
    recorder export latest --format html > run.html
    recorder export latest --format perfetto > run.trace.json
    recorder export latest --format otlp-json > run.otlp.jsonl
    recorder export latest --format chat > run.chat.jsonl
    recorder export analysis/ --format parquet --since 7d
    recorder export latest one/ --format parquet
    """
    _require_own_options(ctx, format)
    if format == "parquet":
        session, place = _session_and_folder(source, folder, session)
        _write_parquet(db, place, since, session, events)
    elif folder is not None:
        raise UsageError(f"--format {format} writes to stdout: leave {folder} out, or write `> {folder}`.")
    elif format == "otlp-json":
        asyncio.run(write_otlp(db, source, exchange, content=content, convention=convention, metrics=metrics))
    elif format == "sse":
        chosen = {"session": source, "exchange": exchange, "allow_gaps": allow_gaps}
        ctx.invoke(replay.command, db=db, speed=None, format=format, **chosen)
    else:
        asyncio.run(_WRITERS[format](db, source, exchange))


def _require_own_options(ctx: click.Context, format: str) -> None:
    """Raise `UsageError` if the command line, not the settings, has an option that a format does not take."""
    for option in ctx.command.params:
        name = option.name or ""
        is_wrong = format not in _FORMATS_OF.get(name, (format,))
        if is_wrong and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option.opts[0]} is not for --format {format}: see `recorder export --help`.")


def _session_and_folder(source: str, folder: str | None, session: str | None) -> tuple[str | None, Path]:
    """Return the session that Parquet is limited to, if it is, and the folder. Raises `UsageError`."""
    if folder is not None:
        if session is not None:
            raise UsageError(f"{source} and --session {session} both name a session: leave one out.")
        return source, Path(folder)
    if source == LATEST:
        raise UsageError(
            "--format parquet writes files into a folder: give it behind latest, as in "
            "`recorder export latest one/ --format parquet`; ./latest is a folder of that name."
        )
    return session, Path(source)


async def _write_jsonl(db: str | None, session: str, exchange: str | None) -> None:
    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        events = 0
        write_bytes(opening_line(found))
        for _, each in chosen:
            write_bytes(exchange_line(each))
            async for event in log.events(each.session_id, each.exchange_id):
                write_bytes(event_line(event))
                events += 1
        write_bytes(closing_line(len(chosen), events))


async def _write_cassette(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.cassettes.sse_jsonl.header import header_line
    from recorder.cassettes.sse_jsonl.writer import exchange_lines

    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        write_bytes(header_line(found))
        number, numbers = 0, dict[str, int]()
        async for each in _one_by_one(log, found, chosen):
            number += 1
            for line in exchange_lines(number, each.exchange, each.events, numbers):
                write_bytes(line)


async def _write_har(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.cassettes.har.writer import har_lines, losses

    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        budget = MemoryBudget("As HAR this takes", f"name one exchange with --exchange, or {_BY_ROWS}")
        loaded = await load_exchanges(log, found, chosen, budget, keeps_events=False)
        readable = [_readable(each) for each in loaded]
        for part in har_lines(readable, was_imported=found.origin == "import"):
            write_bytes(part)
        for lost in losses(readable):
            echo(lost)


async def _write_vcr(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.cassettes.vcr import writer as vcr

    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        opening = vcr.OPENING
        async for each in _one_by_one(log, found, chosen):
            if lost := vcr.inexpressible(_readable(each)):
                echo(f"Exchange {each.number} {lost}.")
            if each.response is not None and not is_connection(each):
                write_bytes(opening + vcr.interaction(each, was_imported=found.origin == "import"))
                opening = b""
        if opening:
            raise NotFoundError(f"There is no exchange with a response in session {found.name}: VCR knows no others.")
        write_bytes(vcr.CLOSING)


async def _write_payloads(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.cassettes.plain import payload_lines

    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        written = 0
        async for each in _one_by_one(log, found, chosen):
            events = (event for event in each.events if event.kind in BODY_KINDS)
            for line in payload_lines(events, is_switched=each.is_switched):
                write_bytes(line)
                written += 1
        if not written:
            raise NotFoundError(
                f"There is no event with JSON in session {found.name}: --format sse writes what there is."
            )


async def _write_html(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.ui.html_file import html_file

    redactor = settings.redactor()
    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        write_bytes(await html_file(log, found, chosen, redactor))


async def _write_perfetto(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.ui.lanes import timeline
    from recorder.ui.perfetto import trace

    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        await say_if_stale(log)
        one = None if exchange is None else chosen[0][1].exchange_id
        async for part in trace(log, found, chosen, await timeline(log, found.session_id, one)):
            write_bytes(part)


async def _write_chat(db: str | None, session: str, exchange: str | None) -> None:
    from recorder.exports.chat.lines import ChatExport

    async with await LogReader.open(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        export = ChatExport(log, found, chosen)
        async for line in export.lines(is_one=exchange is not None):
            write_bytes(line)
        for remark in export.remarks():
            echo(remark)


def _write_parquet(db: str | None, folder: Path, since: int | None, only: str | None, with_events: bool) -> None:
    from recorder.exports.parquet.export import Selection, export

    selection = Selection(asyncio.run(_session_id(db, only)), since, with_events)
    with progress_bar("Exporting", len(selection.datasets())) as move:
        done = export(current_url(db), folder, selection, time.time_ns(), lambda part: move(advance=part))
    echo(f"{counted(done.rows, 'row')} of {counted(done.days, 'day')} in {done.datasets} datasets: {folder}")
    if done.open:
        echo(f"{counted(done.open, 'exchange')} had not ended: export the day again later.")


async def _session_id(db: str | None, ref: str | None) -> str | None:
    """Return the id of the session to which an export is limited, before DuckDB opens the log: never both at once."""
    async with await LogReader.open(current_url(db)) as log:
        await say_if_stale(log)
        return None if ref is None else (await log.session(ref)).session_id


async def _one_by_one(log: LogReader, session: Session, chosen: Iterable[Numbered]) -> AsyncIterator[Recording]:
    """Yield recordings, of which one is held at a time. Raises `RecorderError` if one is too large."""
    for number, exchange in chosen:
        budget = MemoryBudget(f"Exchange {number} takes", _BY_ROWS)
        for recording in await load_exchanges(log, session, [(number, exchange)], budget):
            yield recording


def _readable(recording: Recording) -> Recording:
    try:
        return require_answerable(recording)
    except ValueError as error:
        raise RecorderError(f"It cannot be written in this format: {error}.") from error


_WRITERS = {
    "jsonl": _write_jsonl,
    "cassette": _write_cassette,
    "payloads": _write_payloads,
    "har": _write_har,
    "vcr": _write_vcr,
    "html": _write_html,
    "perfetto": _write_perfetto,
    "chat": _write_chat,
}

_FORMATS_OF = {
    **dict.fromkeys(("content", "convention", "metrics"), ("otlp-json",)),
    **dict.fromkeys(("since", "session", "events"), ("parquet",)),
    "allow_gaps": ("sse",),
    "exchange": (*_WRITERS, "otlp-json", "sse"),
}
