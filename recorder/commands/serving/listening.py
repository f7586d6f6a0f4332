"""A server that listens: the options and checks that `serve` and `mock` share, and one for as long
as a block.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
import msgspec

from recorder.commands.env import DEFAULT_URL
from recorder.commands.serving.tokens import TokenFile, default_path, new_token
from recorder.commands.terminal.options import FILE, joined_options, setting
from recorder.commands.terminal.output import echo
from recorder.errors import RecorderError, UsageError
from recorder.proxy.admission import (
    ANY_HOST,
    TOKEN_REQUIRED,
    Refusal,
    is_local,
    is_preflight,
    parse_origin,
    shared_with,
    shown_token,
)
from recorder.proxy.app import BODY_LIMIT_BYTES, Proxy
from recorder.proxy.http import server
from recorder.proxy.http.server_exchange import App, Bearer, ServerExchange
from recorder.proxy.routing import Upstream, parse_upstream
from recorder.wire.upstreams import UPSTREAMS

Headers = Sequence[tuple[bytes, bytes]]

HOST = "127.0.0.1"
# what 128 bits are in these letters, and what needs no escape in a path
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22,200}")


def _upstreams(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[Upstream]:
    try:
        return [parse_upstream(value) for value in values]
    except RecorderError as error:
        raise click.BadParameter(str(error)) from error


class Token(NamedTuple):
    """The token that clients must send. A generated one is printed; a given one is not."""

    text: str
    is_made: bool = False

    def bearer(self, token: bytes) -> Bearer | None:
        """Return a bearer of no name for this token; None for another."""
        return Bearer() if compare_digest(token, self.text.encode()) else None


def _token(ctx: click.Context, param: click.Parameter, value: str | None) -> Token | None:
    if value is None:
        return None
    if value == "":
        return Token(new_token()[0], is_made=True)
    if not _TOKEN.fullmatch(value):
        raise click.BadParameter(
            "a token has 22 characters or more, of A-Z, a-z, 0-9, - and _; without a value, one is made."
        )
    return Token(value)


def _listenable(ctx: click.Context, param: click.Parameter, value: str) -> str:
    host = value.removeprefix("[").removesuffix("]")
    is_guarded = ctx.params.get("token") is not None or ctx.params.get("tokens") is not None
    if not is_loopback(host) and not is_guarded:
        raise click.BadParameter(
            f"{value!r} is not a loopback address such as 127.0.0.1, ::1 or localhost: "
            "anyone who reaches the port could use your upstreams. Require a token with --token or --tokens."
        )
    return host


def _tokens(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    if value is None:
        return None
    if ctx.params.get("token") is not None:
        raise click.UsageError(
            "--token is one token for all, --tokens is one for each: give one of them."
        )
    return Path(value) if value else default_path()


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if ANY_HOST in values:
        raise click.BadParameter(
            "'*' would let every web page in: name the hosts, or require a token with --token."
        )
    return values


def _origins(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> frozenset[bytes]:
    try:
        return frozenset(map(parse_origin, values))
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


_PUBLIC = [f"{name}=" for name in UPSTREAMS]

upstream_option = click.option(
    "--upstream",
    metavar="NAME[=URL]",
    multiple=True,
    callback=_upstreams,
    help=f"The address of an API: {', '.join(_PUBLIC[:-1])} and {_PUBLIC[-1]} replace the public ones; another NAME is "
    "reachable as /NAME/…. A company that is known by its name needs no URL, as openrouter. Can be given many times.",
)
"""`--upstream`, for a command that listens where nobody needs to know."""

_OPTIONS = (
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8787,
        help="The port; 0 takes a free one.",
    ),
    click.option(
        "--host",
        default=HOST,
        callback=_listenable,
        help="The address to listen on; one that other machines reach needs --token or --tokens.",
    ),
    upstream_option,
    setting("--allow-host", metavar="NAME", multiple=True, callback=_names),
    click.option(
        "--allow-origin",
        metavar="ORIGIN",
        multiple=True,
        callback=_origins,
        help="Let web pages of this origin, such as http://localhost:5173, send requests and read the responses "
        "(CORS). Can be given many times.",
    ),
    click.option(
        "--token",
        metavar="[TOKEN]",
        is_flag=False,
        flag_value="",
        is_eager=True,  # `--host` asks whether there is one
        callback=_token,
        help="The token that clients must send in the header X-Recorder-Token, or as /t/TOKEN in their base URL. "
        "Without a value, one is made. It is neither forwarded nor recorded. In a network, put a proxy with TLS in "
        "front.",
    ),
    click.option(
        "--tokens",
        metavar="[FILE]",
        is_flag=False,
        flag_value="",
        is_eager=True,
        callback=_tokens,
        help="Require one of the tokens that `recorder token add` has made, which say for whom a request counts.",
    ),
    setting(
        "--max-body",
        metavar="MIB",
        type=click.IntRange(min=1, max=64),
        default=BODY_LIMIT_BYTES // 2**20,
    ),
    click.option(
        "--ready-file",
        metavar="PATH",
        type=FILE,
        help="Write the URL of this server to this file while it listens.",
    ),
)


class Door(NamedTuple):
    """Where a server listens, and whom it lets in: the values of its options, by their names."""

    host: str
    port: int
    upstream: list[Upstream]
    allow_host: Collection[str]  # further names of this machine
    allow_origin: Collection[bytes]
    token: Token | None
    tokens: Path | None
    max_body: int  # MiB
    ready_file: Path | None

    @property
    def names(self) -> Collection[str]:
        """The accepted names in Host.

        A client with the token is not a web page, so any name is accepted then.
        """
        return self.allow_host if self.token is None and self.tokens is None else (ANY_HOST,)

    @property
    def make_proxy(self) -> partial[Proxy]:
        """How a proxy is made that lets these in."""
        limit_bytes = self.max_body * 2**20
        return partial(
            Proxy, hosts=self.names, origins=self.allow_origin, body_limit_bytes=limit_bytes
        )

    def guarded(self, app: App) -> App:
        """Return the application behind a check of the token, or itself without one."""
        if self.tokens is not None:
            return _Guarded(app, TokenFile(self.tokens).bearer, self.allow_origin)
        return app if self.token is None else _Guarded(app, self.token.bearer, self.allow_origin)

    def entrance(self, port: int) -> str:
        """Return the URL that a client needs, with the token."""
        token = "" if self.token is None else f"/t/{self.token.text}"
        return f"http://{in_url(self.host)}:{port}{token}"

    def printed_entrance(self, port: int) -> str:
        """Return that URL for a terminal: a token that was given is not repeated."""
        if self.tokens is None and (self.token is None or self.token.is_made):
            return self.entrance(port)
        return self._replace(token=Token("TOKEN")).entrance(port)


listening_options = joined_options("door", Door, *_OPTIONS)
"""Add the options and settings of a listening server, for which the command gets one argument,
`door`.
"""


def say_how_to_point(url: str) -> None:
    """Print how a client is pointed at a server."""
    elsewhere = "" if url == DEFAULT_URL else f" --url {shlex.quote(url)}"
    echo(f'Point a client here: eval "$(recorder env CLIENT{elsewhere})"')


def say_stopping(streams: int) -> None:
    """Print how long open streams have, if there are any."""
    if streams:
        echo(
            f"Stopping: open streams ({streams}) have {server.GRACE_S:g} s to end; Ctrl-C again ends them now."
        )


@asynccontextmanager
async def served(
    app: App, port: int, option: str, grace_s: float = 0, **ends: Any
) -> AsyncIterator[str]:
    """Serve an app on a port of this machine during the block; give its URL.

    `ends` are those of `Server`.

    Raises `RecorderError`, which names the option, if the port is taken.
    """
    front = server.Server(app, HOST, port, **ends)
    try:
        await front.start()
    except RecorderError as error:
        raise RecorderError(str(error).replace("--port", option)) from None
    try:
        yield f"http://{HOST}:{front.port}"
    finally:
        await front.stop(grace_s)


def listening(proxy: Proxy, grace_s: float = 0) -> AbstractAsyncContextManager[str]:
    """Serve a proxy on a free port of this machine during the block; give its URL."""
    return served(proxy, 0, "--port", grace_s, on_drain=proxy.shutdown, on_stop=proxy.stop)


class _Guarded:
    """A check of the token when a request begins: `bearer_of` returns whose it is.

    It removes the token, and is not on the path of the bytes.

    A browser shows no token when it asks for permission: the app answers that, and forwards it to
    nobody. Pages of `origins` may read a 401.
    """

    def __init__(
        self, app: App, bearer_of: Callable[[bytes], Bearer | None], origins: Collection[bytes]
    ) -> None:
        self._app, self._bearer_of, self._origins = app, bearer_of, origins

    async def __call__(self, incoming: ServerExchange) -> None:
        headers = dict(incoming.headers)
        if is_preflight(incoming.method, headers):
            await self._app(incoming)
            return
        incoming.added = shared_with(headers, self._origins)
        token, incoming.path, incoming.headers = shown_token(incoming.path, incoming.headers)
        bearer = None if token is None else self._bearer_of(token)
        if bearer is None:
            refuse(incoming, TOKEN_REQUIRED)
            return
        incoming.bearer = bearer
        await self._app(incoming)


def refuse(incoming: ServerExchange, refusal: Refusal, headers: Headers = ()) -> None:
    """Answer with an error as SDKs know it. The rest of the request is not read."""
    error = {"message": refusal.message, "type": refusal.type, "code": refusal.type}
    headers = [(b"content-type", b"application/json"), *headers, (b"connection", b"close")]
    incoming.respond(refusal.status, headers, msgspec.json.encode({"error": error}))


def refuse_itself(upstreams: Iterable[Upstream], port: int, hosts: Collection[str]) -> None:
    """Raise `UsageError` if an upstream is the server on that port itself."""
    for name, base in upstreams:
        there = urlsplit(base)
        if there.port == port and is_local(in_url(there.hostname or "").encode(), hosts):
            raise UsageError(
                f"Upstream {name} ({base}) would be this recorder itself: give another --port."
            )


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
