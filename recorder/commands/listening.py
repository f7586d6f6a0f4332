"""Where a server of ours listens and what stands behind it: the options that `serve` and `mock` share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from recorder.admission import is_local
from recorder.errors import RecorderError, UsageError
from recorder.routing import Upstream, parse_upstream

F = TypeVar("F", bound=Callable[..., Any])


def _upstreams(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[Upstream]:
    try:
        return [parse_upstream(value) for value in values]
    except RecorderError as error:
        raise click.BadParameter(str(error)) from error


def _loopback(ctx: click.Context, param: click.Parameter, value: str) -> str:
    host = value.removeprefix("[").removesuffix("]")
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise click.BadParameter(
            f"{value!r} is no loopback address such as 127.0.0.1, ::1 or localhost: "
            "whoever reaches the port could use your upstreams, and asking them for a token comes in a later version."
        )
    return host


_OPTIONS = (
    click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 takes a free one."),
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        callback=_loopback,
        help="The address to listen on; a loopback one.",
    ),
    click.option(
        "--upstream",
        metavar="NAME=URL",
        multiple=True,
        callback=_upstreams,
        help="Where an API is: openai=, anthropic= and gemini= replace the public ones; another NAME is reachable as "
        "/NAME/…. Can be given many times.",
    ),
    click.option("--allow-host", metavar="NAME", multiple=True, help="A further name for this machine in Host."),
)


def listening_options(function: F) -> F:
    """`--port`, `--host`, `--upstream` and `--allow-host`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def address(host: str, port: int) -> str:
    """The URL of a server that listens there."""
    return f"http://{_in_url(host)}:{port}"


def refuse_itself(upstreams: Iterable[Upstream], port: int, hosts: Collection[str]) -> None:
    """Raises `UsageError` if an upstream would be the server that listens on that port."""
    for name, base in upstreams:
        there = urlsplit(base)
        if there.port == port and is_local(_in_url(there.hostname or "").encode(), hosts):
            raise UsageError(f"Upstream {name} ({base}) would be this recorder itself: give another --port.")


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
