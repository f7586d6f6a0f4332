"""Archives for tests: the sessions of a log, as they are, in a lake; and logs whose older sessions
are in another one.

archive(log, f"ducklake:{catalog}", data)      # a copy of all sessions, by no code of the archiver
archived(log, archive)                         # by the archiver: the log has them no more python -m
tests.support.archives LOG ARCHIVE STEP   # the same, session by session, killed at that step

DuckDB brings another library of SQLite, and two of them must not have one file open in one process:
nobody else may have the log open meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from recorder.archive import archiver
from recorder.archive.archiver import Archiver, MonthReport, Recorders, by_month
from recorder.archive.lake import EXTRA, LAKE, attach_lake
from recorder.archive.opening import open_alone
from recorder.archive.place import database_url
from recorder.archive.registry import register
from recorder.archive.schema import ARCHIVED, COPIED, create, month_of
from recorder.archive.unpack import root_kind
from recorder.model.events import Event, Exchange
from recorder.store.duckdb.connection import DuckdbOpening, connected
from recorder.store.maintain.purge.delete import purge
from recorder.store.maintain.purge.tombstone import ARCHIVED as ARCHIVED_REASON
from recorder.store.queries.reader import LogReader
from recorder.store.queries.retention import holdings
from recorder.store.queries.session_list import list_sessions
from recorder.store.write.writer import Store

if TYPE_CHECKING:
    pass


def archive(log: Path, catalog: str | URL, data: Path) -> URL:
    """Copy all sessions of a log into an archive, which is made if there is none."""
    url = database_url(catalog)

    def attach(opening: DuckdbOpening) -> None:
        opening.folders.append(attach_lake(opening, url, data=str(data), writes=True))
        opening.attach_log(database_url(log))

    with connected("db archive", EXTRA, attach) as connection:
        connection.execute(f"USE {LAKE}")
        create(connection)
        ids = [
            row[0] for row in connection.execute("SELECT session_id FROM log.sessions").fetchall()
        ]
        ids += [
            row[0] for row in connection.execute("SELECT session_id FROM log.tombstones").fetchall()
        ]
        connection.execute("CREATE TEMP TABLE months (session_id VARCHAR, month VARCHAR)")
        connection.executemany(
            "INSERT INTO months VALUES (?, ?)", [(id, month_of(id)) for id in ids]
        )
        connection.execute(
            "CREATE TEMP TABLE chains (exchange_id VARCHAR, last_hash BLOB, root_kind VARCHAR)"
        )
        firsts = {row[1]: Event(*row) for row in connection.execute(_FIRST).fetchall()}
        exchanges = [
            Exchange(*row) for row in connection.execute("SELECT * FROM log.exchanges").fetchall()
        ]
        lasts = dict(connection.execute(_LAST).fetchall())
        chains = [
            (x.exchange_id, lasts[x.exchange_id], root_kind(x, firsts[x.exchange_id]))
            for x in exchanges
        ]
        connection.executemany("INSERT INTO chains VALUES (?, ?, ?)", chains)
        connection.execute("BEGIN")
        for table in COPIED:
            of_chain = (
                "LEFT JOIN chains AS c USING (exchange_id)" if table.name == "exchanges" else ""
            )
            columns = ", ".join(f'"{name}"' for name in table.columns)
            connection.execute(
                f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM log.{table.name} "
                f"JOIN months AS m USING (session_id) {of_chain}"
            )
        connection.execute(f"INSERT INTO {ARCHIVED.name} SELECT session_id, 0, month FROM months")
        connection.execute("COMMIT")
    return url


_FIRST = "SELECT * FROM log.events WHERE pos = 0"
_LAST = "SELECT exchange_id, arg_max(hash, pos) FROM log.events GROUP BY exchange_id"


def archived(
    database: URL, archive: URL, step: Any = lambda _step, _sessions: None
) -> list[MonthReport]:
    """Archive all sessions, by the archiver."""

    async def held() -> Any:
        async with await LogReader.open(database) as log:
            return await holdings(log)

    recorders = Recorders(lambda _recorder_id: "gone", list)
    with Archiver.open(database, archive, recorders, step=step) as opened:
        return opened.archive(by_month(asyncio.run(held())))


def _archive_until(database: URL, archive: URL, last: str) -> None:
    """Archive one session after the other, in a process that is killed at a step.

    Without one, to the end.
    """
    archiver.BATCH_SESSIONS = 1

    def step(name: str, _sessions: int) -> None:
        if name == last:
            os.kill(os.getpid(), signal.SIGKILL)

    archived(database, archive, step)


def session_ids(log: Path | URL) -> list[str]:
    """The ids of all sessions of a log, in order."""
    return asyncio.run(_session_ids(log))


async def _session_ids(log: Path | URL) -> list[str]:
    async with await open_alone(database_url(log)) as reader:
        return sorted(row.session_id for row in await list_sessions(reader))


def archive_to(log: Path | URL, archive: URL, *session_ids: str) -> None:
    """Delete sessions from a log, and attach the archive that has them."""
    with Store(log) as store:
        register(store, archive, time.time_ns())
        for session_id in session_ids:
            purge(store, session_id, ARCHIVED_REASON, time.time_ns())


def divide(whole: Path, folder: Path, engine: str = "sqlite") -> tuple[Path, URL]:
    """A copy of a log, and its archive, which has every second session: another log, or one of
    DuckLake.
    """
    log, other = folder / "log.db", folder / "other.db"
    shutil.copy(whole, log)
    moved = session_ids(whole)[::2]
    refs = [word for each in moved for word in ("--session", each)]
    from tests.support.server import run

    assert run(whole, "db", "copy", whole, other, *refs).code == 0
    moved_to = database_url(other)
    if engine == "ducklake":
        moved_to = archive(other, f"ducklake:sqlite:{folder / 'catalog.db'}", folder / "data")
    archive_to(log, moved_to, *moved)
    return log, moved_to


if __name__ == "__main__":
    _archive_until(database_url(sys.argv[1]), database_url(sys.argv[2]), sys.argv[3])
