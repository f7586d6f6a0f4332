"""The viewer beside a recorder, as a separate process: `recorder.commands.serving.viewer_process`.

Rules of this file:

* The database is the one that the environment of the process names
  (`recorder.store.location.VARIABLE`).
* The process writes one line on its standard output: the URL to open, or why there is none.
* Its standard input is a pipe from the recorder: when that closes, the recorder has ended, and so
  does the viewer.
* The recorder loads nothing of it: the viewer, with lint and diff, takes as long to load as the
  proxy.
* The recorder does not need it. If it dies, that is said once, and recording goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import AsyncIterator
from threading import Event, Thread

import click
import msgspec
from sqlalchemy import URL

from recorder.errors import RecorderError
from recorder.program import command_of
from recorder.store.location import VARIABLE

PROCESS = "recorder.commands.serving.viewer_process"
STOPPED_S = 5.0  # for a process that has nothing to finish

log = logging.getLogger(__name__)

ui_port_option = click.option(
    "--ui-port",
    type=click.IntRange(0, 65535),
    help="Serve the viewer (`recorder ui`) on this port of 127.0.0.1, in a process of its own; 0 takes a free one. "
    "[default: do not]",
)


class Begun(msgspec.Struct, frozen=True):
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
        begun = (
            msgspec.json.decode(line, type=Begun)
            if line
            else Begun(error="The viewer could not be started.")
        )
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
            command_of(PROCESS, str(port)),
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
