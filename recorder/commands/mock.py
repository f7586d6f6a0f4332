"""`recorder mock`: a server that answers requests from recordings, over HTTP and WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from recorder.commands.replay import speed_option
from recorder.commands.serving.answering import Answering
from recorder.commands.serving.listening import (
    Door,
    listening_options,
    refuse_itself,
    say_how_to_point,
    say_stopping,
)
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.ready_file import announced
from recorder.commands.serving.recording import departures
from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import flag, log_options
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.errors import UsageError
from recorder.model.events import Recording
from recorder.model.text import counted
from recorder.proxy.admission import refusal
from recorder.proxy.app import BODY_LIMIT_BYTES, path_of
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.http.server_exchange import ServerExchange
from recorder.proxy.routing import Routes
from recorder.proxy.upstream import UpstreamTransport
from recorder.replay.faults.forms import FORMS, RANGES, parse_fault
from recorder.replay.faults.transport import Fault
from recorder.replay.transport import MISS_STATUS

REQUESTS = "/_recorder/requests"


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=session_names)
@click.option(
    "--cassette",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A cassette (.sse.jsonl), besides the sessions. Can be given many times.",
)
@speed_option("A factor on the original speed.")
@flag(
    "--strict",
    help="Use each recording once, and only for a request that is the same but for noise. Without it they are used "
    "again, and a request may be answered although times and UUIDs in it differ, or by its position.",
)
@click.option(
    "--otherwise",
    type=click.Choice(["forward", "400", "404", "503"]),
    default=str(MISS_STATUS),
    help="Forward requests that are not recorded to their upstream, or refuse them with this status.",
)
@click.option(
    "--fault",
    metavar="SPEC",
    multiple=True,
    help=f"Inject this fault into every response: {'; '.join(FORMS.values())}. {RANGES}. Can be given many times.",
)
@click.option("--seed", type=int, default=0, help="The seed of random faults.")
@flag("--allow-gaps", help="Use sessions even if some of their bytes were not kept.")
@listening_options
@network_settings
@log_options
def command(
    db: str | None,
    sessions: tuple[str, ...],
    cassette: tuple[Path, ...],
    speed: float | None,
    strict: bool,
    otherwise: str,
    fault: tuple[str, ...],
    seed: int,
    allow_gaps: bool,
    door: Door,
    network: Network,
) -> None:
    """Serve recordings to clients, over HTTP and WebSocket: each request gets the recorded response
    of an equal one.

    SESSION is an id, the beginning of one, a name, or `latest`, the default if there is no cassette
    either. Bytes, times and failures are the recorded ones; only ids that an agent's tools make are
    those of the client. The page `/_recorder/requests` lists the requests, their answers, and
    unused recordings. Stop with Ctrl-C.

    \b
    recorder mock             # then: OPENAI_BASE_URL=http://127.0.0.1:8787/v1
    recorder mock latest --speed max --strict
    recorder mock latest --fault cut@12 --port 0 --ready-file mock.url
    """
    log_to_stderr()
    forwards, faults = otherwise == "forward", _faults(fault)
    rules = match_rules("noise" if strict else "position")
    if forwards:
        refuse_itself(Routes(door.upstream).upstreams, door.port, door.allow_host)
        for line in departures(door.upstream, network):
            echo(line)

    async def serve() -> None:
        held = await loader(db).answers(sessions, cassette, allow_gaps=allow_gaps)
        answering = Answering(
            held,
            rules,
            upstreams=door.upstream,
            make_proxy=door.make_proxy,
            speed=speed,
            strict=strict,
            otherwise=UpstreamTransport(network) if forwards else int(otherwise),
            faults=faults,
            seed=seed,
        )
        server.settle()
        try:
            await server.serve(
                door.guarded(Mock(answering, door.names)),
                door.host,
                door.port,
                on_ready=partial(_say_ready, len(held), door, announce),
                on_stop=partial(_say_stopped, answering),
                on_drain=answering.proxy.shutdown,
            )
        finally:
            await answering.aclose()

    with announced(door.ready_file) as announce:
        server.run(serve())


class Mock:
    """The application: the proxy, and a page that lists the requests so far."""

    def __init__(self, answering: Answering, hosts: Collection[str]) -> None:
        self._proxy, self._answering = answering.proxy, answering
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, incoming: ServerExchange) -> None:
        if not self._is_own(incoming):
            await self._proxy(incoming)
            return
        incoming.respond(
            200, [(b"content-type", b"application/json")], msgspec.json.encode(self._page())
        )

    def _is_own(self, incoming: ServerExchange) -> bool:
        """Return whether this is an admitted request for the page; the proxy refuses all others."""
        if path_of(incoming) != REQUESTS or incoming.method not in ("GET", "HEAD"):
            return False
        return refusal(incoming.method, incoming.headers, self._hosts, BODY_LIMIT_BYTES) is None

    def _page(self) -> Mapping[str, Any]:
        return {
            "requests": self._answering.seen(),
            "unused": list(map(_unused, self._answering.unused())),
            "unused_faults": [fault.form for fault in self._answering.idle()],
        }


def _unused(each: Recording) -> Mapping[str, Any]:
    request, id = each.request, each.exchange.exchange_id
    place = {"method": request.method, "target": request.target, "upstream": request.upstream}
    return {**place, "exchange_id": id, "recording": each.name}


def _faults(specs: Iterable[str]) -> list[Fault]:
    try:
        return [parse_fault(spec) for spec in specs]
    except ValueError as error:
        raise UsageError(str(error)) from None


def _say_ready(count: int, door: Door, announce: Callable[[str], None], port: int) -> None:
    announce(door.entrance(port))
    echo(f"Answering with {counted(count, 'recorded exchange')}")
    echo(f"Listening on {door.printed_entrance(port)}")
    say_how_to_point(door.printed_entrance(port))


def _say_stopped(answering: Answering, open_streams: int) -> None:
    say_stopping(open_streams)
    answering.proxy.stop()
    for line in answering.summary():
        echo(line)
