"""B10, a reader that forgets to end its transaction: writing goes on, and the WAL shrinks when the
reader has gone.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.model.events import Exchange as Row
from recorder.store.sqlite import writer as sqlite_writer
from recorder.store.sqlite.writer import WAL_BYTES
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import Exchange, body
from tests.support.rows import begin, make_events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MIB = 2**20
BOUND = 64 * MIB
GONE_S = 60.0  # after the reader; shortened by the time between two looks at the WAL
EVENTS = 500  # of 256 KiB


@contextmanager
def reader(path: Path) -> Iterator[None]:
    """Somebody else, idle in a transaction."""
    with closing(
        sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    ) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM events").fetchone()
        yield


def wal_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def write(store: Store, exchange: Row) -> None:
    rows = make_events(exchange, [b"x" * MIB] * (EVENTS // 4))
    for row in rows:
        with store.transaction():
            store.append([row])


def test_writing_goes_on_while_a_reader_idles_and_the_wal_shrinks_with_the_next_traffic(
    tmp_path: Path,
) -> None:
    """B10: the next checkpoint comes after at most as many bytes as there are between any two."""
    path = tmp_path / "recorder.db"
    with Store(path) as store:
        with reader(path):
            write(store, begin(store, 1))
            assert wal_bytes(path) > BOUND
        again = begin(store, 2)
        for row in make_events(again, [b"x" * MIB] * (2 * WAL_BYTES // MIB)):
            with store.transaction():
                store.append([row])
        assert wal_bytes(path) <= BOUND


@pytest.mark.parametrize("is_idle", [True, False], ids=["nothing", "little"])
def test_the_wal_shrinks_within_a_minute_when_little_is_recorded(
    tmp_path: Path, is_idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B10: at most 64 MiB within 60 s after the reader has gone."""
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_AGAIN_S", 1.0, raising=False)
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "journal", "r")
    with Store(path) as store:
        with reader(path):
            write(store, begin(store, 1))
            assert wal_bytes(path) > BOUND
        left_s = time.monotonic()
        exchange = Exchange(journal)

        def pause(seconds: float) -> bool:
            time.sleep(seconds)
            if not is_idle:
                exchange.chunk(b"data: 1\n\n")
            return wal_bytes(path) <= BOUND or time.monotonic() - left_s > 5.0

        ingester = Ingester(store, journal.directory, pause)
        ingester.run()
        assert wal_bytes(path) <= BOUND
        ingester.drain()
    journal.close()
    assert body(path, exchange.id) == exchange.received
