"""The session and the exchanges that a command is about."""

from __future__ import annotations

import re

from recorder.commands.ui.output import echo
from recorder.errors import NotFoundError, UsageError
from recorder.model.events import LATEST, Exchange, Session
from recorder.model.text import safe_text
from recorder.store.reader import Log
from recorder.store.schema import STALE
from recorder.wire.grouping.rules import cleaned

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

NEVER_FOUND = f"a session called {LATEST} would never be found by that name, which means the one that was used last"
EXCHANGE_HELP = "Only this exchange: its number in the session (1 is the first), its id, or the beginning of its id."


def new_name(said: str) -> str:
    """Return a name for `--session` under which the session will be found again. Raise `UsageError` for others.

    Raises `UsageError`.
    """
    name = cleaned(said)
    if name is None or name in (".", ".."):
        raise UsageError("--session needs a visible name that is not a dot: it is part of the clients' URLs.")
    if name == LATEST or _ID.fullmatch(name):
        means = "the session that was used last" if name == LATEST else "an id"
        raise UsageError(f"--session {name} would never be found by that name, which means {means}: give another name.")
    return name


async def select(log: Log, session: str, exchange: str | None) -> tuple[Session, list[tuple[int, Exchange]]]:
    """Return a session and its exchanges with their numbers, in order of their start; or only `exchange`."""
    found = await log.session(session)
    await _say_if_namesakes(log, session, found)
    numbered = list(enumerate(await log.exchanges(found.session_id), 1))
    if exchange is None:
        return found, numbered
    matches = [(number, each) for number, each in numbered if exchange in (str(number), each.exchange_id)]
    matches = matches or [(n, each) for n, each in numbered if len(exchange) >= 4 and _names(exchange, each)]
    if not matches:
        has = {0: "none", 1: "only 1"}.get(len(numbered), f"1 to {len(numbered)}")
        raise NotFoundError(f"Session {found.name} has no exchange {exchange}: it has {has}.")
    if len(matches) > 1:
        raise UsageError(f"{exchange} is the beginning of {len(matches)} exchanges: give more of the id.")
    return found, matches


async def say_if_stale(log: Log) -> None:
    """Print a warning if the projections do not cover the whole log."""
    if await log.rebuild_is_due():
        echo(STALE)


async def _say_if_namesakes(log: Log, session: str, found: Session) -> None:
    """Print a note if several sessions have the name."""
    if session != found.name or session in (found.session_id, LATEST):
        return
    count = await log.count_named(session)
    if count > 1:
        named = f"{count} sessions are named {safe_text(found.name)}"
        echo(f"{named}: this is the newest, {found.session_id}; `recorder sessions` lists them.")


def _names(prefix: str, exchange: Exchange) -> bool:
    return exchange.exchange_id.startswith(prefix)
