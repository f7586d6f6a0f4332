"""Recordings as the commands use them: of the log that `--db` names, when that has caught up, or of
a file; and which exchanges of a session a command is about.

A file becomes a log of its own for as long as a command runs, so that whatever shows a session
shows it too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from sqlalchemy import URL

from recorder.commands.terminal.options import current_url, open_current
from recorder.commands.terminal.output import echo
from recorder.errors import NotFoundError
from recorder.model.events import LATEST, Session
from recorder.model.text import safe_text
from recorder.program import load
from recorder.recordings.loader import Loader, refusing_files
from recorder.recordings.names import is_file
from recorder.recordings.selection import Numbered, readings, select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import count_named, session_named
from recorder.store.schema import STALE

exchange_option = click.option(
    "--exchange",
    metavar="N|ID",
    help="Only this exchange: its number in the session (1 is the first), its id, or the beginning of its id. "
    "SESSION:N is the same.",
)


async def select(
    log: LogReader, session: str, exchange: str | None
) -> tuple[Session, list[Numbered]]:
    """Return a session and its exchanges like `select_exchanges`; say on stderr if others have its
    name, too.
    """
    found, chosen = await select_exchanges(log, session, exchange)
    if session == found.name and session not in (found.session_id, LATEST):
        count = await count_named(log, session)
        if count > 1:
            named = f"{count} sessions are named {safe_text(found.name)}"
            echo(
                f"{named}: this is the newest, {found.session_id}; `recorder sessions` lists them."
            )
    return found, chosen


async def say_if_stale(log: LogReader) -> None:
    """Write a remark on stderr if the projections lack exchanges that the log has."""
    if await log.rebuild_is_due():
        echo(STALE)


def loader(db: str | None) -> Loader:
    """Return the loader for a command. It opens the log only if a session is requested."""
    return Loader(partial(open_current, db), select)


class Place(NamedTuple):
    """A log, and the name of a session in it."""

    url: URL
    session: str


@contextmanager
def located(db: str | None, ref: str) -> Iterator[Place]:
    """Give the log that has the session of that name; for a file a log of its own, until the block
    ends.

    Raises `RecorderError` if a file cannot be read or is too large.
    """
    if is_file(ref):
        with load("recorder.commands.terminal.file_log:file_log")(Path(ref)) as (url, session_id):
            yield Place(url, session_id)
    else:
        with refusing_files(ref):
            url = current_url(db)
        yield Place(url, ref)


class Named(NamedTuple):
    """A session in an open log, and its name there."""

    log: LogReader
    session: Session
    name: str


@asynccontextmanager
async def named(db: str | None, ref: str) -> AsyncIterator[Named]:
    """Open the log that has a session or a file.

    Raises as `located` does, and `NotFoundError` if there is neither.
    """
    with located(db, ref) as place:
        with refusing_files(ref):
            log: LogReader = await load("recorder.archive.opening:open_log")(place.url)
        async with log:
            with refusing_files(ref):
                session = await session_named(log, place.session)
            yield Named(log, session, place.session)


class Selected(NamedTuple):
    """A session in an open log, and the exchanges of it that a person names."""

    log: LogReader
    session: Session
    exchanges: list[Numbered]
    exchange: str | None  # the name of the one; None: they are all


@asynccontextmanager
async def selected(
    db: str | None, ref: str, exchange: str | None = None
) -> AsyncIterator[Selected]:
    """Open the log that has a session or a file, and select its exchanges: all, or the one that
    `exchange` names, or `:N` at the end of `ref`. Raises as `named` and `select` do.
    """
    (name, part), *others = readings(ref) if exchange is None else [(ref, exchange)]
    async with AsyncExitStack() as stack:
        try:
            found = await stack.enter_async_context(named(db, name))
        except NotFoundError:
            if not others:
                raise
            [(name, part)] = others
            found = await stack.enter_async_context(named(db, name))
        session, exchanges = await select(found.log, found.name, part)
        yield Selected(found.log, session, exchanges, part)
