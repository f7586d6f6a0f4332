"""`recorder export`: a session on stdout, as text to be imported again or as its bare bodies; a log as Parquet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from click.core import ParameterSource

from recorder.commands import replay
from recorder.commands.terminal.catch_up import wait_option
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.otlp import otlp_options
from recorder.commands.terminal.selection import EXCHANGE_HELP
from recorder.commands.terminal.times import Instant
from recorder.errors import UsageError
from recorder.model.events import LATEST
from recorder.program import load


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
        load("recorder.commands.formats.parquet:write")(db, place, since, session, events)
    elif folder is not None:
        raise UsageError(f"--format {format} writes to stdout: leave {folder} out, or write `> {folder}`.")
    elif format == "otlp-json":
        chosen = {"content": content, "convention": convention, "metrics": metrics}
        asyncio.run(load("recorder.commands.formats.otlp:write")(db, source, exchange, **chosen))
    elif format == "sse":
        bodies = {"session": source, "exchange": exchange, "allow_gaps": allow_gaps}
        ctx.invoke(replay.command, db=db, speed=None, format=format, **bodies)
    else:
        asyncio.run(load(_WRITERS[format])(db, source, exchange))


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


_WRITERS = {
    "jsonl": "recorder.commands.formats.jsonl:write",
    "cassette": "recorder.commands.formats.cassette:write",
    "payloads": "recorder.commands.formats.payloads:write",
    "har": "recorder.commands.formats.har:write",
    "vcr": "recorder.commands.formats.vcr:write",
    "html": "recorder.commands.formats.html:write",
    "perfetto": "recorder.commands.formats.perfetto:write",
    "chat": "recorder.commands.formats.chat:write",
}

_FORMATS_OF = {
    **dict.fromkeys(("content", "convention", "metrics"), ("otlp-json",)),
    **dict.fromkeys(("since", "session", "events"), ("parquet",)),
    "allow_gaps": ("sse",),
    "exchange": (*_WRITERS, "otlp-json", "sse"),
}
