"""`recorder mock`: recordings as a server, which answers requests with what was recorded for them."""

from __future__ import annotations

import logging
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from recorder import server
from recorder.admission import refusal
from recorder.cassettes.writing import save
from recorder.commands.database import database_option
from recorder.commands.env import DEFAULT_URL
from recorder.commands.listening import address, listening_options, refuse_itself
from recorder.commands.output import echo, safe_text
from recorder.commands.recordings import recordings
from recorder.commands.replay import Speed
from recorder.commands.settings import match_rules
from recorder.errors import RecorderError, UsageError
from recorder.matching import Match, Matcher, Miss, Request
from recorder.proxy import BODY_LIMIT_BYTES, Message, Proxy, Receive, Send
from recorder.recorded import Recorded
from recorder.routing import UPSTREAMS, Routes, Upstream, parse_upstream
from recorder.transports.fault_forms import FORMS, parse_fault
from recorder.transports.faults import Fault, FaultTransport
from recorder.transports.replay import ReplayTransport
from recorder.transports.upstream import UpstreamTransport

log = logging.getLogger(__name__)

REQUESTS = "/_recorder/requests"
LINE_LIMIT = 600  # characters of what is said about a miss: the answer has the whole


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@click.option(
    "--cassette",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A cassette (.sse.jsonl), besides the sessions. Can be given many times.",
)
@click.option(
    "--speed", type=Speed(), metavar="1|N|max", default="1", show_default=True, help="Times the original speed."
)
@click.option("--strict", is_flag=True, help="Give each recording once; else the last of equal ones is given again.")
@click.option(
    "--otherwise",
    type=click.Choice(["forward", "404", "503"]),
    default="404",
    show_default=True,
    help="What is not recorded: forwarded to its upstream, or refused with that status.",
)
@click.option(
    "--fault",
    metavar="SPEC",
    multiple=True,
    help=f"What goes wrong with every response: {'; '.join(FORMS.values())}. Can be given many times.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the faults that are left to chance.")
@click.option("--allow-gaps", is_flag=True, help="Take sessions although some of their bytes were not kept.")
@listening_options
@click.option(
    "--ready-file",
    metavar="PATH",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file that has the URL of this server while it listens.",
)
@database_option
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
    port: int,
    host: str,
    upstream: list[Upstream],
    allow_host: tuple[str, ...],
    ready_file: Path | None,
) -> None:
    """Serve recordings to clients: each request is answered with what was recorded for one like it.

    SESSION is an id, the beginning of one, a name, or `latest`, which is taken if no cassette is named either. Bytes,
    times and failures are the recorded ones. What was asked, what answered and what is not used yet is at
    `/_recorder/requests`. Stop with Ctrl-C.

    \b
    recorder mock                                  # then: OPENAI_BASE_URL=http://127.0.0.1:8787/v1
    recorder mock latest --speed max --strict
    recorder mock latest --fault cut@12 --port 0 --ready-file mock.url
    """
    _log_to_stderr()
    forwards, faults, rules = otherwise == "forward", _faults(fault), match_rules()
    if forwards:
        refuse_itself(Routes(upstream).upstreams, port, allow_host)

    async def serve() -> None:
        held = await recordings(db, sessions, cassette, allow_gaps=allow_gaps)
        matcher = _Telling(held, rules, strict=strict)
        last = UpstreamTransport() if forwards else int(otherwise)
        transport: Any = ReplayTransport(matcher, speed=speed, otherwise=last)
        if faults:
            transport = FaultTransport(transport, faults, seed=seed)
        proxy = Proxy(transport, Routes([*_recorded_upstreams(held), *upstream]), hosts=allow_host)
        try:
            await server.serve(
                Mock(proxy, matcher, allow_host),
                *(host, port),
                on_ready=partial(_say_ready, len(held), host, ready_file),
                on_stop=partial(_say_stopped, matcher),
                on_drain=proxy.shutdown,
            )
        finally:
            await transport.aclose()

    _remove(ready_file)
    try:
        server.run(serve())
    finally:
        _remove(ready_file)


class Mock:
    """The ASGI app: the proxy, and a page that says what was asked of it."""

    def __init__(self, proxy: Proxy, matcher: Matcher, hosts: Collection[str]) -> None:
        self._proxy, self._matcher = proxy, matcher
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if not self._is_own(scope):
            await self._proxy(scope, receive, send)
            return
        body = msgspec.json.encode(self._page())
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _is_own(self, scope: Message) -> bool:
        """Whether this is a question for the page, from somebody who may ask: what else there is, the proxy refuses."""
        if scope["type"] != "http" or scope["path"] != REQUESTS or scope["method"] not in ("GET", "HEAD"):
            return False
        hosts = Counter(name for name, _ in scope["headers"])[b"host"]
        return refusal(scope["method"], dict(scope["headers"]), hosts, self._hosts, BODY_LIMIT_BYTES) is None

    def _page(self) -> Mapping[str, Any]:
        return {
            "requests": self._matcher.seen(),
            "unused": [
                {"method": each.method, "target": each.target, "upstream": each.upstream, "exchange_id": id}
                for each, id in ((one.request, one.exchange.exchange_id) for one in self._matcher.unused())
            ],
        }


class _Telling(Matcher):
    """Says on stderr what it has no answer to."""

    def match(self, request: Request) -> Match | Miss:
        found = super().match(request)
        if isinstance(found, Miss):
            said = " ".join(found.message.split())
            log.warning("%s", said if len(said) <= LINE_LIMIT else f"{said[:LINE_LIMIT]}…")
        return found


class _Visible(logging.Formatter):
    """Recorded text on its way to a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_text(super().format(record))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Visible("recorder: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _faults(specs: Iterable[str]) -> list[Fault]:
    try:
        return [parse_fault(spec) for spec in specs]
    except ValueError as error:
        raise UsageError(str(error)) from None


def _recorded_upstreams(recordings: Iterable[Recorded]) -> Iterator[Upstream]:
    """An entry of the table for each recorded upstream that only the recorder knew: `/NAME/…` is found again."""
    for name in {each.request.upstream for each in recordings} - UPSTREAMS.keys():
        with suppress(UsageError):  # the name came from outside
            yield parse_upstream(f"{name}=http://{name}.invalid")


def _say_ready(count: int, host: str, ready_file: Path | None, port: int) -> None:
    url = address(host, port)
    _write(ready_file, url)
    echo(f"Answering with {count} recorded exchange{'' if count == 1 else 's'}")
    echo(f"Listening on {url}")
    elsewhere = "" if url == DEFAULT_URL else f" --url {shlex.quote(url)}"
    echo(f'Point a client here: eval "$(recorder env CLIENT{elsewhere})"')


def _say_stopped(matcher: Matcher, open_streams: int) -> None:
    if open_streams:
        echo(f"Stopping: open streams ({open_streams}) have {server.GRACE_S:g} s to end; Ctrl-C again ends them now.")
    misses = sum(seen.how == "miss" for seen in matcher.seen())
    echo(f"Requests: {len(matcher.seen())}, not recorded: {misses}. Recordings not used: {len(matcher.unused())}.")


def _write(path: Path | None, url: str) -> None:
    """Raises `RecorderError`."""
    if path is None:
        return
    try:
        save(path, [f"{url}\n".encode()])
    except OSError as error:
        raise RecorderError(f"The ready file {path} cannot be written: {error.strerror}.") from error


def _remove(path: Path | None) -> None:
    if path is not None:
        with suppress(OSError):
            path.unlink()
