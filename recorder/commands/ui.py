"""`recorder ui`: a web server of its own, with the viewer."""

from __future__ import annotations

import sys
import webbrowser
from threading import Thread
from urllib.parse import quote

import click

from recorder.archive.opening import open_log
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import current_url, log_options
from recorder.commands.terminal.output import log_to_stderr, write_line
from recorder.commands.terminal.rules import match_rules
from recorder.proxy.http import server
from recorder.store.queries.session_named import session_named
from recorder.ui.app import Viewer

PORT = 8788  # the one after the proxy's
HOST = "127.0.0.1"


@click.command()
@click.argument("session", required=False, shell_complete=session_names)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, help="The port; 0 takes a free one.")
@click.option("--open/--no-open", default=None, help="Open a browser with the URL. [default: if stdout is a terminal]")
@log_options
def command(db: str | None, session: str | None, port: int, open: bool | None) -> None:
    """Look at recordings in a browser, or at SESSION (an id, the beginning of one, a name, or `latest`).

    A server on 127.0.0.1 that only reads. Its URL has a token, which the page keeps for this browser. Stop with
    Ctrl-C.

    \b
    recorder ui
    recorder ui latest
    recorder ui --port 0 --no-open
    """
    log_to_stderr()
    url, rules = current_url(db), match_rules()
    opens = sys.stdout.isatty() if open is None else open

    async def show() -> None:
        async with await open_log(url) as log:
            fragment = ""
            if session is not None:
                fragment = f"#/s/{quote((await session_named(log, session)).session_id)}"
            viewer = Viewer()
            viewer.show(log, url, rules)

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

    server.run(show())
