"""A log and its archive answer together what one log with all of it answers."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.attached import AttachedReader
from recorder.archive.place import database_name, database_url
from recorder.archive.registry import register, unregister
from recorder.errors import NotFoundError, UsageError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.store.location import database_path
from recorder.store.maintain.purge.delete import purge
from recorder.store.queries.costs import exchange_costs
from recorder.store.queries.outlines import outlines
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import list_sessions
from recorder.store.queries.session_named import session_named
from recorder.store.schema import VERSION_TABLE
from recorder.store.write.writer import Store
from tests.acceptance.store.test_purge import RECORDER, record
from tests.integration.ingest.test_ingester import never
from tests.support.archives import archive_to, divide, session_ids
from tests.support.questions import QUESTIONS, answers, asked
from tests.support.rows import make_id, make_session, put_prices
from tests.support.server import run


class Divided(NamedTuple):
    """A log with everything, and the same in a log and its archive."""

    whole: Path
    log: Path
    archive: URL


@pytest.fixture(scope="module")
def whole(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("divided")
    whole = Path(shutil.copy(demo_recording, folder / "whole.db"))
    journal = Journal(folder / "elsewhere", RECORDER)
    record(journal, *"abcdef", rounds=2)
    journal.close()
    with Store(whole) as store:
        Ingester(store, journal.directory, never).drain()
        with store.transaction():
            for number in (1, 2, 3):
                store.add_session(make_session(number, name="run-1"))
    put_prices(whole, "gpt-demo", input="1.25", output="10")
    return whole


@pytest.fixture(scope="module")
def divided(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Divided:
    return made(whole, tmp_path_factory.mktemp("divided"), "sqlite")


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Divided:
    """One to be written to, whose archive is another log: it can be written to as well."""
    return made(whole, tmp_path, "sqlite")


def made(whole: Path, folder: Path, engine: str) -> Divided:
    log, archive = divide(whole, folder, engine)
    if engine == "sqlite":  # another log has prices of its own
        put_prices(archive, "gpt-demo", input="1.25", output="10")
    return Divided(whole, log, archive)


OF_ONE_LOG = frozenset(("holdings", "open", "due", "progress"))
"""What is asked of one log, not of its archives with it."""


def test_both_answer_as_one_log(divided: Divided) -> None:
    whole, both = (answers(log, OF_ONE_LOG) for log in (divided.whole, divided.log))
    assert [row.session_id for row in both["sessions"]] == [
        row.session_id for row in whole["sessions"]
    ]
    assert {name for name in whole if both[name] != whole[name]} == set()
    assert whole["sessions with the beginning of a word"]


IN_ARCHIVE = (
    "sessions",
    "pages",
    "names that begin",
    "latest",
    "usage by model",
    "usage by tool",
    "usage by day",
)


def test_an_archive_and_its_log_answer_as_one_log(whole: Path, tmp_path: Path) -> None:
    """Costs too: an archive has no prices, so those of the log are used."""
    log, archive = divide(whole, tmp_path, "ducklake")
    some = session_ids(archive)[-1]

    async def all_of_it(reader: LogReader) -> list[Any]:
        found = [await QUESTIONS[name](reader) for name in IN_ARCHIVE]
        exchanges = await reader.exchanges((await session_named(reader, some[:-1])).session_id)
        found += [
            exchanges,
            await exchange_costs(reader, some),
            sorted(await outlines(reader, some), key=str),
        ]
        return [*found, [each async for each in reader.events(some, exchanges[0].exchange_id)]]

    for both, alone in zip(asked(log, all_of_it), asked(whole, all_of_it), strict=True):
        assert both == alone
        assert both


def archived(divided: Divided) -> str:
    return session_ids(divided.archive)[0]


def test_a_session_that_is_in_both_is_listed_and_counted_once(copied: Divided) -> None:
    """An archiver was stopped before it deleted the session from the log."""
    for each in session_ids(copied.log):
        assert (
            run(
                copied.whole,
                "db",
                "copy",
                copied.whole,
                database_path(copied.archive),
                "--session",
                each,
            ).code
            == 0
        )
    usage = (f"usage by {key}" for key in ("model", "tool", "day"))
    for name in ("sessions", "the newest sessions", "pages", "names", *usage):
        assert asked(copied.log, QUESTIONS[name]) == asked(copied.whole, QUESTIONS[name]), name


def test_the_beginning_of_ids_is_looked_for_in_both(divided: Divided) -> None:
    beginning = make_id(1)[:8]
    assert all(any(each.startswith(beginning) for each in session_ids(log)) for log in divided)
    with pytest.raises(UsageError) as caught:
        asked(divided.log, lambda log: session_named(log, beginning))
    with pytest.raises(UsageError) as of_whole:
        asked(divided.whole, lambda log: session_named(log, beginning))
    assert str(caught.value) == str(of_whole.value)


def test_a_session_of_the_log_is_read_without_the_archive(
    divided: Divided, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Path(shutil.copy(divided.log, tmp_path / "log.db"))
    with Store(log) as store:
        register(store, database_url(tmp_path / "nowhere.db"), 1)
    here = session_ids(log)[-1]

    async def read(reader: LogReader) -> int:
        assert isinstance(reader, AttachedReader)
        await session_named(reader, here)
        return len(await reader.exchanges(here))

    assert asked(log, read)
    assert not caplog.messages


def test_an_archive_that_is_away_is_left_out_with_one_warning(
    copied: Divided, caplog: pytest.LogCaptureFixture
) -> None:
    gone = archived(copied)
    database_path(copied.archive).unlink()

    async def read(reader: LogReader) -> list[str]:
        await session_named(reader, "latest")
        with pytest.raises(
            NotFoundError, match=r"was archived on .* It may be in .*other.db: `recorder doctor`"
        ):
            await session_named(reader, gone)
        return sorted(row.session_id for row in await list_sessions(reader))

    with caplog.at_level(logging.WARNING):
        assert asked(copied.log, read) == session_ids(copied.log)
    [warning] = caplog.messages
    assert warning.startswith(
        f"The archive {database_name(copied.archive)} is left out: There is no database"
    )


def test_an_older_log_that_is_attached_is_left_out_of_sql_with_a_sentence(copied: Divided) -> None:
    older = database_path(copied.archive)
    with closing(sqlite3.connect(older)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '1'")
    ran = run(copied.log, "query", "SELECT owner FROM exchange_summary")
    assert (ran.code, len(ran.err.splitlines())) == (0, 1)
    assert f"has an older schema: run `recorder db upgrade --db {older}`." in ran.err


def test_a_session_that_was_purged_from_the_archive_is_purged(copied: Divided) -> None:
    gone = archived(copied)
    with Store(copied.archive) as store:
        purge(store, gone, "by name", 1)
    with pytest.raises(NotFoundError, match=r"was purged on .*: by name"):
        asked(copied.log, lambda log: session_named(log, gone))


def test_a_session_of_no_attached_archive_says_what_to_do(copied: Divided) -> None:
    gone = archived(copied)
    with Store(copied.log) as store:
        unregister(store, copied.archive)
    with pytest.raises(
        NotFoundError, match=r"was archived on .*: `recorder db archive --attach` its archive"
    ):
        asked(copied.log, lambda log: session_named(log, gone))


def test_a_session_that_is_archived_while_it_is_read_is_read_to_its_end(copied: Divided) -> None:
    moved = session_ids(copied.log)[-1]
    whole = asked(copied.whole, lambda log: _events_of(log, moved))
    assert (
        run(
            copied.whole,
            "db",
            "copy",
            copied.whole,
            database_path(copied.archive),
            "--session",
            moved,
        ).code
        == 0
    )

    async def read(log: LogReader) -> list[Any]:
        [exchange, *_] = await log.exchanges(moved)
        found = []
        async for event in log.events(moved, exchange.exchange_id):
            found.append(event)
            if len(found) == 1:
                archive_to(copied.log, copied.archive, moved)
        return found

    assert asked(copied.log, read) == whole


async def _events_of(log: LogReader, session_id: str) -> list[Any]:
    [exchange, *_] = await log.exchanges(session_id)
    return [event async for event in log.events(session_id, exchange.exchange_id)]
