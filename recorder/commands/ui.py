"""`recorder ui`: a web server of its own, with the viewer."""

from __future__ import annotations

import sys
import webbrowser
from threading import Thread
from urllib.parse import quote

import click

from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import log_options, open_current
from recorder.commands.terminal.output import log_to_stderr, write_line
from recorder.commands.terminal.recordings import named
from recorder.commands.terminal.rules import match_rules
from recorder.proxy.http import server
from recorder.store.queries.reader import LogReader
from recorder.ui.app import Viewer

PORT = 8788  # the one after the proxy's
HOST = "127.0.0.1"


@click.command()
@click.argument("session", required=False, shell_complete=session_names)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, help="The port; 0 takes a free one."
)
@click.option(
    "--open/--no-open",
    default=None,
    help="Open a browser with the URL. [default: if stdout is a terminal]",
)
@log_options
def command(db: str | None, session: str | None, port: int, open: bool | None) -> None:
    """Look at recordings in a browser, or at SESSION (an id, the beginning of one, a name, or
    `latest`, or a file that `recorder import` reads).

    A server on 127.0.0.1 that only reads. Its URL has a token, which the page keeps for this
    browser. Stop with Ctrl-C.

    \b
    recorder ui
    recorder ui latest
    recorder ui --port 0 --no-open
    """
    log_to_stderr()
    opens = sys.stdout.isatty() if open is None else open
    server.run(_show(db, session, port, opens=opens))


async def _show(db: str | None, ref: str | None, port: int, *, opens: bool) -> None:
    if ref is None:
        async with await open_current(db) as log:
            await _serve(log, "", port, opens=opens)
        return
    async with named(db, ref) as found:
        await _serve(found.log, f"#/s/{quote(found.session.session_id)}", port, opens=opens)


async def _serve(log: LogReader, fragment: str, port: int, *, opens: bool) -> None:
    viewer = Viewer()
    viewer.show(log, log.url, match_rules())

    def ready(port: int) -> None:
        viewer.guard.port = port
        server.settle()
        write_line(viewer.entrance(fragment))
        if opens:
            Thread(target=webbrowser.open, args=(viewer.entrance(fragment),), daemon=True).start()

    await server.serve(
        viewer,
        *(HOST, port),
        on_ready=ready,
        on_stop=lambda _: viewer.shut_down(),
        on_drain=viewer.shut_down,
        grace_s=0,
    )
