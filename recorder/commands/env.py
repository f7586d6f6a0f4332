"""`recorder env`: the settings that point a client here, ready for a shell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlsplit

import click

from recorder.commands.clients.codex import (
    CHATGPT,
    PUBLIC,
    Provider,
    effective,
    override,
    own_name,
    upstream,
)
from recorder.commands.clients.files import FILES
from recorder.commands.clients.presets import ALIASES, CODEX, KEYS_OF, VARIABLES, past_proxy
from recorder.commands.clients.shim import read
from recorder.commands.terminal.output import echo, write_line
from recorder.commands.terminal.session_names import new_name
from recorder.errors import UsageError
from recorder.model.text import safe_text
from recorder.wire.providers import BY_NAME

DEFAULT_URL = "http://127.0.0.1:8787"

# Of ASCII, what needs no escape in a URL, a TOML string or a format, and begins neither query nor
# fragment.
_PLAIN = re.compile(r"[!$-;=@-\[\]-_a-z~]+")


def _export(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield f"export {name}={shlex.quote(value)}"


def _settings(client: str, url: str) -> str:
    """Return the lines for a shell, or for the file of a client that reads no variable; then say
    which file that is.
    """
    if client in FILES:
        place, text = FILES[client]
        echo(f"No variable points {client} here. This belongs into {place}:")
        return text.replace("{url}", url)
    if client == CODEX:
        lines = [_codex(url)]
    else:
        lines = list(
            _export({name: value.format(url=url) for name, value in VARIABLES[client].items()})
        )
        _say_what_is_needed(client)
    return "\n".join([*lines, *_export(past_proxy(os.environ, urlsplit(url).hostname or ""))])


def _say_what_is_needed(client: str) -> None:
    """Print what a company needs that `recorder serve` does not forward to by itself."""
    company = BY_NAME.get(client)
    if company is None or company.is_default:
        return
    argument = client if company.base_url else f"{client}=URL"
    keys = [KEYS_OF[name] for name in company.environment if name in KEYS_OF] or [
        company.key_variable or ""
    ]
    echo(
        f"Start `recorder serve` with --upstream {argument}, and put the key into {' or '.join(keys)}."
    )


def _codex(url: str) -> str:
    """Return a shell function.

    An alias would not work on the line that defines it, nor in a script.
    """
    provider = effective([], os.environ, read)
    assert provider is not None, "without arguments Codex asks"
    found = override(provider, f"{url}{_path(provider)}", os.environ)
    variables = [f"{name}={shlex.quote(value)} " for name, value in found.variables.items()]
    return f'codex() {{ {"".join(variables)}command codex {shlex.join(found.as_options())} "$@"; }}'


def _path(provider: Provider) -> str:
    """Return the path of a provider below `recorder serve`; print the upstream if it must be
    configured.
    """
    if provider.base == PUBLIC:
        return "/v1"
    name = own_name(provider)
    if not provider.base:
        raise UsageError(
            "It is unknown whether Codex is logged in with ChatGPT or with a key, because its login is not in "
            "auth.json: use `recorder run --upstream openai=URL -- codex`, with the URL of its server."
        )
    if provider.base != CHATGPT:
        base = upstream(name, provider).base.rstrip("/")
        echo(
            f"Codex asks {safe_text(provider.base)}: start `recorder serve` with --upstream {name}={base}"
        )
    return f"/{name}" + (
        "/v1" if provider.kind == "local" and provider.base.endswith("/v1") else ""
    )


def _base_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        parts = urlsplit(value)
        good = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and _PLAIN.fullmatch(value)
        )
    except ValueError:
        good = False
    if not good:
        raise click.BadParameter(
            f"{value!r} is not an http or https URL such as http://127.0.0.1:8787."
        )
    return value.rstrip("/")


@click.command()
@click.argument(
    "client", metavar="CLIENT", type=click.Choice(sorted({*VARIABLES, *FILES, *ALIASES, CODEX}))
)
@click.option(
    "--url",
    default=DEFAULT_URL,
    callback=_base_url,
    help="The URL of `recorder serve`.",
)
@click.option("--session", metavar="NAME", help="Record everything under this session.")
def command(client: str, url: str, session: str | None) -> None:
    """Print the settings that point CLIENT here, as shell commands.

    CLIENT is a program or a library, as aider, claude, codex, copilot, gemini, langchain, litellm,
    llamaindex, llm, openai, opencode, qwen or vercel, or a company, as bedrock, groq, mistral,
    ollama or openrouter; a wrong name lists all. For boto3, cline, continue, droid, kilo, kimi and
    pi, which read no variable, it prints what belongs into their file, with MODEL and KEY for you
    to fill in. Under an HTTP_PROXY it excepts the recorder from that proxy.

    The settings for Codex fit its current login and provider, without a profile. If
    `recorder serve` needs an option for a provider, it is printed on stderr.

    \b
    eval "$(recorder env openai)"
    eval "$(recorder env openrouter)"  # recorder serve --upstream openrouter
    eval "$(recorder env codex --session refactoring)" && codex
    """
    if session is not None:
        url = f"{url}/s/{quote(new_name(session), safe='')}"
    write_line(_settings(ALIASES.get(client, client), url))
