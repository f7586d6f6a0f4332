"""A log of sessions as one may publish them, in a temporary folder: what `export --anonymous`
writes, in any format.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import URL, text

from recorder.archive.opening import open_log
from recorder.commands.terminal.file_log import temporary_log
from recorder.commands.terminal.options import current_url
from recorder.commands.terminal.recordings import Place, located, selected
from recorder.model.events import Session
from recorder.recordings.anonymous import Anonymizer
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.store.sql import struct_of
from recorder.store.write.writer import Store
from recorder.wire.content.filler import KEY_BYTES

_SESSIONS = text("""SELECT session_id, created_ns, name, source, labels, origin FROM sessions AS s
WHERE EXISTS (SELECT 1 FROM exchanges AS e WHERE e.session_id = s.session_id AND e.started_ns >= :since)
ORDER BY session_id""")


@contextmanager
def anonymous_session(
    db: str | None, ref: str, exchange: str | None
) -> Iterator[tuple[Place, str | None]]:
    """Give the log with a session as one may publish it, and the number of the exchange that is
    named, if one is.
    """
    with temporary_log() as url:
        yield asyncio.run(_copy_selected(db, ref, exchange, url))


@contextmanager
def anonymous_sessions(db: str | None, only: str | None, since: int | None) -> Iterator[Place]:
    """Give the log with all sessions since a time, or with one."""
    with temporary_log() as url:
        if only is not None:
            with located(db, only) as place:
                yield Place(url, asyncio.run(_copy(place.url, url, place.session, since)))
            return
        asyncio.run(_copy(current_url(db), url, None, since))
        yield Place(url, "")


async def _copy_selected(
    db: str | None, ref: str, exchange: str | None, url: URL
) -> tuple[Place, str | None]:
    async with selected(db, ref, exchange) as (log, session, chosen, part):
        number = None if part is None else str(chosen[0][0])
        return Place(url, await _write(log, [session], url)), number


async def _copy(source: URL, url: URL, only: str | None, since: int | None) -> str:
    async with await open_log(source) as log:
        if only is not None:
            return await _write(log, [await session_named(log, only)], url)
        rows = await log.rows(_SESSIONS, since=since or 0)
        return await _write(log, [struct_of(Session, row) for row in rows], url)


async def _write(log: LogReader, sessions: Sequence[Session], url: URL) -> str:
    """Write sessions under a key that nobody has; return the id that the last of them has now."""
    anonymizer = Anonymizer(os.urandom(KEY_BYTES))
    session_id = ""
    with Store(url) as store:
        for session in sessions:
            published = anonymizer.session(session)
            session_id = published.session_id
            for exchange in await log.exchanges(session.session_id):
                recorded = [
                    event async for event in log.events(session.session_id, exchange.exchange_id)
                ]
                row = anonymizer.exchange(exchange)
                with store.transaction():
                    store.add_session(published)
                    store.add_exchanges([row])
                    is_new = store.append(list(anonymizer.events(exchange, recorded)))
                    key = (row.session_id, row.exchange_id)
                    store.projector.project_all([key], in_order=True, is_new=is_new)
    return session_id
