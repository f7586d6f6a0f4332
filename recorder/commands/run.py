"""`recorder run`: records one command, or answers it from a recording, without a separate server."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import click
from click.core import ParameterSource
from sqlalchemy import URL

from recorder.cassettes import SUFFIX
from recorder.cassettes.sse_jsonl.writer import cassette_lines, save
from recorder.commands.clients import child, gemini
from recorder.commands.clients.codex import Doors, named, pointed
from recorder.commands.clients.presets import BASES, CODEX, KEYS, assigned, codex_place, environment, program
from recorder.commands.clients.shim import codex_provider, codex_providers, read, shim
from recorder.commands.replay import Speed
from recorder.commands.serving.answering import Answering
from recorder.commands.serving.listening import upstream_option
from recorder.commands.serving.network import NAMES, network_options
from recorder.commands.serving.recording import Durability, Ending, durability_option, recording
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.selection import new_name
from recorder.commands.terminal.settings import match_rules
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.model.events import WHOLE, Exchange, Session, has_ended
from recorder.model.recording import MemoryBudget, Recording
from recorder.model.text import counted, safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.http.server_capacity import raise_limit
from recorder.proxy.recording import new_id
from recorder.proxy.routing import Upstream, parse_upstream, recorded_upstreams
from recorder.recordings.files import is_file
from recorder.recordings.loader import load_exchanges
from recorder.replay.egress_guard import Refused, RefusingProxy
from recorder.store.location import chosen_url
from recorder.store.reader import LogReader
from recorder.store.usage import Summed, Tally
from recorder.wire.grouping.rules import cleaned
from recorder.wire.upstreams import UPSTREAMS

HOST = "127.0.0.1"
MISMATCH = 5
DRAIN_S = 60.0  # for the database to have all of it: the command has ended, nothing waits but the cassette
GRACE_S = 2.0  # for clients that the command has started, which end with it, but a moment later
PROGRAM_LIMIT = 80  # characters of a program's name in that of a session
LISTED = 10  # recordings that a replay did not use

_OF_REPLAYS = ("speed", "strict", "allow_network")
_OF_RECORDINGS = ("session", "cassette", "upstream", "durability", *NAMES)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--session", metavar="NAME", help="Record into the session of this name. [default: a new one]")
@click.option(
    "--cassette",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the recording to a cassette (.sse.jsonl). An existing one is replaced only if CMD succeeds and no "
    "exchange broke off.",
)
@click.option("--replay", metavar="SESSION|FILE", help="Record nothing; answer from this session or cassette.")
@click.option(
    "--speed",
    type=Speed(),
    metavar="1|N|max",
    default="1",
    show_default=True,
    help="In a replay: a factor on the original speed, or max.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="In a replay: use each recording once, and exit with 5 if CMD succeeds without using all of them.",
)
@click.option(
    "--allow-network",
    is_flag=True,
    help="In a replay: let CMD reach other hosts. Without it, requests through a proxy variable are refused.",
)
@click.option(
    "--no-websocket", is_flag=True, help="Refuse WebSocket with a 426, also in a replay; Codex is set to HTTP and SSE."
)
@upstream_option
@durability_option
@network_options
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
    no_websocket: bool,
    upstream: list[Upstream],
    durability: Durability,
    network: Network,
) -> None:
    """Run CMD, and record its requests to streaming APIs through a proxy on a free port.

    OpenAI, Anthropic and Google SDKs, LangChain, Claude Code and Gemini CLI read variables that are set for CMD. If one
    of them has an address already, that becomes the upstream. Codex gets arguments, also in scripts, and is recorded
    from the server that it uses by itself: OpenAI, ChatGPT, or a provider of its settings. The exit code is that of
    CMD. In a replay it is 5 if CMD succeeds although a request was not recorded, or an API was called past the replay.
    Unused recordings are listed.

    \b
    recorder run -- python app.py
    recorder run --session weather -- codex exec "what is the weather?"
    recorder run --cassette tests/cassettes/app.sse.jsonl -- python app.py
    recorder run --replay weather --speed max -- codex exec "what is the weather?"
    """
    log_to_stderr()
    _refuse_idle(ctx, replay)
    _refuse_name(cassette)
    if (code := child.refusal(words, os.environ)) is not None:
        sys.exit(code)
    gemini.refuse_undecided(words, os.environ)
    if replay is not None:
        names, _ = named((), (), codex_providers(words))
        options = {"strict": strict, "allow_network": allow_network, "websocket": not no_websocket}
        sys.exit(server.run(_replay(words, db, replay, names, speed=speed, **options)))
    name = _name(session, words)
    inherited = _inherited({each.name for each in upstream})
    names, added = named(upstream, inherited, codex_providers(words))
    if (provider := codex_provider(words)) is not None and Doors("", names).name(provider) != "openai":
        _say(f"Codex is recorded from {safe_text(provider.base)}, the server that it uses by itself.")
    upstreams = [*inherited, *added, *upstream]
    recorded = _record(
        *(words, chosen_url(db), name, cassette, names),
        upstreams=upstreams,
        durability=durability,
        websocket=not no_websocket,
        network=network,
    )
    sys.exit(server.run(recorded))


def _refuse_idle(ctx: click.Context, replay: str | None) -> None:
    """Refuse options that have no effect. Settings of files and variables are for other runs, too."""
    others = _OF_REPLAYS if replay is None else _OF_RECORDINGS
    given = [
        f"--{name.replace('_', '-')}"
        for name in others
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given and replay is None:
        raise UsageError(f"{given[0]} is for a replay: name a recording with --replay, or leave it out.")
    if given:
        raise UsageError(f"--replay records nothing: leave {' and '.join(given)} out.")


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


def _inherited(named: Iterable[str]) -> list[Upstream]:
    """Return the upstreams of this environment's variables, unless an option overrides them."""
    found = dict[str, Upstream]()
    for variable, upstream in BASES.items():
        if upstream not in (*named, *found) and (base := os.environ.get(variable)):
            try:
                found[upstream] = Upstream(upstream, parse_upstream(f"{upstream}={base}").base + "/")
            except UsageError as error:
                raise UsageError(f"The address in {variable} cannot be recorded from. {error}") from None
    return list(found.values())


