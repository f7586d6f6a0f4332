"""`recorder run`: records one command, or answers it from a recording, without a separate server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from recorder.cassettes import SUFFIX
from recorder.commands.clients import child
from recorder.commands.clients.codex import named
from recorder.commands.clients.files import FILES
from recorder.commands.clients.presets import ALIASES, program, refuse_undecided
from recorder.commands.clients.shim import codex_providers
from recorder.commands.replay import speed_option
from recorder.commands.serving.answering import Answering, resembled
from recorder.commands.serving.forking import Fork, ForkTerms
from recorder.commands.serving.listening import upstream_option
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.recording import (
    Durability,
    content_option,
    durability_setting,
    levels_of,
)
from recorder.commands.serving.replaying import MISMATCH, ReplayTerms, replaying
from recorder.commands.serving.run_report import EndedCommand, report, say
from recorder.commands.serving.running import Destinations, destinations, recorded_command
from recorder.commands.terminal.options import FILE, database_option, flag
from recorder.commands.terminal.output import log_to_stderr
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.commands.terminal.session_names import new_name
from recorder.errors import UsageError
from recorder.model.events import Recording
from recorder.model.text import counted, enumerated, safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.http.server_capacity import raise_limit
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.proxy.routing import Upstream
from recorder.recordings.names import is_file
from recorder.replay.edit import Edit, parse_edit
from recorder.replay.egress_guard import Refused
from recorder.store.location import chosen_url
from recorder.wire.content import Level
from recorder.wire.grouping.rules import cleaned

PROGRAM_LIMIT = 80  # characters of a program's name in that of a session
LISTED = 10  # recordings that a replay did not use

_OF_REPLAYS = ("speed", "strict", "allow_network", "until", "then", "model", "edit")
# a fork has a strict matcher, and reaches the network
_OF_PURE_REPLAYS = ("strict", "allow_network")
_OF_FORKS = ("until", "model", "edit")
_OF_RECORDINGS = ("session", "cassette", "upstream", "content")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--session", metavar="NAME", help="Record into the session of this name. [default: a new one]"
)
@click.option(
    "--cassette",
    metavar="FILE",
    type=FILE,
    help="Also write the recording to a cassette (.sse.jsonl). An existing one is replaced only if CMD succeeds and no "
    "exchange broke off.",
)
@click.option(
    "--replay", metavar="SESSION|FILE", help="Record nothing; answer from this session or cassette."
)
@speed_option("In a replay: a factor on the original speed, or max.")
@flag(
    "--strict",
    help="In a replay: use each recording once, and exit with 5 if CMD succeeds without using all of them.",
)
@flag(
    "--allow-network",
    help="In a replay: let CMD reach other hosts. Without it, requests through a proxy variable are refused.",
)
@click.option(
    "--until",
    metavar="N",
    type=click.IntRange(min=0),
    help="With --then: replay turns 1 to N only, which are requests to a model; 0 is none. [default: all]",
)
@click.option(
    "--then",
    type=click.Choice(["live"]),
    help="Fork: answer requests that equal a recorded one, and ask the upstream for the others. All of it is recorded "
    "as one new session, which names its parent.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="With --then: the model of the live requests, in place of CMD's own.",
)
@click.option(
    "--edit",
    metavar="N=TEXT",
    multiple=True,
    help="With --then: answer turn N with this text, with a call "
    '(N.call=\'{"name": …, "arguments": {…}}\'), or with an error (N.status=529). May be repeated.',
)
@flag(
    "--no-websocket",
    help="Refuse WebSocket with a 426, also in a replay; Codex is set to HTTP and SSE.",
)
@upstream_option
@content_option
@durability_setting
@network_settings
@database_option
@click.pass_context
def command(
    ctx: click.Context,
    db: str | None,
    words: tuple[str, ...],
    session: str | None,
    cassette: Path | None,
    replay: str | None,
    speed: float | None,
    strict: bool,
    allow_network: bool,
    until: int | None,
    then: str | None,
    model: str | None,
    edit: tuple[str, ...],
    no_websocket: bool,
    upstream: list[Upstream],
    content: Sequence[tuple[str, Level]],
    durability: Durability,
    network: Network,
) -> None:
    """Run CMD, and record its requests to streaming APIs through a proxy on a free port.

    OpenAI, Anthropic and Google SDKs, LangChain, Claude Code and Gemini CLI read variables that are
    set for CMD, as the SDK of a company does that --upstream names. If one of them has an address
    already, that becomes the upstream; so does COPILOT_PROVIDER_BASE_URL of Copilot CLI. Codex gets
    arguments, also in scripts, and is recorded from the server that it uses by itself: OpenAI,
    ChatGPT, or a provider of its settings. The exit code is that of CMD. In a replay it is 5 if CMD
    succeeds although a request was not recorded, or an API was called past the replay. Unused
    recordings are listed.

    \b
    recorder run -- python app.py
    recorder run --session weather -- codex exec "what is the weather?"
    recorder run --cassette tests/cassettes/app.sse.jsonl -- python app.py
    recorder run --replay weather --speed max -- codex exec "what is the weather?"
    recorder run --replay latest --then live -- python app.py
    recorder run --replay latest --then live --edit 2="No." -- python app.py
    """
    log_to_stderr()
    _refuse_idle(ctx, replay, is_fork=then is not None)
    _refuse_name(cassette)
    edits = _edits(edit)
    if (code := child.refusal(words, os.environ)) is not None:
        sys.exit(code)
    refuse_undecided(words, os.environ)
    if replay is not None and then is None:
        names, _ = named((), (), codex_providers(words))
        options: dict[str, Any] = {
            "strict": strict,
            "allow_network": allow_network,
            "websocket": not no_websocket,
        }
        sys.exit(server.run(_replay(words, db, replay, names, speed=speed, **options)))
    name = _name(session, words)
    places = destinations(words, upstream, network)
    options = {"durability": durability, "websocket": not no_websocket, "network": network}
    options["levels"] = levels_of(content)
    terms = (
        None
        if then is None or replay is None
        else ForkTerms(replay, _is_file(replay), until, speed, model, edits)
    )
    sys.exit(server.run(_record(words, db, name, cassette, places, terms, **options)))


def _refuse_idle(ctx: click.Context, replay: str | None, *, is_fork: bool) -> None:
    """Refuse options that have no effect.

    Settings of files and variables are for other runs, too.
    """

    def given(names: Iterable[str]) -> list[str]:
        typed = (
            name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        )
        return [f"--{name.replace('_', '-')}" for name in typed]

    if replay is None:
        if idle := given(_OF_REPLAYS):
            raise UsageError(
                f"{idle[0]} is for a replay: name a recording with --replay, or leave it out."
            )
    elif not is_fork:
        if idle := given(_OF_FORKS):
            raise UsageError(f"{idle[0]} is for a fork: give --then live with it, or leave it out.")
        if idle := given(_OF_RECORDINGS):
            raise UsageError(
                f"--replay records nothing: leave {' and '.join(idle)} out, or go on with --then live."
            )
    elif idle := given(_OF_PURE_REPLAYS):
        raise UsageError(
            f"A fork asks the upstream for what is not recorded: leave {' and '.join(idle)} out."
        )


def _edits(given: Iterable[str]) -> list[Edit]:
    """Return the edits. Raises `UsageError` if one cannot be read, or two are of one turn."""
    edits: dict[int, Edit] = {}
    for each in given:
        try:
            edit = parse_edit(each)
        except ValueError as error:
            raise UsageError(f"--edit: {error}") from None
        if edit.turn in edits:
            raise UsageError(f"--edit {edit.turn} is given twice: a turn has one answer.")
        edits[edit.turn] = edit
    return list(edits.values())


def _refuse_name(cassette: Path | None) -> None:
    """Refuse a file name that does not look like a cassette."""
    if cassette is not None and not cassette.name.endswith(SUFFIX):
        raise UsageError(
            f"--cassette {cassette} is not the name of a cassette: give one that ends in {SUFFIX}; "
            "`recorder export` writes other formats."
        )


def _name(session: str | None, words: Sequence[str]) -> str:
    """Return the name of the session; a unique one if none is given."""
    if session is None:
        called = (cleaned(program(words)) or "run")[:PROGRAM_LIMIT]
        return f"{called}-{time.strftime('%Y%m%d-%H%M%S')}-{new_id()[-4:]}"
    return new_name(session)


async def _record(
    words: Sequence[str],
    db: str | None,
    name: str,
    cassette: Path | None,
    places: Destinations,
    terms: ForkTerms | None,
    **options: Any,
) -> int:
    """Run the command and record it."""
    url, began_ns, found = chosen_url(db), time.time_ns(), raise_limit()
    fork = None if terms is None else await Fork.load(db, terms, name, places.upstreams)
    before = places.lines if fork is None else [*places.lines, fork.extent()]
    recorded = RecordingTransport if fork is None else fork.transport
    options = {"recorded": recorded, "before": before, **options}
    async with recorded_command(url, words, name, places, **options) as (proxy, command):
        code = await child.run(command.words, command.environment, descriptors=found)
    for line in (*_refusals(proxy), *(_followed(fork) if fork is not None else ())):
        say(line)
    if not proxy.forwarded:
        what = "no other request" if proxy.refused else "no request"
        client = program(words) if program(words) in (*FILES, *ALIASES) else "CLIENT"
        say(
            f"Nothing was recorded: the command sent {what} here. `recorder env {client}` shows how to point one."
        )
        return code
    return await report(url, EndedCommand(name, began_ns, proxy.forwarded, code), cassette, fork)


async def _replay(
    words: Sequence[str],
    db: str | None,
    source: str,
    names: dict[str, str],
    *,
    speed: float | None,
    strict: bool,
    allow_network: bool,
    websocket: bool,
) -> int:
    sessions, cassettes = ([], [Path(source)]) if _is_file(source) else ([source], [])
    held = await loader(db).answers(sessions, cassettes)
    make_proxy, found = partial(Proxy, websocket=websocket), raise_limit()
    answering = Answering(
        held, match_rules("position"), speed=speed, strict=strict, make_proxy=make_proxy
    )
    terms = ReplayTerms(names, allow_network, websocket)
    async with replaying(words, held, answering.proxy, terms) as (command, refusing):
        code = await child.run(command.words, command.environment, descriptors=found)
    seen, unused, outside = answering.seen(), answering.unused(), refusing.refused()
    past = outside.past({each.upstream for each in seen})
    for line in (
        *_refusals(answering.proxy),
        *answering.summary(),
        *_named(unused),
        *_went_past(outside, past),
    ):
        say(line)
    differs = any(each.how == "miss" for each in seen) or past or (strict and unused)
    return MISMATCH if code == 0 and differs else code


def _went_past(outside: Refused, past: Sequence[str]) -> Iterator[str]:
    """Yield the hosts that clients tried to reach past the replay: APIs first, then others, for
    example for updates.
    """
    if past:
        yield (
            f"Requests that bypassed the replay were refused: {', '.join(past)}. A client has its address from "
            "elsewhere (`recorder env CLIENT`); --allow-network lets it through."
        )
    if others := [host for host in outside.hosts if host not in past]:
        yield f"Also refused in this replay: {enumerated(others, LISTED)}."


def _refusals(proxy: Proxy) -> Iterator[str]:
    """Yield refused requests, for example for a WebSocket: SDKs hide our answer to them."""
    for count, message in proxy.refused.values():
        yield safe_text(f"Refused, and not recorded: {counted(count, 'request')}. {message}")


def _is_file(source: str) -> bool:
    """Return whether this is a file, or looks like a path."""
    return is_file(source) or source.endswith((SUFFIX, os.sep))


def _followed(fork: Fork) -> Iterator[str]:
    """Yield lines on what was answered by a recording that is not the same, and on recordings that
    nothing used.
    """
    yield from resembled(fork.followed.seen())
    yield from _named(fork.followed.unused())


def _named(unused: Sequence[Recording]) -> Iterator[str]:
    """Yield a line for each unused recording."""
    for each in unused[:LISTED]:
        request = each.request
        yield safe_text(
            f"Not asked for: {each.name}, {request.method} {request.target} ({request.upstream})."
        )
    if len(unused) > LISTED:
        yield f"And {len(unused) - LISTED} more."
