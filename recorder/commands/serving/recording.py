"""A recorder at work: the proxy, its journal, and the ingester process beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import click
from sqlalchemy import URL

from recorder.commands.serving.health_snapshot import watch_disk
from recorder.commands.serving.meter import Meter
from recorder.commands.terminal.options import Parsed, flag, setting
from recorder.commands.terminal.rules import redactor
from recorder.commands.terminal.settings import PLACES, SESSIONS, refusal, settings_files
from recorder.errors import StoreBusyError, StoreError, UsageError
from recorder.ingest.supervisor import IngesterSupervisor
from recorder.journal.writer import Journal
from recorder.model.text import safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.content_level import FULL, SESSION, ContentLevels, journal_at, journal_by_level
from recorder.proxy.durable import DurableTransport
from recorder.proxy.http.messages import Transport
from recorder.proxy.http.network import DIRECT, Network
from recorder.proxy.recording import ExchangeJournal, RecordingTransport, new_id
from recorder.proxy.routing import Routes, SessionPlaces, Upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.shipping.bucket import Prefix
from recorder.store.engine import START_TIMEOUT_S
from recorder.store.location import database_name, journal_root
from recorder.store.maintain.declared import schema_differences, sentence
from recorder.store.schema import STALE
from recorder.store.write.writer import Store
from recorder.wire.content import LEVELS, Level
from recorder.wire.content.filler import KEY_BYTES
from recorder.wire.redaction.headers import is_secret_header
from recorder.wire.upstreams import is_public

log = logging.getLogger(__name__)

Durability = Literal["journal", "strict"]

STOP_S = 7.5  # from the signal to the end: whoever stops processes kills after ten
LOOK_S = 1.0
"""The time between two looks at the journal: for so long nobody but the recorder has what somebody
deletes of it. Streams of a token that was revoked end at the second look after that."""
# what an edge records waits for so long, and each segment costs two requests of the object store
SEAL_S = 2.0
# of it, at least, for the ingester to commit what is left; what it cannot, the next start does
DRAIN_S = 1.0

# the characters of a header's name; dots go into a field
_PLACE = re.compile(r"[\w!#$%&'*+.^`|~-]{1,100}", re.ASCII)


class Ending:
    """The time limit for the end of a recorder: `limit_s` after `begin`, or `DRAIN_S` after
    `hurry`.
    """

    def __init__(self, limit_s: float = STOP_S) -> None:
        self._limit_s = limit_s
        self._began_s: float | None = None
        self._hurry = asyncio.Event()

    def begin(self) -> None:
        self._began_s = time.monotonic()

    def hurry(self) -> None:
        self._hurry.set()

    async def wait(self, done: Awaitable[object]) -> None:
        """Wait for `done` as long as there is time."""
        passed_s = 0 if self._began_s is None else time.monotonic() - self._began_s
        doing, hurrying = asyncio.ensure_future(done), asyncio.ensure_future(self._hurry.wait())
        try:
            left_s = max(DRAIN_S, self._limit_s - passed_s)
            await asyncio.wait(
                (doing, hurrying), timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            if hurrying.done():
                await asyncio.wait((doing,), timeout=DRAIN_S)
        finally:
            doing.cancel()
            hurrying.cancel()


@contextlib.asynccontextmanager
async def recording(
    into: URL | Prefix,
    upstreams: Iterable[Upstream] = (),
    *,
    make_proxy: Callable[[Transport, Routes], Proxy] = Proxy,
    durability: Durability = "journal",
    meter: Meter | None = None,
    ending: Ending | None = None,
    network: Network = DIRECT,
    recorded: Callable[..., Transport] = RecordingTransport,
    levels: ContentLevels = FULL,
    beside: Iterable[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> AsyncIterator[Proxy]:
    """Yield the proxy that records into a database, or to where its journal is shipped; `recorded`
    makes the transport that does so, of that to the upstream, the journal, and at other levels than
    full of `choose` as `RecordingTransport` has it.

    At the end all that it recorded is committed, if that takes no longer than `ending` allows.

    A `meter` is attached, and runs until then, as does what stands `beside`. Raises `StoreError` if
    the database cannot be used, `UsageError` for a `[redact]` table that makes no sense, or a file
    of `network` that cannot be used; a database that is merely locked, or on a server that is away
    or does not answer, will be used later.
    """
    upstream = UpstreamTransport(network)
    routes = Routes(upstreams, session_places=session_places())
    _require_known(levels, routes)
    if isinstance(into, URL):
        _require_usable(into)
    root = into.journal_root if isinstance(into, Prefix) else journal_root(into)
    journal = Journal(root, new_id(), durable=durability == "strict")
    ingester = IngesterSupervisor(into.url if isinstance(into, Prefix) else into, journal.directory)
    metered = journal if meter is None else meter.attach(journal, ingester)
    if not levels.are_full:
        recorded = partial(recorded, choose=journal_by_level(levels, metered, content_secret(root)))
    transport = recorded(upstream, metered)
    if durability == "strict":
        transport = DurableTransport(transport, journal)
    proxy = make_proxy(transport, routes)
    watches = [
        watch_disk(journal.directory),
        watch_journal([journal.look, proxy.end_revoked]),
        *([watch_journal([journal.seal], SEAL_S)] if isinstance(into, Prefix) else []),
        *([meter.run()] if meter else []),
    ]
    watches += [watch() for watch in beside]
    async with _ingesting(ingester, watches, ending or Ending()):
        try:
            yield proxy
        finally:
            await transport.aclose()
            journal.close()


def content_secret(root: Path) -> bytes:
    """Return the secret of the filler of a log, of its file beside the journals; made when it is
    asked for first.

    It is the same after a restart, so that a conversation that goes on has the same beginning.
    Raises `UsageError`.
    """
    path = root.with_name(f"{root.name}.content-key")
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
        secret = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}, the key of what stands in place of texts, cannot be used: {error.strerror}."
        ) from error
    if len(secret) != KEY_BYTES:
        raise UsageError(f"{path} is not a key of recorder: move it away, and a new one is made.")
    return secret


def kept_at(level: Level, journal: ExchangeJournal, root: Path) -> ExchangeJournal:
    """Return a journal below `root` that keeps of bodies what a level says. Raises `UsageError`."""
    return journal_at(level, journal, content_secret(root))


def parse_level(given: str) -> tuple[str, Level]:
    """Return an upstream, a pattern of sessions, or an empty text for all others, and its level.

    Raises `UsageError`.
    """
    place, _, level = given.rpartition("=")
    if level not in LEVELS:
        raise UsageError(
            f"{given!r} is not a level of content: full, shape or none, or UPSTREAM=LEVEL, or s/SESSION=LEVEL."
        )
    return place, level


def levels_of(given: Iterable[tuple[str, Level]]) -> ContentLevels:
    """Return the levels that are given, the last of each place."""
    upstreams, sessions = dict(given), dict[str, Level]()
    for place in [each for each in upstreams if each.startswith(SESSION)]:
        sessions[place.removeprefix(SESSION)] = upstreams.pop(place)
    return ContentLevels(upstreams.pop("", "full"), upstreams, sessions)


def _require_known(levels: ContentLevels, routes: Routes) -> None:
    known = sorted(dict(routes.upstreams))
    for unknown in sorted(levels.of_upstreams.keys() - {*known}):
        raise UsageError(f"--content {unknown}=… names no upstream: there are {', '.join(known)}.")


content_option = click.option(
    "--content",
    metavar="[UPSTREAM=|s/SESSION=]LEVEL",
    type=Parsed("level", parse_level),
    multiple=True,
    help="What is kept of bodies. full (default): all. shape: filler in place of each text and argument, of the same "
    "length; what was equal is equal still. none: the same letter everywhere. Both keep types, models, ids, times, "
    "sizes and tokens. Of several that are for a request, the least counts; SESSION may have * in it.",
)


def _require_usable(url: URL) -> None:
    """Raise `StoreError` if a database cannot be used. It may be locked, or away: that passes."""
    redactor()  # the ingester reads it for itself: what is wrong with it is said now
    try:
        with Store(url, answer_timeout_s=START_TIMEOUT_S) as store:
            store.require_rights()
            with store.transaction():
                if store.projector.is_due():
                    log.warning("%s", STALE)
        _require_schema(url)
    except StoreBusyError as error:
        log.warning("the database cannot be used yet, the journal keeps what passes: %s", error)


def _require_schema(url: URL) -> None:
    """Say what of the schema is not as it is declared.

    Raise `StoreError` if it may lose what is recorded from now on.

    A missing guard is not a reason to lose streams: recorder itself changes no row, with it or
    without, and each is in a chain of hashes. A trigger that somebody added may drop every row, and
    the journal is deleted after that.
    """
    found = schema_differences(url)
    if any(each.may_lose for each in found):
        raise StoreError(f"Nothing is recorded into {database_name(url)}. {sentence(found)}")
    if found:
        log.warning("%s", sentence(found))


@contextlib.asynccontextmanager
async def _ingesting(
    ingester: IngesterSupervisor, watches: Iterable[Coroutine[Any, Any, None]], ending: Ending
) -> AsyncIterator[None]:
    """Run the ingester process and `watches`; at the end let the ingester read the journal to its
    end.
    """
    failure: Exception | None = None  # of the block: it leaves as it is, not as a group of one
    ingester.start()
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(watch) for watch in watches]
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            for task in watching:
                task.cancel()
            ingester.finish()
            try:
                await ending.wait(asyncio.to_thread(ingester.wait))
            finally:
                if not ingester.wait(0):
                    log.warning(
                        "not all of the journal is in %s yet: the next start brings in the rest",
                        ingester.goal,
                    )
                    ingester.stop()
    if failure is not None:
        raise failure


durability_setting = setting(
    "--durability", type=click.Choice(get_args(Durability)), default="journal"
)


websocket_option = flag(
    "--no-websocket",
    help="Refuse WebSocket with a 426, upon which Codex goes on over HTTP; else it is passed on and recorded.",
)


def describe(
    into: str, proxy_url: str, upstreams: Iterable[Upstream], network: Network = DIRECT
) -> list[str]:
    """Return the lines that a recorder prints when it starts."""
    lines = [f"Recording to {into}", f"Listening on {proxy_url}"]
    return [*lines, *(f"  {name} → {base}" for name, base in upstreams), *_way(network)]


def departures(upstreams: Iterable[Upstream], network: Network) -> list[str]:
    """Return the lines on upstreams at another server than the public one, and on the way to them.

    Keys and prompts go there, and a setting or a variable may have named it: whoever starts a
    command is to see it.
    """
    lines = [
        f"Upstream {name} is {base.removesuffix('/')}"
        for name, base in upstreams
        if not is_public(name, base)
    ]
    return [safe_text(line) for line in (*lines, *_way(network))]


def _way(network: Network) -> list[str]:
    return [] if network == DIRECT else [f"Upstreams are reached {network.describe()}"]


async def watch_journal(looks: Iterable[Callable[[], None]], look_s: float = LOOK_S) -> None:
    """Look at the files of the journal, and at the tokens of what is open, in the thread that
    writes them: it takes some microseconds.
    """
    while True:
        await asyncio.sleep(look_s)
        for look in looks:
            look()


def session_places() -> SessionPlaces:
    """Return where clients of the user name their sessions, from the `[sessions]` tables of both
    files.

    Such a name is kept as it came, of a header whose value is not kept otherwise, too: a project's
    file needs trust for it, and no file may name a header that has a secret.
    """
    found: dict[str, list[str]] = {name: [] for name in PLACES}
    for file in reversed([*settings_files()]):
        table = file.given.get(SESSIONS, {})
        for name in PLACES:
            found[name] += _place_names(file.path, name, table.get(name, []))
        places = {name: table[name] for name in PLACES if name in table}
        if names := file.refused(SESSIONS, places):
            raise UsageError(refusal(file.path, f"in [{SESSIONS}]", names))
    headers = tuple(header.lower().encode() for header in found["headers"])
    return SessionPlaces(headers, tuple(found["fields"]))


def _place_names(path: Path, name: str, given: Any) -> list[str]:
    names = given if isinstance(given, list) else [given]
    for each in names:
        if not isinstance(each, str) or _PLACE.fullmatch(each) is None:
            example = '["X-Run-Id"]' if name == "headers" else '["metadata.run"]'
            raise UsageError(
                f"{path}: `{name}` in [{SESSIONS}] is a list of names: {name} = {example}."
            )
        if name == "headers" and is_secret_header(each):
            raise UsageError(
                f"{path}: `headers` in [{SESSIONS}]: the value of {each} is a secret, and no name."
            )
    return names
