"""A recorder at work: the proxy, its journal, and the ingester process beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import click
from sqlalchemy import URL

from recorder.commands.serving.lowwater import watch_disk
from recorder.commands.serving.meter import Meter
from recorder.commands.ui.settings import redactor
from recorder.errors import StoreBusyError
from recorder.journal.writer import Journal
from recorder.proxy.app import BODY_LIMIT_BYTES, Proxy
from recorder.proxy.durable import DurableTransport
from recorder.proxy.http.messages import Transport
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.store.location import database_name, journal_root
from recorder.store.schema import STALE
from recorder.store.writer import Store

log = logging.getLogger(__name__)

Durability = Literal["journal", "strict"]

RESTART_S = 1.0  # before an ingester that died is started again: a reason to die lasts at times
AGAIN_S = 0.1  # the same at the end, when little time is left
REFUSED = 1  # the exit code of an ingester whose database refuses for good
STOP_S = 7.5  # from the signal to the end: whoever stops processes kills after ten
DRAIN_S = 1.0  # of it, at least, for the ingester to commit what is left; what it cannot, the next start does


class Ending:
    """How long the end of a recorder may take: `limit_s` from `begin` on, or `DRAIN_S` more if it is to hurry."""

    def __init__(self, limit_s: float = STOP_S) -> None:
        self._limit_s = limit_s
        self._began_s: float | None = None
        self._hurry = asyncio.Event()

    def begin(self) -> None:
        self._began_s = time.monotonic()

    def hurry(self) -> None:
        self._hurry.set()

    async def wait(self, done: asyncio.Event) -> None:
        """Until `done`, or there is no time left."""
        passed_s = 0 if self._began_s is None else time.monotonic() - self._began_s
        doing, hurrying = (asyncio.ensure_future(event.wait()) for event in (done, self._hurry))
        try:
            left_s = max(DRAIN_S, self._limit_s - passed_s)
            await asyncio.wait((doing, hurrying), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if hurrying.done():
                await asyncio.wait((doing,), timeout=DRAIN_S)
        finally:
            doing.cancel()
            hurrying.cancel()


@contextlib.asynccontextmanager
async def recording(
    url: URL,
    upstreams: Iterable[Upstream] = (),
    *,
    hosts: Collection[str] = (),
    body_limit_bytes: int = BODY_LIMIT_BYTES,
    durability: Durability = "journal",
    meter: Meter | None = None,
    ending: Ending | None = None,
) -> AsyncIterator[Proxy]:
    """Yield the app that records into the database at `url`. What it recorded is committed when the block is left, if
    that takes no longer than `ending` allows.

    A `meter` is attached, and runs until then. Raises `StoreError` if the database cannot be used, `UsageError` for a
    `[redact]` table that makes no sense; a database that is merely locked will be used later.
    """
    redactor()  # the ingester reads it for itself: what is wrong with it is said now
    try:
        with Store(url) as store, store.transaction():
            if store.projector.is_due():
                log.warning("%s", STALE)
    except StoreBusyError:
        log.warning("the database is locked by another process: the journal keeps what passes until it is free")
    journal = Journal(journal_root(url), new_id(), durable=durability == "strict")
    ingester = _Ingester(url, journal.directory)
    metered = journal if meter is None else meter.attach(journal, ingester)
    transport: Transport = RecordingTransport(UpstreamTransport(), metered)
    if durability == "strict":
        transport = DurableTransport(transport, journal)
    proxy = Proxy(transport, Routes(upstreams), hosts=hosts, body_limit_bytes=body_limit_bytes)
    watches = [watch_disk(journal.directory), *([meter.run()] if meter else [])]
    async with _ingesting(ingester, watches, ending or Ending()):
        try:
            yield proxy
        finally:
            await transport.aclose()
            journal.close()


@contextlib.asynccontextmanager
async def _ingesting(
    ingester: _Ingester, watches: Iterable[Coroutine[Any, Any, None]], ending: Ending
) -> AsyncIterator[None]:
    """The ingester process, started again whenever it dies, and `watches`; at the end it drains the journal."""
    failure: Exception | None = None  # of the block: it leaves as it is, not as a group of one
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ingester.keep_running())
        watching = [tasks.create_task(watch) for watch in watches]
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            for task in watching:
                task.cancel()
            await ingester.close(ending)
    if failure is not None:
        raise failure


class _Ingester:
    def __init__(self, url: URL, directory: Path) -> None:
        self._arguments = (url.render_as_string(hide_password=False), str(directory))
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._closing, self._ended = asyncio.Event(), asyncio.Event()
        self._given_up = False
        self.restarts = self.refusals = 0
        self.last_end: str | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def keep_running(self) -> None:
        """Until the recorder has ended and its journal is gone, because all of it is in the log."""
        while not self._given_up and not (self._closing.is_set() and not self._directory.exists()):
            ended = await self._run()
            if self._closing.is_set():
                await asyncio.sleep(AGAIN_S)
                continue
            self.last_end = ended
            self.restarts += 1
            log.error("the ingester %s and is started again; the journal keeps what passes", ended)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), RESTART_S)
        self._ended.set()

    async def close(self, ending: Ending) -> None:
        """The journal is complete: let the ingester read it to its end, one more if this one is dead."""
        self._closing.set()
        self._tell()
        try:
            await ending.wait(self._ended)
        finally:
            if not self._ended.is_set():
                log.warning("not all of the journal is in the log yet: the next start of recorder ingests the rest")
                self._given_up = True
                self._tell()
                if self._process is not None:
                    await self._process.wait()  # nothing runs on behind the user's back

    async def _run(self) -> str:
        """Run an ingester to its end; returns how that was."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "recorder.commands.serving.ingester", *self._arguments),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the recorder, which ends in its own order
            )
        except OSError as error:  # no descriptors or no memory left just now: nothing that a client should feel
            return f"could not be started ({error.strerror})"
        self._tell()
        code = await self._process.wait()
        self.refusals += code == REFUSED
        return f"ended with code {code}"

    def _tell(self) -> None:
        """That the recorder has ended, by closing the pipe; or that it cannot wait any longer."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if self._given_up:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # it may wait in SQLite, and can be killed at any point
        elif self._closing.is_set() and process.stdin is not None:
            process.stdin.close()


durability_option = click.option(
    "--durability",
    type=click.Choice(get_args(Durability)),
    default="journal",
    show_default=True,
    help="journal: what a client has seen survives kill -9; a power cut may take what is not committed yet, the last "
    "quarter of a second. strict: it survives that too, and each read from an upstream waits for the disk before it is "
    "handed on (well under a millisecond on an SSD, shared by all streams: docs/performance.md).",
)


def describe(url: URL, proxy_url: str, upstreams: Iterable[Upstream]) -> list[str]:
    """What a person wants to know when a recorder starts."""
    lines = [f"Recording to {database_name(url)}", f"Listening on {proxy_url}"]
    return [*lines, *(f"  {name} → {base}" for name, base in upstreams)]
