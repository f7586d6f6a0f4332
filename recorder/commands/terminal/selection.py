"""The session and the exchanges that a command is about."""

from __future__ import annotations

import click

from recorder.commands.terminal.output import echo
from recorder.model.events import LATEST, Session
from recorder.model.text import safe_text
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import count_named
from recorder.store.schema import STALE

exchange_option = click.option(
    "--exchange",
    metavar="N|ID",
    help="Only this exchange: its number in the session (1 is the first), its id, or the beginning of its id.",
)


async def select(log: LogReader, session: str, exchange: str | None) -> tuple[Session, list[Numbered]]:
    """Return a session and its exchanges like `select_exchanges`; say on stderr if others have its name, too."""
    found, chosen = await select_exchanges(log, session, exchange)
    if session == found.name and session not in (found.session_id, LATEST):
        count = await count_named(log, session)
        if count > 1:
            named = f"{count} sessions are named {safe_text(found.name)}"
            echo(f"{named}: this is the newest, {found.session_id}; `recorder sessions` lists them.")
    return found, chosen


async def say_if_stale(log: LogReader) -> None:
    """Write a remark on stderr if the projections lack exchanges that the log has."""
    if await log.rebuild_is_due():
        echo(STALE)
