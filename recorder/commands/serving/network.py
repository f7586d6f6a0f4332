"""The settings of a command that connects to upstreams: the way there, and whom TLS trusts.

A proxy of the environment is used only where it is asked for: a request with an API key goes
nowhere that nobody named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from recorder.commands.terminal.options import FILE, joined_options, setting
from recorder.errors import UsageError
from recorder.proxy.http.network import (
    Exemption,
    Network,
    UpstreamProxy,
    exemptions_of,
    proxies_of,
    proxy_of,
)

ENVIRONMENT = "env"
CONNECTING = ("serve", "run", "mock", "probe", "resend", "bisect")
"""The commands with these settings."""

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")  # the small name first, as of the others

NAMES = ("upstream_proxy", "no_proxy", "ca_file", "client_cert", "client_key")
"""The parameters of these settings."""


def network_of(
    environment: Mapping[str, str],
    *,
    upstream_proxy: str | None,
    no_proxy: Iterable[str],
    ca_file: Path | None,
    client_cert: Path | None,
    client_key: Path | None,
) -> Network:
    """Return the network of these settings.

    Raises `UsageError`; files are read when a transport is made.
    """
    exemptions: list[Exemption] = []
    for text in no_proxy:
        exemptions += exemptions_of(text, "no-proxy")
    if exemptions and upstream_proxy is None:
        raise UsageError(
            "no-proxy makes exceptions from upstream-proxy: set that, or leave it out."
        )
    if client_key is not None and client_cert is None:
        raise UsageError("client-key belongs to a certificate: set client-cert too.")
    proxies, more = _proxies(upstream_proxy, environment)
    return Network(proxies, (*exemptions, *more), ca_file, client_cert, client_key)


network_settings = joined_options(
    "network",
    partial(network_of, os.environ),
    setting("--client-key", metavar="FILE", type=FILE),
    setting("--client-cert", metavar="FILE", type=FILE),
    setting("--ca-file", metavar="FILE", type=FILE),
    setting("--no-proxy", metavar="HOSTS", multiple=True),
    setting("--upstream-proxy", metavar="URL|env"),
)
"""Add the settings, for which the command gets one argument, `network`."""


def settled(verb: str, command: click.Command, settings: Mapping[str, Any]) -> Network:
    """Return the network of a command that is called without options: that of its variables, and of
    the `settings` of files.
    """
    program = click.Context(
        click.Group("recorder"), info_name="recorder", auto_envvar_prefix="RECORDER"
    )
    alone = click.Command(verb, params=[each for each in command.params if each.name in NAMES])
    context = alone.make_context(verb, [], program, default_map=dict(settings))
    return network_of(os.environ, **context.params)


def _proxies(
    text: str | None, environment: Mapping[str, str]
) -> tuple[dict[str, UpstreamProxy], Iterable[Exemption]]:
    """Return the proxies by scheme, and the exceptions that belong to them."""
    if not text:
        return {}, ()
    if text != ENVIRONMENT:
        proxy = proxy_of(text, "upstream-proxy")
        return {"http": proxy, "https": proxy}, ()
    named = next((name for name in _EXCEPTIONS if environment.get(name)), None)
    return proxies_of(environment), exemptions_of(environment[named], named) if named else ()
