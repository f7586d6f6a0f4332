"""`recorder env`: the settings that point a client here, ready for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from urllib.parse import quote

import click

_CODEX = (
    "model_provider=recorder",
    'model_providers.recorder={{name="recorder", base_url="{url}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}',
)


def _export(**variables: str) -> Callable[[str], str]:
    return lambda url: "\n".join(
        f"export {name}={shlex.quote(value.format(url=url))}" for name, value in variables.items()
    )


def _codex(url: str) -> str:
    flags = " ".join(f"-c {shlex.quote(setting.format(url=url))}" for setting in _CODEX)
    return f"alias codex={shlex.quote(f'codex {flags}')}"


# How each client takes its base URL, and whether with /v1 in it.
CLIENTS: dict[str, Callable[[str], str]] = {
    "openai": _export(OPENAI_BASE_URL="{url}/v1"),
    "anthropic": _export(ANTHROPIC_BASE_URL="{url}"),
    "gemini": _export(GOOGLE_GEMINI_BASE_URL="{url}"),
    "codex": _codex,
    "claude": _export(ANTHROPIC_BASE_URL="{url}"),
    "langchain": _export(OPENAI_API_BASE="{url}/v1", OPENAI_BASE_URL="{url}/v1"),
    "vercel": _export(OPENAI_BASE_URL="{url}/v1", ANTHROPIC_BASE_URL="{url}/v1"),
}


@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--url", default="http://127.0.0.1:8787", show_default=True, help="Where `recorder serve` listens.")
@click.option("--session", metavar="NAME", help="Record everything under this session.")
def command(client: str, url: str, session: str | None) -> None:
    """Print the settings that point CLIENT here, as shell commands.

    \b
    eval "$(recorder env openai)"
    eval "$(recorder env codex --session refactoring)" && codex
    """
    if session is not None:
        url = f"{url.rstrip('/')}/s/{quote(session, safe='')}"
    click.echo(CLIENTS[client](url.rstrip("/")))
