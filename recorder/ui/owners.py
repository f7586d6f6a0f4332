"""The logs of a viewer that several people use: each reads as a login of the server.

Rules of this file:

* Who reads is a login of its own, whose rows the server decides by the name with which it logged
  in: what one types as SQL, a role or a setting too, changes nothing about that. The viewer itself
  has no login, and no connection is ever used for two owners.
* A login that may see more than its own rows, or become one that does, is refused.
* Passwords and certificates are those that libpq finds by itself (`~/.pgpass`, `sslcert`).
* An owner has a context of its own, and with it all that is kept between two requests. Shared is
  the lock for whole sessions, and the limit of processes for findings: they are about the memory
  of this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sqlalchemy import URL, text

from recorder.archive.opening import open_log
from recorder.errors import StoreBusyError, UsageError
from recorder.proxy.http.server_exchange import Bearer
from recorder.replay.matching.noise import Rules
from recorder.store.engine import reading_of
from recorder.ui.api import JUDGED, Context
from recorder.ui.sql import Questions

LOGS = 16  # open at once, each with up to four connections: a new server has a hundred
BUSY = f"{LOGS} people look at this viewer now: try again when one has left."


@dataclass(slots=True)
class _Kept:
    """The log of an owner, and how many requests use it."""

    context: Context | None = None  # it could not be opened yet
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0

    async def close(self) -> None:
        if self.context is not None:
            self.context.questions.close()
            await self.context.log.close()


class Owners:
    """The people who may look at a log on a server, by their tokens."""

    def __init__(self, url: URL, bearer_of: Callable[[bytes], Bearer | None], rules: Rules) -> None:
        """Raise `UsageError` if a database has no logins: it is a file, which is for one user."""
        reading_of(url).login_url(url, "")
        self.bearer_of = bearer_of
        self._url, self._rules = url, rules
        self._kept: dict[str, _Kept] = {}  # by owner; the one that was used last at the end
        self._loading, self._judging = asyncio.Lock(), asyncio.Semaphore(JUDGED)

    @asynccontextmanager
    async def context(self, bearer: Bearer) -> AsyncIterator[Context]:
        """Give the log as the owner of a token reads it.

        Raise `RecorderError` if there is no login that may read its own rows and no more.
        """
        owner = bearer.owner
        if not owner:
            raise UsageError("This token is of no owner, as whom the viewer could read.")
        kept = self._kept.pop(owner, None) or await self._begun(owner)
        self._kept[owner] = kept
        kept.users += 1
        try:
            async with kept.opening:
                kept.context = kept.context or await self._open(owner)
            yield kept.context
        finally:
            kept.users -= 1

    def stop(self) -> None:
        """Stop all questions."""
        for kept in self._kept.values():
            if kept.context is not None:
                kept.context.questions.close()

    async def close(self) -> None:
        """Close all logs."""
        while self._kept:
            await self._kept.popitem()[1].close()

    async def _begun(self, owner: str) -> _Kept:
        if len(self._kept) >= LOGS:
            idle = next((name for name, kept in self._kept.items() if not kept.users), None)
            if idle is None:
                raise StoreBusyError(BUSY)
            await self._kept.pop(idle).close()
        # another request of this owner may have begun meanwhile
        return self._kept.pop(owner, None) or _Kept()

    async def _open(self, owner: str) -> Context:
        reading = reading_of(self._url)
        url = reading.login_url(self._url, owner)
        log = await open_log(url)
        try:
            await reading.require_own_rows(url, lambda sql: log.rows(text(sql)))
        except BaseException:
            await log.close()
            raise
        return Context(log, url, Questions(url), self._rules, self._loading, self._judging)
