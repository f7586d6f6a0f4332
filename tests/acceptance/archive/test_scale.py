"""Many sessions on the way into an archive and out of it, and those that are too long for memory."""

from __future__ import annotations

import asyncio
import json
import os
import time
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from benchmarks import growth, traffic
from recorder.archive.lake import lake
from recorder.archive.opening import open_alone
from recorder.archive.place import database_url
from recorder.ingest.capture import Capture
from recorder.model.chain import row_root
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.acceptance.archive.test_purge import tables_with
from tests.support import superuser
from tests.support.rows import make_exchange, make_session
from tests.support.server import peak, run

SESSIONS = 200
LOOKED_AT = 10  # every tenth
EXCHANGES = 5  # of a session, each of 100 events: 10^5 in all
BEGAN_NS = 1_753_700_000_000_000_000  # the last days of a month: sessions are an hour apart
PIECES = 25  # MiB of an exchange of a long session
MEMORY_KB = 1_000 * 1024  # of an archiver, with DuckDB's code, its limit for upkeep and Python's


async def contents(url: URL, session_ids: Sequence[str]) -> dict[str, str]:
    """A digest of all events of each session: their bytes, times and hashes."""
    found = {}
    async with await open_alone(url) as log:
        for id in session_ids:
            digest = sha256()
            for exchange in await log.exchanges(id):
                async for event in log.events(id, exchange.exchange_id):
                    digest.update(repr(event).encode())
            found[id] = digest.hexdigest()
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_200_sessions_are_archived_replayed_verified_and_purged(
    database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "EXCHANGES", EXCHANGES)
    with Store(database) as store:
        growth.load(store, range(SESSIONS), BEGAN_NS)
    assert superuser.asked(database, "SELECT count(*) FROM events") == [
        (SESSIONS * EXCHANGES * growth.EVENTS,)
    ]
    ids = [
        row[0]
        for row in superuser.asked(
            database, "SELECT CAST(session_id AS TEXT) FROM sessions ORDER BY 1"
        )
    ]
    looked_at = ids[::LOOKED_AT]  # a reader takes half a second for each; `verify` proves all
    before = asyncio.run(contents(database, looked_at))
    some = [ids[0], ids[-1]]
    played = {each: run(database, "replay", each, "--speed", "max").out for each in some}
    archive = database_url(f"ducklake:{tmp_path / 'archive' / 'catalog.db'}")
    name = f"ducklake:{archive.database}"
    ran = run(database, "db", "archive", "--older-than", "1d", "--to", name, "--json")
    assert ran.code == 0, ran.err
    assert [row["month"] for row in json.loads(ran.out)] == ["2025-07", "2025-08"]
    assert superuser.asked(database, "SELECT count(*) FROM sessions") == [(0,)]
    assert asyncio.run(contents(archive, looked_at)) == before
    assert run(database, "verify", "--db", name).code == 0
    for each in some:
        assert run(database, "replay", each, "--speed", "max").out == played[each]
    began_s = time.monotonic()
    ran = run(database, "replay", some[0], "--exchange", "1", "--db", name)
    assert ran.out
    assert played[some[0]].startswith(ran.out)
    assert time.monotonic() - began_s > growth.FRAMES * traffic.TICK_NS / 1e9
    gone = ids[50:60]
    ran = run(database, "db", "purge", *gone, "--yes")
    assert ran.code == 0, ran.err
    assert [tables_with(Path(archive.database or "").parent, each) for each in gone] == [
        {"tombstones"}
    ] * 10
    kept = [id for id in looked_at if id not in gone]
    assert asyncio.run(contents(archive, kept)) == {id: before[id] for id in kept}
    assert run(database, "verify", "--db", name).code == 0


def long_session(store: Store, size_bytes: int, which: int = 1) -> None:
    """Put a session into a log whose texts cannot be compressed much."""
    session = make_session(which)
    piece = 2**20 // 4 * 3  # of bytes, as a frame has them in base64
    with store.transaction():
        store.add_session(session)
    for number in range(size_bytes // (PIECES * 2**20)):
        exchange = make_exchange(session, which * 1_000 + number)
        capture = Capture(
            exchange.session_id, exchange.exchange_id, by_name(exchange.api), 0, row_root(exchange)
        )
        head = msgspec.structs.replace(traffic.request_head(number), target=exchange.target)
        events = capture.request(head, b"{}", wire=b"{}") + capture.response(
            1, traffic.RESPONSE_HEAD
        )
        for count in range(PIECES):
            for start in range(0, piece, piece // 64):
                text = b64encode(os.urandom(piece // 64)).decode()
                payload = {
                    "type": "response.output_text.delta",
                    "item_id": "m",
                    "output_index": 0,
                    "delta": text,
                }
                frame = (
                    f"event: response.output_text.delta\ndata: {json.dumps(payload)}\n\n".encode()
                )
                events += capture.chunk(count * piece + start + 2, frame)
        with store.transaction():
            store.add_exchange(exchange)
            store.append(events + capture.end(PIECES * piece + 2, traffic.END))
            store.projector.project(exchange.session_id, exchange.exchange_id)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_session_of_a_gigabyte_takes_no_more_memory_than_others(tmp_path: Path) -> None:
    database = database_url(tmp_path / "log.db")
    with Store(database) as store:
        long_session(store, 2**30)
        long_session(store, PIECES * 2**20, 2)  # a neighbour, in one of its files
    name = f"ducklake:{tmp_path / 'archive' / 'catalog.db'}"
    command = ("db", "archive", "--older-than", "0s", "--to", name, "--db", database.database)
    ran, peak_kb = peak(*command)
    assert ran.returncode == 0, ran.stderr
    assert peak_kb < MEMORY_KB
    assert superuser.asked(database, "SELECT count(*) FROM sessions") == [(0,)]
    for session_id, kept in ((make_session().session_id, 1), (make_session(2).session_id, 0)):
        ran, peak_kb = peak("db", "purge", session_id, "--yes", "--db", database.database)
        assert ran.returncode == 0, ran.stderr
        assert peak_kb < MEMORY_KB
        with lake(database_url(name), "test") as connection:
            assert connection.execute("SELECT count(*) FROM sessions").fetchall() == [(kept,)]
        assert run(database, "verify", "--db", name).code == 0
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.parquet")) < 2**20
