"""`recorder tap`: the lines between a client and a program that it starts, recorded, or answered
from a recording.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

from recorder.commands.clients import child
from recorder.errors import UsageError
from recorder.program import load
from recorder.wire.content import LEVELS, Level

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@click.command()
@click.option(
    "--session", metavar="NAME", help="Record into the session of this name. [default: a new one]"
)
# Not `database_option`: what it imports takes a third of a second, in which the client would wait
# for its program.
@click.option(
    "--db",
    metavar="URL|PATH",
    envvar="RECORDER_DB",
    help="The database: a path or a SQLAlchemy URL. [default: a file in the user's data directory]",
)
@click.option(
    "--content",
    type=click.Choice(LEVELS),
    help="What is kept of lines, as with `recorder serve --content`. [default: full]",
)
@click.option(
    "--replay", metavar="SESSION|FILE", help="Start nothing; answer from this session or cassette."
)
@click.option(
    "--speed",
    metavar="1|N|max",
    default="1",
    help="In a replay: a factor on the original speed, or max.",
)
@click.argument("name")
@click.argument("words", metavar="-- CMD [ARG]...", nargs=-1, type=click.UNPROCESSED)
def command(
    session: str | None,
    db: str | None,
    content: Level | None,
    replay: str | None,
    speed: str,
    name: str,
    words: tuple[str, ...],
) -> None:
    """Start CMD, and record the lines that a client writes to it and reads from it.

    Clients start this in place of CMD: bytes pass at once and unchanged, and so do signals and the
    exit code. NAME is that of the program in the log. Each run is an exchange, each line of either
    side an event with its time. MCP, ACP and Claude Code's stream-json are understood, with calls
    of tools and their results: the first line shows which one it is. What the program writes to
    stderr is not recorded. docs/mcp.md has the settings of clients.

    With --replay the client gets the recorded lines for its own: ids do not count, and those in
    answers are its own. A request that was not recorded gets an error, and the exit code is 5.

    \b
    recorder tap files -- npx -y @modelcontextprotocol/server-filesystem .
    recorder tap files --replay latest --speed max
    recorder tap claude -- claude -p --output-format stream-json hello
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a program: use letters, digits, '.', '_' and '-'."
        )
    if replay is not None:
        if words or session is not None or content is not None:
            raise UsageError(
                "--replay starts and records nothing: leave CMD, --session and --content out."
            )
        sys.exit(load("recorder.commands.serving.standing_in:stand_in")(name, replay, speed, db))
    if not words:
        raise UsageError(
            "Name the program: recorder tap NAME -- CMD; or a recording of it with --replay."
        )
    sys.exit(_tapped(name, words, session, db, content or "full"))


def _tapped(
    name: str, words: tuple[str, ...], session: str | None, db: str | None, content: Level
) -> int:
    """Start the program first: it gets ready while what records it is loaded."""
    code = child.refusal(words, os.environ)
    if code is not None:
        return code
    streams = _taken_streams()
    process = child.piped(words)
    if process is None:
        return child.NOT_EXECUTABLE
    tap: Any = load("recorder.commands.serving.tapping:tap")
    return int(tap(process, streams, name, words, session, db, content))


def _taken_streams() -> tuple[int, int]:
    """Return the streams of the client, which from here on nothing else reads, writes or inherits."""
    streams = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return streams