@contextlib.asynccontextmanager
async def _listening(proxy: Proxy) -> AsyncIterator[str]:
    """Serve a proxy on a free port during the block; give its URL."""
    front = server.Server(proxy, HOST, 0, on_drain=proxy.shutdown, on_stop=proxy.stop)
    await front.start()
    try:
        yield f"http://{HOST}:{front.port}"
    finally:
        await front.stop(GRACE_S)


async def _run(words: Sequence[str], given: dict[str, str], doors: Doors, descriptors: int) -> int:
    """Run the command with its clients pointed at a server; Codex, which reads no variable, by arguments."""
    place = codex_place(words)
    command, variables = list(words), dict[str, str]()
    if place is not None:
        found = pointed(words[place:], assigned(words[:place], given), doors, read)
        command, variables = [*words[:place], *found.arguments], found.variables
    with shim(doors, {**environment(given, doors.url), **variables}) as whole:
        return await child.run(command, whole, descriptors=descriptors)


async def _record(
    words: Sequence[str],
    url: URL,
    name: str,
    cassette: Path | None,
    names: dict[str, str],
    *,
    websocket: bool,
    **options: Any,
) -> int:
    began_ns, found = time.time_ns(), raise_limit()
    async with recording(url, ending=Ending(DRAIN_S), websocket=websocket, **options) as proxy:
        async with _listening(proxy) as base:
            base = f"{base}/s/{quote(name, safe='')}"
            code = await _run(words, dict(os.environ), Doors(base, names, websocket=websocket), found)
    for line in _refusals(proxy):
        _say(line)
    if not proxy.forwarded:
        what = "no other request" if proxy.refused else "no request"
        _say(f"Nothing was recorded: the command sent {what} here. `recorder env CLIENT` shows how to point one.")
        return code
    async with await LogReader.open(url) as log:
        run = await _recorded(log, name, began_ns)
        if run is None:
            _say(f"Requests: {proxy.forwarded}. None is in the database, see above; `recorder db recover` looks again.")
            return code or 1
        _say(_summary(run))
        if cassette is not None and not await _save(log, run, cassette, code):
            return code or 1
    return code


def _say(line: str) -> None:
    """Print on stderr if possible: a failure must not change the exit code, which is the command's."""
    with contextlib.suppress(OSError):
        echo(line)


class _CommandRun(NamedTuple):
    """The recording of one command."""

    session: Session
    exchanges: Sequence[Exchange]
    used: Tally | None


async def _recorded(log: LogReader, name: str, began_ns: int) -> _CommandRun | None:
    try:
        session = await log.session(name)
    except NotFoundError:
        return None
    exchanges = [each for each in await log.exchanges(session.session_id) if each.started_ns >= began_ns]
    sums = {each.key[0]: each for each in await log.usage(("session",), Summed(began_ns))}
    return _CommandRun(session, exchanges, sums.get(session.session_id)) if exchanges else None


def _summary(run: _CommandRun) -> str:
    """Return one line with the session and the tokens."""
    name, count = safe_text(run.session.name), counted(len(run.exchanges), "exchange")
    line = f"Recorded session {name} ({run.session.session_id}): {count}"
    used = run.used
    if used is None or used.total_tokens is None:
        return f"{line}, no usage reported."
    return (
        f"{line}, {used.input_tokens or 0:,} input tokens{_part(used.cache_read_input_tokens, 'cached')}, "
        f"{used.output_tokens or 0:,} output tokens{_part(used.reasoning_output_tokens, 'reasoning')}."
    )


