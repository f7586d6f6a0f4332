"""`recorder ui`: a web server of its own, with the viewer."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import click

from recorder.commands.serving.listening import in_url, is_loopback
from recorder.commands.serving.tokens import TokenFile, default_path
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import current_url, log_options, open_current
from recorder.commands.terminal.output import log_to_stderr, write_line
from recorder.commands.terminal.recordings import named
from recorder.commands.terminal.rules import match_rules
from recorder.errors import UsageError
from recorder.proxy.http import server
from recorder.store.queries.reader import LogReader
from recorder.ui.app import Viewer
from recorder.ui.owners import Owners

PORT = 8788  # the one after the proxy's
HOST = "127.0.0.1"
NO_TOKENS = (
    "{host!r} is reached by other machines: give --tokens, with which each person sees their own rows, and put a proxy "
    "with TLS in front."
)


@click.command()
@click.argument("session", required=False, shell_complete=session_names)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, help="The port; 0 takes a free one."
)
@click.option(
    "--host",
    default=HOST,
    help="The address to listen on; one that other machines reach needs --tokens.",
)
@click.option(
    "--tokens",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Let in who shows a token that `recorder token add` has made, by TLS, and read as the login of PostgreSQL "
    "that has the name of its owner.",
)
@click.option(
    "--open/--no-open",
    default=None,
    help="Open a browser with the URL. [default: if stdout is a terminal]",
)
@log_options
def command(
    db: str | None, session: str | None, port: int, host: str, tokens: str | None, open: bool | None
) -> None:
    """Look at recordings in a browser, or at SESSION (an id, the beginning of one, a name, or
    `latest`, or a file that `recorder import` reads).

    A server that only reads, on 127.0.0.1. Its URL has a token, which the page keeps for this
    browser. Stop with Ctrl-C.

    \b
    recorder ui
    recorder ui latest
    recorder ui --port 0 --no-open
    """
    log_to_stderr()
    host = host.removeprefix("[").removesuffix("]")
    if tokens is not None:
        if session is not None:
            raise UsageError("SESSION is for one user: leave it out with --tokens.")
        server.run(_show_owners(db, Path(tokens) if tokens else default_path(), host, port))
        return
    if not is_loopback(host):
        raise UsageError(NO_TOKENS.format(host=host))
    opens = sys.stdout.isatty() if open is None else open
    server.run(_show(db, session, (host, port), opens=opens))


async def _show(db: str | None, ref: str | None, address: tuple[str, int], *, opens: bool) -> None:
    if ref is None:
        async with await open_current(db) as log:
            await _serve_log(log, "", address, opens=opens)
        return
    async with named(db, ref) as found:
        fragment = f"#/s/{quote(found.session.session_id)}"
        await _serve_log(found.log, fragment, address, opens=opens)


async def _serve_log(
    log: LogReader, fragment: str, address: tuple[str, int], *, opens: bool
) -> None:
    viewer = Viewer()
    viewer.show(log, log.url, match_rules())

    def ready(port: int) -> None:
        viewer.guard.port = port
        write_line(viewer.entrance(fragment))
        if opens:
            Thread(target=webbrowser.open, args=(viewer.entrance(fragment),), daemon=True).start()

    await _serve(viewer, address, ready)


async def _show_owners(db: str | None, tokens: Path, host: str, port: int) -> None:
    owners = Owners(current_url(db), TokenFile(tokens).bearer, match_rules())
    viewer = Viewer(owners)
    try:
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(viewer.end_revoked())
            await _serve(
                viewer, (host, port), lambda port: write_line(f"http://{in_url(host)}:{port}/")
            )
            ending.cancel()
    finally:
        await owners.close()


async def _serve(viewer: Viewer, address: tuple[str, int], ready: Callable[[int], None]) -> None:
    def on_ready(port: int) -> None:
        server.settle()
        ready(port)

    await server.serve(
        viewer,
        *address,
        on_ready=on_ready,
        on_stop=lambda _: viewer.shut_down(),
        on_drain=viewer.shut_down,
        grace_s=0,
    )
