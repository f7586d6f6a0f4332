"""`recorder env`: the settings that point a client here, ready for a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import click

from recorder.commands.clients import CODEX, VARIABLES, codex_arguments
from recorder.commands.output import write_line
from recorder.commands.selection import new_name

DEFAULT_URL = "http://127.0.0.1:8787"

# Of ASCII, what needs no escape in a URL, a TOML string or a format, and begins neither query nor fragment.
_PLAIN = re.compile(r"[!$-;=@-\[\]-_a-z~]+")


def _export(variables: Mapping[str, str], url: str) -> str:
    return "\n".join(f"export {name}={shlex.quote(value.format(url=url))}" for name, value in variables.items())


def _codex(url: str) -> str:
    """A function and not an alias: shells expand no alias on the line that makes it, and none in a script."""
    return f'codex() {{ command codex {shlex.join(codex_arguments(url))} "$@"; }}'


def _base_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and _PLAIN.fullmatch(value)
    except ValueError:
        good = False
    if not good:
        raise click.BadParameter(f"{value!r} is no http or https URL, such as http://127.0.0.1:8787.")
    return value.rstrip("/")


@click.command()
@click.argument("client", type=click.Choice(sorted({*VARIABLES, CODEX})))
@click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    callback=_base_url,
    help="Where `recorder serve` listens.",
)
@click.option("--session", metavar="NAME", help="Record everything under this session.")
def command(client: str, url: str, session: str | None) -> None:
    """Print the settings that point CLIENT here, as shell commands.

    \b
    eval "$(recorder env openai)"
    eval "$(recorder env codex --session refactoring)" && codex
    """
    if session is not None:
        url = f"{url}/s/{quote(new_name(session), safe='')}"
    write_line(_codex(url) if client == CODEX else _export(VARIABLES[client], url))
