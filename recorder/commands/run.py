"""`recorder run`: a command, recorded or answered from a recording, without a server to start or a variable to set."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

import click
import msgspec
from click.core import ParameterSource
from sqlalchemy import URL

from recorder import server
from recorder.cassettes import SUFFIX
from recorder.cassettes.writing import cassette, save
from recorder.commands import child
from recorder.commands.answering import Answering
from recorder.commands.clients import BASES, KEYS, arguments, environment
from recorder.commands.database import chosen_url, database_option
from recorder.commands.listening import upstream_option
from recorder.commands.output import echo, log_to_stderr, safe_text
from recorder.commands.recording import Durability, Ending, durability_option, recording
from recorder.commands.recordings import recordings
from recorder.commands.replay import Speed
from recorder.commands.selection import new_name
from recorder.commands.settings import match_rules
from recorder.commands.subjects import is_file
from recorder.descriptors import raise_limit
from recorder.errors import NotFoundError, UsageError
from recorder.events import Exchange, Session
from recorder.facts import Ended
from recorder.incoming import Incoming
from recorder.log import Log
from recorder.proxy import Proxy
from recorder.recorded import Recorded
from recorder.routing import Upstream, parse_upstream
from recorder.rules import cleaned
from recorder.tally import Tally
from recorder.transports.recording import new_id

HOST = "127.0.0.1"
MISMATCH = 5
DRAIN_S = 60.0  # for the database to have all of it: the command has ended, nothing waits but the cassette
PROGRAM_LIMIT = 80  # characters of a program's name in that of a session
LISTED = 10  # recordings that a replay did not use

_OF_REPLAYS = ("speed", "strict")
_OF_RECORDINGS = ("session", "cassette", "upstream", "durability")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--session", metavar="NAME", help="Record under this session. [default: one of its own]")
@click.option(
    "--cassette",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was recorded to a cassette (.sse.jsonl) too. One that is there is replaced if CMD succeeds and no "
    "exchange broke off.",
)
@click.option("--replay", metavar="SESSION|FILE", help="Record nothing: answer from this session, or this cassette.")
@click.option(
    "--speed",
    type=Speed(),
    metavar="1|N|max",
    default="1",
    show_default=True,
    help="Of a replay: times the original speed.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Of a replay: give each recording once, and exit with 5 if CMD succeeds although one was not asked for.",
)
@upstream_option
@durability_option
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
    upstream: list[Upstream],
    durability: Durability,
) -> None:
    """Run CMD, and record what it asks of streaming APIs: a proxy on a free port, and the clients pointed at it.

    OpenAI, Anthropic and Google SDKs, LangChain, Claude Code and Gemini CLI read variables that are set for CMD; Codex
    is given arguments. An address that those variables have already becomes the upstream. The exit code is that of CMD,
    or 5 if CMD succeeds in a replay although something that it asked was not recorded. Recordings that it did not ask
    for are named.

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
    if replay is not None:
        sys.exit(server.run(_replay(words, db, replay, speed=speed, strict=strict)))
    name = _name(session, words)
    upstreams = [*_inherited({each.name for each in upstream}), *upstream]
    sys.exit(server.run(_record(words, chosen_url(db), name, cassette, upstreams=upstreams, durability=durability)))


