"""`recorder export`: a session on stdout, a log as Parquet or at a collector of OpenTelemetry,
cassettes rewritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from recorder.commands import replay
from recorder.commands.formats.exchanges import ExportSource
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import flag, json_options, log_options
from recorder.commands.terminal.recordings import exchange_option, selected
from recorder.commands.terminal.times import INSTANT
from recorder.errors import UsageError
from recorder.model.events import LATEST
from recorder.program import load

TO, REWRITE = "--to", "--rewrite"

_WRITERS = {
    "jsonl": "recorder.commands.formats.lines:write_jsonl",
    "cassette": "recorder.commands.formats.lines:write_cassette",
    "payloads": "recorder.commands.formats.lines:write_payloads",
    "har": "recorder.commands.formats.har:write",
    "vcr": "recorder.commands.formats.vcr:write",
    "html": "recorder.commands.formats.html:write",
    "perfetto": "recorder.commands.formats.perfetto:write",
    "otlp-json": "recorder.commands.formats.otlp:write",
    "chat": "recorder.commands.formats.conversations:write_chat",
    "mooncake": "recorder.commands.formats.conversations:write_mooncake",
    "atif": "recorder.commands.formats.conversations:write_atif",
}
_OPTIONS = {
    "otlp-json": ("content", "convention", "metrics"),
    "mooncake": ("block_size", "whole_prompts"),
}
"""The options that a writer takes, by its format."""

_FORMATS = [*list(_WRITERS)[:5], "sse", *list(_WRITERS)[5:], "parquet"]

_TAKEN_BY = {
    "format": _FORMATS,
    "exchange": (*_WRITERS, "sse"),
    "allow_gaps": ("sse",),
    **dict.fromkeys(_OPTIONS["otlp-json"], ("otlp-json", TO)),
    **dict.fromkeys(_OPTIONS["mooncake"], ("mooncake",)),
    "since": ("parquet", TO),
    "anonymous": _FORMATS,
    **dict.fromkeys(("session", "events"), ("parquet",)),
    **dict.fromkeys(("header", "follow", "json", "jsonl"), (TO,)),
}
"""The formats, or other ways to export, that take an option; one that is not here is taken by all.
"""


@click.command()
@click.argument("places", metavar="[SESSION|DIR|FILE]...", nargs=-1, shell_complete=session_names)
@click.option(
    "--format",
    type=click.Choice(_FORMATS),
    metavar="FORMAT",
    default="jsonl",
    help="jsonl: every row of the log, for `recorder import`. cassette: the same for people, git and tests, see "
    "docs/cassettes.md. payloads: the JSON of one event a line. har: HAR 1.2. vcr: YAML for vcrpy and "
    "pytest-recording. sse: the bytes of the response bodies. html: the player of `recorder ui` and the session as one "
    "page, without secrets, that a browser opens without network. perfetto: a trace of the times, without texts, for "
    "ui.perfetto.dev and speedscope. otlp-json: the spans of OpenTelemetry, one line of OTLP/JSON an exchange. chat: a "
    "line of messages for each conversation, for fine-tuning and evals. mooncake: a line of lengths, gaps and shared "
    "prefixes for each request, without texts, for AIPerf and Dynamo; an input whose tokens nobody reported is "
    "estimated. atif: a line of steps for each agent, for Harbor. parquet: the views of all sessions, as files in DIR.",
)
@exchange_option
@flag("--allow-gaps", help="With sse: also bodies of which some bytes were not kept.")
@click.option(
    "--to",
    metavar="[URL]",
    is_flag=False,
    flag_value="",
    help="Send the log to the collector of OpenTelemetry at URL, by OTLP over HTTP: once, however often this is "
    "called. URL is as in OTEL_EXPORTER_OTLP_ENDPOINT, which is the default. A fragment of URL is not sent: it tells "
    "collectors apart which only a header does.",
)
@click.option(
    "--header",
    metavar="NAME=VALUE",
    multiple=True,
    help="With --to: send this header too. Other users of the machine may see it; OTEL_EXPORTER_OTLP_HEADERS is not "
    "shown to them.",
)
@flag("--follow", help="With --to: go on with what is recorded, until interrupted.")
@flag(
    "--content",
    help="OpenTelemetry: also texts of requests, responses and tools, which may be private. Without it none is "
    "written.",
)
@click.option(
    "--convention",
    metavar="VERSION",
    help="OpenTelemetry: the version of the semantic conventions that names are of, 1.41.0 (default) or 1.37.0. A "
    "collector gets each for itself, and so spans with content.",
)
@click.option(
    "--metrics/--no-metrics",
    default=None,
    help="OpenTelemetry: one line of metrics in place of spans. With --to the metrics of tokens and times are sent "
    "besides spans, or not.",
)
@click.option(
    "--since",
    type=INSTANT,
    metavar="7d|DATE",
    help="With parquet: only the days (UTC) since then; others in DIR remain. Give it to export again what is new. "
    "With --to: only what began since then.",
)
@click.option("--session", metavar="SESSION", help="With parquet: only this session.")
@flag(
    "--anonymous",
    help="As one may publish it: each text, argument and result is filler of the same length, made with a key that is "
    "thrown away; names, ids, paths and hosts are others. Types, models, names of tools, times and counts stay.",
)
@flag("--events", help="With parquet: also the events, with their bytes.")
@flag(
    "--rewrite",
    help="Rewrite each cassette FILE in its canonical form, in place: headers are redacted, exchanges numbered from 1. "
    "A file is replaced as a whole or not at all; one that cannot be read is named and skipped, and the exit code is "
    "1, or 3 if it does not exist.",
)
@click.option(
    "--block-size",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="With mooncake: the tokens of a block of a prompt, 512 unless given; `--isl-block-size` of AIPerf.",
)
@flag(
    "--whole-prompts",
    help="With mooncake: input_length and hash_ids of whole prompts, for programs that take each line by itself. "
    "Without it a line has what its turn adds, since AIPerf puts the turns of a session_id together.",
)
@json_options(
    "With --to: what was sent, an array with one object.", "With --to: what was sent, as one line."
)
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    db: str | None,
    places: Sequence[str],
    format: str,
    output: str,
    **options: Any,
) -> None:
    """Write SESSION (an id, the beginning of one, a name, or `latest`, or a file that
    `recorder import` reads) to stdout; as Parquet, the whole log to DIR, or of SESSION alone if
    both are given; with --to send the log to a collector.

    \b
    recorder export latest > run.jsonl
    recorder export latest --format cassette > run.sse.jsonl
    recorder export latest --exchange 1 --format sse > body.sse
    recorder export latest --format html > run.html
    recorder export latest --format cassette --anonymous > shared.sse.jsonl
    recorder export latest --format perfetto > run.trace.json
    recorder export latest --format otlp-json > run.otlp.jsonl
    recorder export latest --format chat > run.chat.jsonl
    recorder export latest --format mooncake > run.mooncake.jsonl
    recorder export latest --format atif > trajectory.json
    recorder export analysis/ --format parquet --since 7d
    recorder export latest one/ --format parquet
    recorder export --to http://127.0.0.1:4318 --follow
    recorder export --rewrite *.sse.jsonl
    """
    way = _way(ctx, places, format)
    _require_own_options(ctx, way)
    if not places and way != TO:
        raise UsageError(
            "Which SESSION? `recorder export latest`; --to sends the whole log to a collector."
        )
    if way == TO:
        names = ("content", "convention", "metrics", "since", "follow")
        chosen = {name: options[name] for name in names}
        push = load("recorder.commands.formats.collector:push")
        push(db, options["to"], options["header"], output, **chosen)
    elif way == REWRITE:
        load("recorder.commands.formats.lines:rewrite")([Path(place) for place in places])
    elif way == "parquet":
        session, folder = _session_and_folder(places, options["session"])
        write = load("recorder.commands.formats.parquet:write")
        write(db, folder, options["since"], session, options["events"], options["anonymous"])
    elif len(places) > 1:
        raise UsageError(
            f"--format {format} writes to stdout: leave {places[1]} out, or write `> {places[1]}`."
        )
    elif options["anonymous"]:
        copied = load("recorder.commands.terminal.anonymous_log:anonymous_session")
        with copied(db, places[0], options["exchange"]) as (place, exchange):
            _write_session(
                ctx,
                place.url.render_as_string(),
                place.session,
                format,
                {**options, "exchange": exchange},
            )
    else:
        _write_session(ctx, db, places[0], format, options)


def _write_session(
    ctx: click.Context, db: str | None, ref: str, format: str, options: dict[str, Any]
) -> None:
    """Write a session to stdout."""
    if format == "sse":
        bodies = {name: options[name] for name in ("exchange", "allow_gaps")}
        ctx.invoke(replay.command, db=db, session=ref, speed=None, format=format, **bodies)
    else:
        asyncio.run(_write(db, ref, format, options))


def _way(ctx: click.Context, places: Sequence[str], format: str) -> str:
    """Return the format, or the other way to export that is asked for.

    A collector of the settings is the last.
    """
    to_is_typed = ctx.get_parameter_source("to") is ParameterSource.COMMANDLINE
    if ctx.params["to"] is not None and (to_is_typed or not places):
        if places:
            raise UsageError(f"--to sends the whole log: leave {places[0]} out.")
        return TO
    return REWRITE if ctx.params["rewrite"] else format


def _require_own_options(ctx: click.Context, way: str) -> None:
    """Raise `UsageError` if the command line, not the settings, has an option that is for something
    else.
    """
    for option in ctx.command.params:
        name = option.name or ""
        is_wrong = way not in _TAKEN_BY.get(name, (way,))
        if is_wrong and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            what = way if way in (TO, REWRITE) else f"--format {way}"
            raise UsageError(f"{option.opts[0]} is not for {what}: see `recorder export --help`.")


def _session_and_folder(places: Sequence[str], session: str | None) -> tuple[str | None, Path]:
    """Return the session that Parquet is limited to, if it is, and the folder.

    Raises `UsageError`.
    """
    if len(places) > 2:
        raise UsageError(f"{places[2]} is too much: give a SESSION, and the DIR for its files.")
    if len(places) == 2:
        if session is not None:
            raise UsageError(
                f"{places[0]} and --session {session} both name a session: leave one out."
            )
        return places[0], Path(places[1])
    if places[0] == LATEST:
        raise UsageError(
            "--format parquet writes files into a folder: give it behind latest, as in "
            "`recorder export latest one/ --format parquet`; ./latest is a folder of that name."
        )
    return session, Path(places[0])


async def _write(db: str | None, ref: str, format: str, options: dict[str, Any]) -> None:
    of_format = {name: options[name] for name in _OPTIONS.get(format, ())}
    write = load(_WRITERS[format])
    async with selected(db, ref, options["exchange"]) as (log, session, chosen, exchange):
        await write(ExportSource(log, session, chosen, exchange is not None), **of_format)
