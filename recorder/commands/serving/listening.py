"""Where a server of ours listens, who may ask, and what stands behind it: the options that `serve` and `mock` share."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from recorder.errors import RecorderError, UsageError
from recorder.proxy.admission import ANY_HOST, Refusal, is_local, without_token
from recorder.proxy.app import BODY_LIMIT_BYTES
from recorder.proxy.http.server_exchange import App, ServerExchange
from recorder.proxy.routing import Upstream, parse_upstream
from recorder.wire.upstreams import UPSTREAMS

F = TypeVar("F", bound=Callable[..., Any])

TOKEN_BYTES = 24  # of chance in a token that is made here
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22,200}")  # what 128 bits are in these letters, and what needs no escape in a path


def _upstreams(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[Upstream]:
    try:
        return [parse_upstream(value) for value in values]
    except RecorderError as error:
        raise click.BadParameter(str(error)) from error


class Token(NamedTuple):
    """What clients have to show. One that was made here is said to the user; one that he gave he knows."""

    text: str
    is_made: bool = False

    def as_said(self) -> Token:
        return self if self.is_made else Token("TOKEN")


def _token(ctx: click.Context, param: click.Parameter, value: str | None) -> Token | None:
    if value is None:
        return None
    if value == "":
        return Token(secrets.token_urlsafe(TOKEN_BYTES), is_made=True)
    if not _TOKEN.fullmatch(value):
        raise click.BadParameter(
            "a token has 22 characters or more, of A-Z, a-z, 0-9, - and _; without one it is made."
        )
    return Token(value)


def _listenable(ctx: click.Context, param: click.Parameter, value: str) -> str:
    host = value.removeprefix("[").removesuffix("]")
    if not _is_loopback(host) and ctx.params.get("token") is None:
        raise click.BadParameter(
            f"{value!r} is no loopback address such as 127.0.0.1, ::1 or localhost: "
            "whoever reaches the port could use your upstreams. Ask them for a token: --token."
        )
    return host


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if ANY_HOST in values:
        raise click.BadParameter("'*' would let every web page in: name the hosts, or ask for a token with --token.")
    return values


_PUBLIC = [f"{name}=" for name in UPSTREAMS]

upstream_option = click.option(
    "--upstream",
    metavar="NAME=URL",
    multiple=True,
    callback=_upstreams,
    help=f"Where an API is: {', '.join(_PUBLIC[:-1])} and {_PUBLIC[-1]} replace the public ones; another NAME is "
    "reachable as /NAME/…. Can be given many times.",
)
"""`--upstream`, for a command that listens where nobody needs to know."""

_OPTIONS = (
    click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 takes a free one."),
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        callback=_listenable,
        help="The address to listen on; one that other machines reach needs --token.",
    ),
    upstream_option,
    click.option(
        "--allow-host",
        metavar="NAME",
        multiple=True,
        callback=_names,
        help="A further name for this machine in Host.",
    ),
)


def listening_options(function: F) -> F:
    """`--port`, `--host`, `--upstream` and `--allow-host`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


token_option = click.option(
    "--token",
    metavar="[TOKEN]",
    is_flag=False,
    flag_value="",
    is_eager=True,  # `--host` asks whether there is one
    callback=_token,
    help="What clients must show, as the header X-Recorder-Token or in their base URL as /t/TOKEN. Without a value one "
    "is made. It is neither forwarded nor recorded. Over a network, put something that does TLS before it.",
)
"""`--token`, without which a command listens on loopback only."""

max_body_option = click.option(
    "--max-body",
    metavar="MIB",
    type=click.IntRange(min=1, max=64),
    default=BODY_LIMIT_BYTES // 2**20,
    show_default=True,
    help="The largest request body that is let through.",
)


def address(host: str, port: int) -> str:
    """The URL of a server that listens there."""
    return f"http://{_in_url(host)}:{port}"


def names(allowed: Collection[str], token: Token | None) -> Collection[str]:
    """What may stand in Host. Whoever shows the token is no web page that only found a name for this machine."""
    return (ANY_HOST,) if token is not None else allowed


def entrance(url: str, token: Token | None) -> str:
    """What a client takes for the URL of a server."""
    return url if token is None else f"{url}/t/{token.text}"


def guarded(app: App, token: Token | None) -> App:
    """The app for those who show the token; for everybody, if there is none."""
    return app if token is None else _Guarded(app, token.text.encode())


class _Guarded:
    """Judges when a request begins, takes the token from it, and is not there when its bytes pass."""

    def __init__(self, app: App, token: bytes) -> None:
        self._app, self._token = app, token

    async def __call__(self, incoming: ServerExchange) -> None:
        shown = without_token(self._token, incoming.path, incoming.headers)
        if isinstance(shown, Refusal):
            _refuse(incoming, shown)
            return
        incoming.path, incoming.headers = shown
        await self._app(incoming)


def _refuse(incoming: ServerExchange, refusal: Refusal) -> None:
    error = {"message": refusal.message, "type": refusal.type, "code": refusal.type}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    incoming.respond(refusal.status, headers, msgspec.json.encode({"error": error}))


def refuse_itself(upstreams: Iterable[Upstream], port: int, hosts: Collection[str]) -> None:
    """Raises `UsageError` if an upstream would be the server that listens on that port."""
    for name, base in upstreams:
        there = urlsplit(base)
        if there.port == port and is_local(_in_url(there.hostname or "").encode(), hosts):
            raise UsageError(f"Upstream {name} ({base}) would be this recorder itself: give another --port.")


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
