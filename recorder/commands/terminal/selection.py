"""The session and the exchanges that a command is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recorder.commands.terminal.output import echo
from recorder.errors import UsageError
from recorder.model.events import LATEST, Session
from recorder.model.text import safe_text
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.wire.grouping.rules import cleaned

if TYPE_CHECKING:  # a name or a file is chosen without a database
    from recorder.store.queries.reader import LogReader

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

NEVER_FOUND = f"a session called {LATEST} would never be found by that name, which means the one that was used last"
EXCHANGE_HELP = "Only this exchange: its number in the session (1 is the first), its id, or the beginning of its id."


def new_name(given: str) -> str:
    """Return a name for `--session` under which the session will be found again. Raise `UsageError` for others."""
    name = cleaned(given)
    if name is None or name in (".", ".."):
        raise UsageError("--session needs a visible name that is not a dot: it is part of the clients' URLs.")
    if name == LATEST or _ID.fullmatch(name):
        means = "the session that was used last" if name == LATEST else "an id"
        raise UsageError(f"--session {name} would never be found by that name, which means {means}: give another name.")
    return name


async def select(log: LogReader, session: str, exchange: str | None) -> tuple[Session, list[Numbered]]:
    """Return a session and its exchanges like `select_exchanges`; say on stderr if others have its name, too."""
    found, chosen = await select_exchanges(log, session, exchange)
    if session == found.name and session not in (found.session_id, LATEST):
        count = await log.count_named(session)
        if count > 1:
            named = f"{count} sessions are named {safe_text(found.name)}"
            echo(f"{named}: this is the newest, {found.session_id}; `recorder sessions` lists them.")
    return found, chosen


async def say_if_stale(log: LogReader) -> None:
    """Write a remark on stderr if the projections lack exchanges that the log has."""
    if await log.rebuild_is_due():
        from recorder.store.schema import STALE

        echo(STALE)
