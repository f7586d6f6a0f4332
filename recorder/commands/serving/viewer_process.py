"""The process of the viewer beside a recorder, which `recorder.program` starts: `main(PORT)`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import database_url
from recorder.commands.serving.viewer import Begun
from recorder.commands.terminal.output import log_to_stderr, write_line
from recorder.commands.terminal.rules import declare_dialects, match_rules
from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.proxy.http import server
from recorder.store.location import VARIABLE
from recorder.store.write.retry import RETRY_S
from recorder.ui.app import Viewer

HOST = "127.0.0.1"  # wherever the proxy listens: who has its token need not see what passed
NICENESS = 5  # a person waits for it, but the proxy comes first


async def _serve(url: URL, port: int) -> None:
    viewer = Viewer()
    front = server.Server(viewer, HOST, port, on_drain=viewer.shut_down)
    try:
        await front.start()
    except RecorderError as error:
        _say(Begun(error=str(error).replace("--port", "--ui-port")))
        return
    viewer.guard.port = front.port
    _say(Begun(url=viewer.entrance()))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # nothing is ever written to that pipe: it is its end
    loop.add_reader(sys.stdin.fileno(), stop.set)
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(_open(viewer, url, stack))
        await stop.wait()
        opening.cancel()
        await front.stop(grace_s=0)


async def _open(viewer: Viewer, url: URL, stack: contextlib.AsyncExitStack) -> None:
    """Give the viewer the log as soon as there is one: a recorder creates it, maybe when another
    lets go of it.
    """
    while True:
        try:
            declare_dialects()
            viewer.show(await stack.enter_async_context(await open_log(url)), url, match_rules())
            return
        except (NotFoundError, StoreError) as error:
            viewer.why_closed = str(error)
        await asyncio.sleep(RETRY_S)


def _say(begun: Begun) -> None:
    write_line(msgspec.json.encode(begun).decode())


def main(port: str) -> None:
    """Serve the viewer until the recorder ends."""
    log_to_stderr()
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    server.run(_serve(database_url(os.environ[VARIABLE]), int(port)))