def _refuse_idle(ctx: click.Context, replay: str | None) -> None:
    """Options of the command line that would do nothing. What files and variables say is for other runs, too."""
    others = _OF_REPLAYS if replay is None else _OF_RECORDINGS
    given = [f"--{name}" for name in others if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given and replay is None:
        raise UsageError(f"{given[0]} is for a replay: say with --replay which, or leave it away.")
    if given:
        raise UsageError(f"--replay records nothing: leave {' and '.join(given)} away.")


def _refuse_name(cassette: Path | None) -> None:
    """A name by which nobody would take it for a cassette, or for something else."""
    if cassette is not None and not cassette.name.endswith(SUFFIX):
        raise UsageError(
            f"--cassette {cassette} would be no cassette by its name: give one that ends in {SUFFIX}; "
            "`recorder export` writes other formats."
        )


def _name(session: str | None, words: Sequence[str]) -> str:
    """The name of the session; one that nobody else has, if none is given."""
    if session is None:
        program = (cleaned(PurePath(words[0]).name) or "run")[:PROGRAM_LIMIT]
        return f"{program}-{time.strftime('%Y%m%d-%H%M%S')}-{new_id()[-4:]}"
    return new_name(session)


def _inherited(named: Iterable[str]) -> list[Upstream]:
    """Where the clients of this environment went so far, unless an option says better."""
    found = dict[str, Upstream]()
    for variable, upstream in BASES.items():
        if upstream not in (*named, *found) and (base := os.environ.get(variable)):
            try:
                found[upstream] = Upstream(upstream, parse_upstream(f"{upstream}={base}").base + "/")
            except UsageError as error:
                raise UsageError(f"The address in {variable} cannot be recorded from. {error}") from None
    return list(found.values())


@contextlib.asynccontextmanager
async def _listening(app: Any, proxy: Any) -> AsyncIterator[str]:
    """The URL of an app, on a free port for as long as the block lasts."""
    front = server.Server(app, HOST, 0, on_drain=proxy.shutdown)
    await front.start()
    try:
        yield f"http://{HOST}:{front.port}"
    finally:
        await front.stop(grace_s=0)  # whoever asked has ended


class _Counting:
    """An app, and how many requests came to it."""

    def __init__(self, app: Proxy) -> None:
        self._app = app
        self.requests = 0

    async def __call__(self, incoming: Incoming) -> None:
        self.requests += 1
        await self._app(incoming)


async def _record(words: Sequence[str], url: URL, name: str, cassette: Path | None, **options: Any) -> int:
    began_ns, found = time.time_ns(), raise_limit()
    async with recording(url, ending=Ending(DRAIN_S), **options) as proxy:
        counting = _Counting(proxy)
        async with _listening(counting, proxy) as base:
            base = f"{base}/s/{quote(name, safe='')}"
            code = await child.run(arguments(words, base), environment(os.environ, base), descriptors=found)
    if not counting.requests:
        _say("Nothing was recorded: the command sent no request here. `recorder env CLIENT` says how to point one.")
        return code
    async with await Log.open(url) as log:
        run = await _recorded(log, name, began_ns)
        if run is None:
            _say(
                f"Requests: {counting.requests}. None is in the database, see above; `recorder db recover` looks again."
            )
            return code or 1
        _say(_summary(run))
        if cassette is not None and not await _save(log, run, cassette, code):
            return code or 1
    return code


def _say(line: str) -> None:
    """On stderr, if that takes it: the exit code is the command's."""
    with contextlib.suppress(OSError):
        echo(line)


class _Run(NamedTuple):
    """What was recorded."""

    session: Session
    exchanges: Sequence[Exchange]
    used: Tally | None


async def _recorded(log: Log, name: str, began_ns: int) -> _Run | None:
    try:
        session = await log.session(name)
    except NotFoundError:
        return None
    exchanges = [each for each in await log.exchanges(session.session_id) if each.started_ns >= began_ns]
    sums = {each.key[0]: each for each in await log.usage(("session",), began_ns)}
    return _Run(session, exchanges, sums.get(session.session_id)) if exchanges else None


def _summary(run: _Run) -> str:
    """One line: the session, and the tokens."""
    count = len(run.exchanges)
    line = f"Recorded session {safe_text(run.session.name)} ({run.session.session_id}): {count} exchange"
    line += "" if count == 1 else "s"
    used = run.used
    if used is None or used.total_tokens is None:
        return f"{line}, no usage reported."
    return (
        f"{line}, {used.input_tokens or 0:,} input tokens{_part(used.cache_read_input_tokens, 'cached')}, "
        f"{used.output_tokens or 0:,} output tokens{_part(used.reasoning_output_tokens, 'reasoning')}."
    )


def _part(count: int | None, what: str) -> str:
    return f" ({count:,} {what})" if count else ""


async def _save(log: Log, run: _Run, path: Path, code: int) -> bool:
    """Write the cassette; returns whether that was done. One that is there is replaced by a whole recording only."""
    episodes = [
        (each, [event async for event in log.events(each.session_id, each.exchange_id)]) for each in run.exchanges
    ]
    again = f"`recorder export {run.session.session_id} --format cassette` writes what was recorded."
    if not all(events and events[-1].kind == "end" for _, events in episodes):
        _say(
            f"{safe_text(str(path))} is not written: not all is in the database yet. "
            f"After `recorder db recover`, {again}"
        )
        return False
    broken = sum(msgspec.json.decode(events[-1].raw, type=Ended).outcome != "eof" for _, events in episodes)
    if path.exists() and (code or broken):
        why = f"the command failed ({code})" if code else f"{broken} of {len(episodes)} exchanges broke off"
        _say(f"{safe_text(str(path))} stays as it was: {why}. {again}")
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, cassette(run.session, episodes))
    except OSError as error:
        _say(f"The cassette {safe_text(str(path))} cannot be written: {error.strerror}. {again}")
        return False
    _say(f"Written to {safe_text(str(path))}.")
    return True


async def _replay(words: Sequence[str], db: str | None, source: str, *, speed: float | None, strict: bool) -> int:
    sessions, cassettes = ([], [Path(source)]) if _is_file(source) else ([source], [])
    held = await recordings(db, sessions, cassettes)
    answering, found = Answering(held, match_rules(), speed=speed, strict=strict), raise_limit()
    async with _listening(answering.proxy, answering.proxy) as base:
        keys = {name: "none" for name in KEYS if not os.environ.get(name)}
        code = await child.run(arguments(words, base), environment({**os.environ, **keys}, base), descriptors=found)
    missed, unused = any(seen.how == "miss" for seen in answering.seen()), answering.unused()
    for line in (*answering.summary(), *_named(unused)):
        _say(line)
    return MISMATCH if code == 0 and (missed or (strict and unused)) else code


def _is_file(source: str) -> bool:
    """A file, or what can only have been meant as one."""
    return is_file(source) or source.endswith((SUFFIX, os.sep))


def _named(unused: Sequence[Recorded]) -> Iterator[str]:
    """A line for each recording that was not asked for."""
    for each in unused[:LISTED]:
        asked = each.request
        yield safe_text(f"Not asked for: {each.name}, {asked.method} {asked.target} ({asked.upstream}).")
    if len(unused) > LISTED:
        yield f"And {len(unused) - LISTED} more."
