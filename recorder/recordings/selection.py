"""The exchanges of a session that a person names: all, or one by its number or id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from recorder.errors import NotFoundError, UsageError
from recorder.model.events import Exchange, Session
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import exchanges_named, session_named


class NoSuchExchangeError(NotFoundError):
    """The session is there, but not that exchange of it."""


Numbered = tuple[int, Exchange]  # with its number in the session; 1 is the first
Select = Callable[[LogReader, str, str | None], Awaitable[tuple[Session, list[Numbered]]]]


def readings(ref: str) -> list[tuple[str, str | None]]:
    """Return a name whole, and without the part behind its last colon: a name may have a colon in
    it.
    """
    name, colon, part = ref.rpartition(":")
    return [(ref, None), (name, part)] if colon and name and part else [(ref, None)]


async def select_exchanges(
    log: LogReader, session: str, exchange: str | None
) -> tuple[Session, list[Numbered]]:
    """Return a session and its exchanges, in order of their start; or the one whose number or id is
    `exchange`.

    Raises `NotFoundError` if there is none, `UsageError` if it is the beginning of several ids.
    """
    found = await session_named(log, session)
    if exchange is None:
        return found, list(enumerate(await log.exchanges(found.session_id), 1))
    matches = await exchanges_named(log, found.session_id, exchange)
    if not matches:
        last = len(await log.exchanges(found.session_id))
        has = {0: "none", 1: "only 1"}.get(last, f"1 to {last}")
        raise NoSuchExchangeError(f"Session {found.name} has no exchange {exchange}: it has {has}.")
    if len(matches) > 1:
        raise UsageError(
            f"{exchange} is the beginning of {len(matches)} exchanges: give more of the id."
        )
    return found, matches
