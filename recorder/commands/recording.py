"""A recorder at work: the proxy, its journal, and the ingester process beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Collection, Iterable
from pathlib import Path

from sqlalchemy import URL

from recorder.commands.database import journal_root
from recorder.errors import StoreBusyError
from recorder.journal import Journal
from recorder.location import database_path
from recorder.proxy import BODY_LIMIT_BYTES, Proxy
from recorder.routing import Routes, Upstream
from recorder.schema import STALE
from recorder.store import Store
from recorder.transports.recording import RecordingTransport, new_id
from recorder.transports.upstream import UpstreamTransport

log = logging.getLogger(__name__)

RESTART_S = 1.0  # before an ingester that died is started again: a reason to die lasts at times
AGAIN_S = 0.1  # the same at the end, when little time is left
DRAIN_S = 2.5  # for the ingester to commit what is left at the end; what it cannot, the next start does


@contextlib.asynccontextmanager
async def recording(
    url: URL,
    upstreams: Iterable[Upstream] = (),
    *,
    hosts: Collection[str] = (),
    body_limit_bytes: int = BODY_LIMIT_BYTES,
) -> AsyncIterator[Proxy]:
    """The ASGI app that records into the database at `url`. What it was told is committed when the block is left.

    Raises `StoreError` if the database cannot be used; one that is merely locked will be used later.
    """
    try:
        with Store(url) as store, store.transaction():
            if store.projector.is_due():
                log.warning("%s", STALE)
    except StoreBusyError:
        log.warning("the database is locked by another process: the journal keeps what passes until it is free")
    journal = Journal(journal_root(url), new_id())
    transport = UpstreamTransport()
    proxy = Proxy(
        RecordingTransport(transport, journal),
        Routes(upstreams),
        hosts=hosts,
        body_limit_bytes=body_limit_bytes,
    )
    async with _ingesting(url, journal.directory):
        try:
            yield proxy
        finally:
            await transport.aclose()
            journal.close()


@contextlib.asynccontextmanager
async def _ingesting(url: URL, directory: Path) -> AsyncIterator[None]:
    """The ingester process, started again whenever it dies; at the end it drains the journal."""
    ingester = _Ingester(url, directory)
    failure: Exception | None = None  # of the block: it leaves as it is, not as a group of one
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ingester.keep_running())
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            await ingester.close()
    if failure is not None:
        raise failure


class _Ingester:
    def __init__(self, url: URL, directory: Path) -> None:
        self._arguments = (url.render_as_string(hide_password=False), str(directory))
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._closing, self._ended = asyncio.Event(), asyncio.Event()
        self._given_up = False

    async def keep_running(self) -> None:
        """Until the recorder has ended and its journal is gone, because all of it is in the log."""
        while not self._given_up and not (self._closing.is_set() and not self._directory.exists()):
            ended = await self._run()
            if self._closing.is_set():
                await asyncio.sleep(AGAIN_S)
                continue
            log.error("the ingester %s and is started again; the journal keeps what passes", ended)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), RESTART_S)
        self._ended.set()

    async def close(self) -> None:
        """The journal is complete: let the ingester read it to its end, one more if this one is dead."""
        self._closing.set()
        self._tell()
        try:
            await asyncio.wait_for(self._ended.wait(), DRAIN_S)
        except TimeoutError:
            log.warning("not all of the journal is in the log yet: the next start of recorder ingests the rest")
            self._given_up = True
            self._tell()

    async def _run(self) -> str:
        """Run an ingester to its end; returns how that was."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "recorder.commands.ingester", *self._arguments),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the recorder, which ends in its own order
            )
        except OSError as error:  # no descriptors or no memory left just now: nothing that a client should feel
            return f"could not be started ({error.strerror})"
        self._tell()
        return f"ended with code {await self._process.wait()}"

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


def describe(url: URL, proxy_url: str, upstreams: Iterable[Upstream]) -> list[str]:
    """What a person wants to know when a recorder starts."""
    lines = [f"Recording to {database_path(url)}", f"Listening on {proxy_url}"]
    return [*lines, *(f"  {name} → {base}" for name, base in upstreams)]
