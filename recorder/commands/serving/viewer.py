"""The viewer beside a recorder, as a separate process, which `recorder.program` starts: `main(PORT)`.

Rules of this file:

* The database is the one that the environment of the process names (`recorder.store.location.VARIABLE`).
* The process writes one line on its standard output: the URL to open, or why there is none.
* Its standard input is a pipe from the recorder: when that closes, the recorder has ended, and so does the viewer.
* The recorder loads nothing of it: the viewer, with lint and diff, takes as long to load as the proxy.
* The recorder does not need it. If it dies, that is said once, and recording goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from threading import Event, Thread
from typing import TYPE_CHECKING

import click
import msgspec
from sqlalchemy import URL

from recorder.commands.terminal.output import log_to_stderr, write_line
from recorder.commands.terminal.settings import match_rules
from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.program import command_of
from recorder.proxy.http import server
from recorder.store.location import VARIABLE, database_url
from recorder.store.write.retry import RETRY_S

if TYPE_CHECKING:
    from recorder.ui.app import Viewer

HOST = "127.0.0.1"  # wherever the proxy listens: who has its token need not see what passed
NICENESS = 5  # a person waits for it, but the proxy comes first
STOPPED_S = 5.0  # for a process that has nothing to finish

log = logging.getLogger(__name__)

ui_port_option = click.option(
    "--ui-port",
    type=click.IntRange(0, 65535),
    help="Serve the viewer (`recorder ui`) on this port of 127.0.0.1, in a process of its own; 0 takes a free one. "
    "[default: do not]",
)


class _Begun(msgspec.Struct, frozen=True):
    """The line that the process writes when it listens, or cannot."""

    url: str | None = None
    error: str | None = None


@contextlib.asynccontextmanager
async def viewing(url: URL, port: int) -> AsyncIterator[str]:
    """Run a viewer during the block; give its URL. Raise `RecorderError` if it cannot listen."""
    process = _start(url, port)
    assert process.stdin is not None
    assert process.stdout is not None
    stopping = Event()
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        begun = msgspec.json.decode(line, type=_Begun) if line else _Begun(error="The viewer could not be started.")
        if begun.url is None:
            raise RecorderError(begun.error or "")
        Thread(target=_watch, args=(process, stopping), name="viewer", daemon=True).start()
        yield begun.url
    finally:
        stopping.set()
        process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, STOPPED_S)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def _start(url: URL, port: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command_of(__name__, str(port)),
            env={**os.environ, VARIABLE: url.render_as_string(hide_password=False)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the recorder, which ends in its own order
        )
    except OSError as error:
        raise RecorderError(f"The viewer could not be started: {error.strerror}.") from error


def _watch(process: subprocess.Popen[bytes], stopping: Event) -> None:
    code = process.wait()
    if not stopping.is_set():
        log.error("the viewer ended with code %d; recording goes on without it", code)


# -- the process


async def _serve(url: URL, port: int) -> None:
    from recorder.ui.app import Viewer
    from recorder.ui.security import Guard

    viewer = Viewer(Guard())
    front = server.Server(viewer, HOST, port, on_drain=viewer.shut_down)
    try:
        await front.start()
    except RecorderError as error:
        _say(_Begun(error=str(error).replace("--port", "--ui-port")))
        return
    viewer.guard.port = front.port
    _say(_Begun(url=viewer.entrance()))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)  # nothing is ever written to that pipe: it is its end
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(_open(viewer, url, stack))
        await stop.wait()
        opening.cancel()
        await front.stop(grace_s=0)


async def _open(viewer: Viewer, url: URL, stack: contextlib.AsyncExitStack) -> None:
    """Give the viewer the log as soon as there is one: a recorder creates it, maybe when another lets go of it."""
    from recorder.store.queries.reader import LogReader

    while True:
        try:
            viewer.show(await stack.enter_async_context(await LogReader.open(url)), url, match_rules())
            return
        except (NotFoundError, StoreError) as error:
            viewer.why_closed = str(error)
        await asyncio.sleep(RETRY_S)


def _say(begun: _Begun) -> None:
    write_line(msgspec.json.encode(begun).decode())


def main(port: str) -> None:
    """Serve the viewer until the recorder ends."""
    log_to_stderr()
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    server.run(_serve(database_url(os.environ[VARIABLE]), int(port)))
