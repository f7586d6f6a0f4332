"""`recorder token`: tokens by name, each with an owner, for a recorder that several people use."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from recorder.commands.serving.tokens import (
    NAME_LIMIT,
    NamedToken,
    default_path,
    new_token,
    read_tokens,
    write_tokens,
)
from recorder.commands.terminal.options import FILE, format_option
from recorder.commands.terminal.output import echo, write_json, write_line
from recorder.commands.terminal.table import Column, write_table
from recorder.errors import NotFoundError, UsageError
from recorder.model.text import safe_text
from recorder.proxy.routing import parse_tags
from recorder.wire.content import LEVELS, Level

file_option = click.option(
    "--file",
    type=FILE,
    help="The file with the tokens, as `recorder serve --tokens FILE` reads it. [default: tokens.json beside your own "
    "recorder.toml]",
)


@click.group()
def command() -> None:
    """Manage the tokens of `recorder serve --tokens`: whose each is, and what it may use.

    A request counts for the owner and the team of the token that it shows:
    `recorder usage --by owner`.
    """


@command.command()
@click.argument("name")
@click.option(
    "--owner", metavar="NAME", help="Who uses it, for `recorder usage --by owner`. [default: NAME]"
)
@click.option(
    "--team", metavar="NAME", help="The team of the owner, for `recorder usage --by team`."
)
@click.option(
    "--tag", metavar="TAG", multiple=True, help="A tag of each request. Can be given many times."
)
@click.option(
    "--upstream", metavar="NAME", multiple=True, help="Only this upstream. Can be given many times."
)
@click.option(
    "--content",
    type=click.Choice(LEVELS),
    default="full",
    help="What is kept of bodies, at most, as with `recorder serve --content`.",
)
@file_option
def add(
    name: str,
    owner: str | None,
    team: str | None,
    tag: tuple[str, ...],
    upstream: tuple[str, ...],
    content: Level,
    file: Path | None,
) -> None:
    """Make a token, and print it: once, since the file has only its digest.

    A running server knows it at once.

    \b
    recorder token add ann-laptop --owner ann --team search
    recorder token add ci --tag nightly --upstream openai
    """
    path = file or default_path()
    for named in (name, owner, team):
        if named is not None and not (
            named.strip() and len(named) <= NAME_LIMIT and named.isprintable()
        ):
            raise UsageError(f"A name has 1 to {NAME_LIMIT} characters that can be printed.")
    known = read_tokens(path)
    if any(token.name == name for token in known):
        raise UsageError(
            f"There is a token {name!r} already: revoke it first, or give another name."
        )
    text, digest = new_token()
    made = NamedToken(
        name, digest, owner or name, team, tuple(parse_tags(",".join(tag))), upstream, content
    )
    write_tokens(path, [*known, made])
    write_line(text)
    echo(safe_text(f"Give it to its owner: it is not shown again. {path} has its digest."))


@command.command("list")
@format_option("json", "jsonl")
@file_option
def list_command(file: Path | None, format: str) -> None:
    """List the tokens, without the tokens themselves.

    \b
    recorder token list
    """
    path = file or default_path()
    tokens = read_tokens(path)
    if format != "table":
        write_json((msgspec.structs.asdict(token) for token in tokens), format)
    elif tokens:
        lines = []
        for token in tokens:
            tags, upstreams = ", ".join(token.tags), ", ".join(token.upstreams)
            lines.append([token.name, token.owner, token.team, tags, upstreams, token.content])
        columns = [
            Column(name, least=NAME_LIMIT)
            for name in ("name", "owner", "team", "tags", "upstreams", "content")
        ]
        write_table(columns, lines)
    if not tokens:
        raise NotFoundError(f"There is no token in {path}: `recorder token add NAME` makes one.")


@command.command()
@click.argument("name")
@file_option
def revoke(name: str, file: Path | None) -> None:
    """Delete a token: a running server refuses it at once, and ends what is open of it within
    seconds.

    \b
    recorder token revoke ann-laptop
    """
    path = file or default_path()
    known = read_tokens(path)
    left = [token for token in known if token.name != name]
    if left == known:
        raise NotFoundError(
            f"There is no token {name!r} in {path}: `recorder token list` has the names."
        )
    write_tokens(path, left)
    echo(safe_text(f"Revoked: {name}"))