def _part(count: int | None, what: str) -> str:
    return f" ({count:,} {what})" if count else ""


async def _save(log: LogReader, run: _CommandRun, path: Path, code: int) -> bool:
    """Write the cassette; return whether it was written. An existing one is only replaced by a complete recording."""
    export = f"`recorder export {run.session.session_id} --format cassette`"
    again, budget = f"{export} writes what was recorded.", MemoryBudget("it takes", f"{export} writes it in parts")
    try:
        recordings = await load_exchanges(log, run.session, enumerate(run.exchanges, 1), budget)
    except RecorderError as error:
        _say(f"{safe_text(str(path))} is not written: {error}")
        return False
    if not all(has_ended(each.events) for each in recordings):
        _say(
            f"{safe_text(str(path))} is not written: not all is in the database yet. "
            f"After `recorder db recover`, {again}"
        )
        return False
    broken = sum(each.end is None or each.end.outcome not in WHOLE for each in recordings)
    if path.exists() and (code or broken):
        why = f"the command failed ({code})" if code else f"{broken} of {len(recordings)} exchanges broke off"
        _say(f"{safe_text(str(path))} stays as it was: {why}. {again}")
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, cassette_lines(run.session, ((each.exchange, each.events) for each in recordings)))
    except OSError as error:
        _say(f"The cassette {safe_text(str(path))} cannot be written: {error.strerror}. {again}")
        return False
    _say(f"Written to {safe_text(str(path))}.")
    return True


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
    answering, found = Answering(held, match_rules(), speed=speed, strict=strict, websocket=websocket), raise_limit()
    async with _listening(answering.proxy) as base, _refusing() as refusing:
        given = {**os.environ, **{name: "none" for name in KEYS if not os.environ.get(name)}}
        given |= {} if allow_network else refusing.variables(given)
        doors = Doors(base, names, _codex_upstreams(held), websocket)
        code = await _run(words, given, doors, found)
    seen, unused, outside = answering.seen(), answering.unused(), refusing.refused()
    past = outside.past({each.upstream for each in seen})
    for line in (*_refusals(answering.proxy), *answering.summary(), *_named(unused), *_went_past(outside, past)):
        _say(line)
    differs = any(each.how == "miss" for each in seen) or past or (strict and unused)
    return MISMATCH if code == 0 and differs else code


@contextlib.asynccontextmanager
async def _refusing() -> AsyncIterator[RefusingProxy]:
    """Run a proxy that refuses everything. It knows the API hosts of this environment's variables."""
    refusing = RefusingProxy(_had())
    await refusing.start()
    try:
        yield refusing
    finally:
        refusing.stop()


def _had() -> Iterator[tuple[str, str]]:
    """Yield the hosts in the variables of clients, each with its upstream."""
    for variable, name in BASES.items():
        with contextlib.suppress(ValueError):  # no address, which a replay does not need
            if host := urlsplit(os.environ.get(variable, "")).hostname:
                yield host, name


def _went_past(outside: Refused, past: Sequence[str]) -> Iterator[str]:
    """Yield the hosts that clients tried to reach past the replay: APIs first, then others, for example for updates."""
    if past:
        yield (
            f"Requests that bypassed the replay were refused: {', '.join(past)}. A client has its address from "
            "elsewhere (`recorder env CLIENT`); --allow-network lets it through."
        )
    if others := [host for host in outside.hosts if host not in past]:
        more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
        yield f"Also refused in this replay: {', '.join(others[:LISTED])}{more}."


def _refusals(proxy: Proxy) -> Iterator[str]:
    """Yield refused requests, for example for a WebSocket: SDKs hide our answer to them."""
    for count, message in proxy.refused.values():
        yield safe_text(f"Refused, and not recorded: {counted(count, 'request')}. {message}")


def _codex_upstreams(held: Sequence[Recording]) -> list[str]:
    """Return the upstreams that Codex used, as far as an address can name them: recordings may be foreign."""
    names = {each.request.upstream for each in held if (each.exchange.client or "").startswith(CODEX)}
    return sorted(name for name in names if name in UPSTREAMS or any(recorded_upstreams([name])))


def _is_file(source: str) -> bool:
    """Return whether this is a file, or looks like a path."""
    return is_file(source) or source.endswith((SUFFIX, os.sep))


def _named(unused: Sequence[Recording]) -> Iterator[str]:
    """Yield a line for each unused recording."""
    for each in unused[:LISTED]:
        request = each.request
        yield safe_text(f"Not asked for: {each.name}, {request.method} {request.target} ({request.upstream}).")
    if len(unused) > LISTED:
        yield f"And {len(unused) - LISTED} more."
