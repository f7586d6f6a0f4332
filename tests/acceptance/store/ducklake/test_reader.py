"""An archive read as a log: everything is as it was in the log that it was copied from."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, text

from recorder.errors import NotFoundError, StoreError
from recorder.store.ducklake.connection import lake
from recorder.store.ducklake.sessions import SESSIONS, ArchiveSessions
from recorder.store.engine import engine_of
from recorder.store.reader import LogReader
from recorder.store.session_list import SessionFilter
from recorder.store.usage import Summed
from recorder.wire.dialects.dialect import Links

MISSING = "0195544b-8000-7000-8000-000000000000"


async def _of_sessions(log: LogReader) -> Any:
    ids = [row[0] for row in await log.rows(text("SELECT session_id FROM sessions ORDER BY 1"))]
    found: dict[str, Any] = {}
    for id in ids:
        exchanges = await log.exchanges(id)
        found[id] = {
            "session": await log.session(id),
            "exchanges": exchanges,
            "outlines": sorted(await log.outlines(id), key=repr),
            "spans": await log.spans(id),
            "numbers": [await log.exchanges_named(id, str(number + 1)) for number in range(len(exchanges))],
            "events": [[event async for event in log.events(id, x.exchange_id)] for x in exchanges],
            "frames": [[event async for event in log.events(id, x.exchange_id, 3, {"frame"})] for x in exchanges],
            "places": [await log.place(id, x.exchange_id, 4) for x in exchanges],
            "earlier": [await log.earlier_events(x) for x in exchanges],
            "costs": await log.exchange_costs(id),
            "progress": await log.progress("", (), id),
            "continued": await log.continued(id, Links("a", "b")),
        }
    return found


async def _used(by: Any, log: LogReader) -> Any:
    return await log.usage([by], Summed(0, 2**62)), await log.costs([by])


FILTERS = {
    "words": SessionFilter(words="letter arrives"),
    "more words": SessionFilter(words="letter nowhere"),
    "model": SessionFilter(model="gpt"),
    "status": SessionFilter(status="completed"),
    "since": SessionFilter(since_ns=1, until_ns=2**62, client="x"),
    "probes": SessionFilter(probes=True),
}
QUESTIONS: Mapping[str, Callable[[LogReader], Awaitable[Any]]] = {
    "sessions": lambda log: log.sessions(),
    **{name: partial(LogReader.sessions, limit=10, wanted=wanted) for name, wanted in FILTERS.items()},
    "of sessions": _of_sessions,
    "holdings": lambda log: log.holdings(),
    "open": lambda log: log.recorders_of_open(),
    "latest": lambda log: log.session("latest"),
    "names": lambda log: log.names("demo", 5),
    "due": lambda log: log.rebuild_is_due(),
    "progress": lambda log: log.progress("", ["a"]),
    "prices": lambda log: log.has_prices(),
    "missing": lambda log: log.exchanges(MISSING),
    "tombstone": lambda log: log.tombstone(MISSING),
    **{f"usage by {by}": partial(_used, by) for by in ("hour", "tool", "effort")},
}


def answers(database: Path | URL) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with await LogReader.open(database) as log:
            return {name: await question(log) for name, question in QUESTIONS.items()}

    return asyncio.run(ask())


def test_everything_is_as_in_the_log(demo_recording: Path, demo_archive: URL) -> None:
    expected, found = answers(demo_recording), answers(demo_archive)
    assert expected["words"]
    assert not expected["more words"]
    for name in QUESTIONS:
        assert found[name] == expected[name], name


async def test_what_is_not_there_is_named(demo_archive: URL) -> None:
    async with await LogReader.open(demo_archive) as log:
        with pytest.raises(NotFoundError, match="There is no session 'nobody'"):
            await log.session("nobody")
        assert [event async for event in log.events(MISSING, MISSING)] == []


async def test_an_archive_of_an_older_program_names_the_upgrade(demo_archive: URL, tmp_path: Path) -> None:
    url = older(demo_archive, tmp_path)
    with pytest.raises(StoreError, match="older schema: run `recorder db upgrade --db ducklake:"):
        await LogReader.open(url)
    engine_of(url).upgrade(url)
    async with await LogReader.open(url) as log:
        assert await log.sessions()


async def test_an_archive_of_a_newer_program_is_refused(demo_archive: URL, tmp_path: Path) -> None:
    url = older(demo_archive, tmp_path, "9999")
    with pytest.raises(StoreError, match="newer recorder"):
        await LogReader.open(url)
    with pytest.raises(StoreError, match="newer recorder"):
        engine_of(url).upgrade(url)


def older(url: URL, folder: Path, revision: str = "0001") -> URL:
    """A copy of an archive's catalog with another revision, and without a column and a table that are newer."""
    path = Path(shutil.copy(url.database or "", folder / "catalog"))
    copy = url.set(database=str(path))
    with lake(copy, "db archive", writes=True) as connection:
        connection.execute(f"UPDATE recorder_version SET version_num = '{revision}'")
        connection.execute("DROP TABLE prices")
        connection.execute("ALTER TABLE exchanges DROP COLUMN resumes_after")
    return copy


def test_a_reader_loads_a_session_once(demo_archive: URL) -> None:
    with ArchiveSessions(demo_archive, "show") as sessions:
        [(id,)] = sessions.connection.execute("SELECT session_id FROM sessions LIMIT 1").fetchall()
        assert sessions.log(id) is sessions.log(id)
        paths = [Path(sessions.log(MISSING[:-1] + str(number)).url.database or "") for number in range(SESSIONS)]
        assert sessions.log(id).engine
        assert [path.exists() for path in paths] == [False] + [True] * (SESSIONS - 1)
    assert not any(path.exists() for path in paths)
