"""What is asked of a log, by name: the same log gives the same answers, whatever it is kept in.

answers(url) == answers(other)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.errors import NotFoundError
from recorder.model.facts import Links
from recorder.recordings.loader import load_session
from recorder.recordings.logged_cache import cache_of_log
from recorder.store.queries.continued import continued
from recorder.store.queries.costs import exchange_costs, has_prices
from recorder.store.queries.event_place import event_place
from recorder.store.queries.outlines import outlines, progress, spans
from recorder.store.queries.reader import LogReader
from recorder.store.queries.retention import holdings, recorders_of_open
from recorder.store.queries.session_list import SessionFilter, list_sessions, session_page
from recorder.store.queries.session_named import (
    count_named,
    exchanges_named,
    names_beginning,
    session_named,
    tombstone_of,
)
from recorder.store.queries.session_state import earlier_events
from recorder.store.queries.usage import By, Summed, usage, usage_costs
from recorder.ui.find import events_with

Question = Callable[[LogReader], Awaitable[Any]]

ALWAYS = Summed(1, 2**62)
MISSING = "0195544b-8000-7000-8000-000000000000"  # the id of no session


async def _pages(log: LogReader) -> list[Any]:
    rows, place = [], None
    while True:
        page = await session_page(log, 2, before=place)
        rows += page.rows
        place = page.next
        if place is None:
            return rows


async def _of_session(log: LogReader, id: str) -> dict[str, Any]:
    exchanges = await log.exchanges(id)
    return {
        "session": await session_named(log, id),
        "id in capitals": await session_named(log, id.upper()),
        "exchanges": exchanges,
        "the first": await exchanges_named(log, id, "1") if exchanges else [],
        "outlines": sorted(await outlines(log, id), key=repr),
        "spans": await spans(log, id),
        "events": [
            [event async for event in log.events(id, each.exchange_id)] for each in exchanges
        ],
        "frames": [
            [event async for event in log.events(id, each.exchange_id, 3, {"frame"})]
            for each in exchanges
        ],
        "places": [await event_place(log, id, each.exchange_id, 2) for each in exchanges],
        "earlier": [await earlier_events(log, each) for each in exchanges],
        "costs": await exchange_costs(log, id),
        "cache": await cache_of_log(
            log, await session_named(log, id), list(enumerate(exchanges, 1))
        ),
        "found": await events_with(log, id, "letter arrives"),
        "continued": await continued(log, id, Links("a", "b")),
        "recording": (await load_session(log, id)).session,
    }


async def _of_sessions(log: LogReader) -> list[Any]:
    return [await _of_session(log, row.session_id) for row in await list_sessions(log)]


async def _progress(log: LogReader) -> list[Any]:
    """What a follower asks of a log, and of each session in it."""
    of_all = await progress(log, MISSING, [MISSING])
    return [
        of_all,
        *[await progress(log, MISSING, (), row.session_id) for row in await list_sessions(log)],
    ]


async def _names(log: LogReader) -> list[Any]:
    return [
        (row.name, await session_named(log, row.name), await count_named(log, row.name))
        for row in await list_sessions(log)
    ]


async def _latest(log: LogReader) -> Any:
    return await session_named(log, "latest")


async def _nobody(log: LogReader) -> str:
    try:
        return repr(await session_named(log, "nobody"))
    except NotFoundError as error:
        return str(error).partition(" in ")[0]  # without the name of the log


async def _usage(by: By, log: LogReader) -> Any:
    return await usage(log, (by,), ALWAYS), await usage_costs(log, (by,), ALWAYS)


FILTERS = {
    "with words": SessionFilter(words="letter arrives"),
    "with the beginning of a word": SessionFilter(words="cana*"),
    "with other words": SessionFilter(words="letter nowhere"),
    "of a model": SessionFilter(model="gpt"),
    "of a status": SessionFilter(status="completed"),
    "of a time and client": SessionFilter(since_ns=1, until_ns=2**62, client="x"),
    "of probes": SessionFilter(probes=True),
}
QUESTIONS: Mapping[str, Question] = {
    "sessions": list_sessions,
    "the newest sessions": lambda log: list_sessions(log, 3),
    **{
        f"sessions {name}": partial(list_sessions, limit=10, wanted=wanted)
        for name, wanted in FILTERS.items()
    },
    "pages": _pages,
    "each session": _of_sessions,
    "names": _names,
    "names that begin": lambda log: names_beginning(log, "", 20),
    "latest": _latest,
    "nobody": _nobody,
    "holdings": holdings,
    "open": recorders_of_open,
    "due": lambda log: log.rebuild_is_due(),
    "progress": _progress,
    "prices": has_prices,
    "exchanges of no session": lambda log: log.exchanges(MISSING),
    "tombstone": lambda log: tombstone_of(log, MISSING),
    **{f"usage by {by}": partial(_usage, by) for by in get_args(By)},
}


def asked(database: Path | URL, question: Question) -> Any:
    """The answer of a reader that is opened for one question."""

    async def ask() -> Any:
        async with await open_log(database) as log:
            return await question(log)

    return asyncio.run(ask())


def answers(database: Path | URL, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The answers to all questions but some."""

    async def ask(log: LogReader) -> dict[str, Any]:
        return {
            name: await question(log) for name, question in QUESTIONS.items() if name not in without
        }

    found: dict[str, Any] = asked(database, ask)
    return found
