"""`recorder mcp`: the log for agents, as tools of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import sys

import click

from recorder.archive.place import chosen_url
from recorder.commands.agents.answer import LEAST_CHARS
from recorder.commands.terminal.options import chosen_wait_s, log_options
from recorder.commands.terminal.output import echo
from recorder.errors import missing_extra
from recorder.program import load

# characters, some 10,000 tokens: above that, clients warn, cut, or refuse the answer of a tool
MAX_ANSWER = 30_000


@click.command()
@click.option(
    "--max-answer",
    type=click.IntRange(min=LEAST_CHARS),
    default=MAX_ANSWER,
    metavar="CHARACTERS",
    help="The largest answer. What does not fit is named with the arguments that ask for it.",
)
@log_options
def command(db: str | None, max_answer: int) -> None:
    """Serve the log to an agent over stdin and stdout, by the Model Context Protocol (MCP).

    Agents start it themselves: docs/mcp.md has the settings for Claude Code, Codex and Cursor. It
    has six tools, which only read: sessions, show, events, query, lint, diff. Each gives the JSON
    of the command of its name.

    It needs the extra mcp: `pip install '.[mcp]'` in a checkout of recorder.

    \b
    recorder mcp
    recorder mcp --db recordings.db --max-answer 60000
    """
    try:
        serve = load("recorder.commands.agents.server:serve")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("recorder"):
            raise
        raise missing_extra("`recorder mcp`", "mcp") from error
    if sys.stdin is not None and sys.stdin.isatty():
        echo(
            "This waits for an agent at stdin; docs/mcp.md says how one starts it. Ctrl-C ends it."
        )
    asyncio.run(serve(chosen_url(db), chosen_wait_s(), max_answer))
