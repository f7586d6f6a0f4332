"""The log: how fast rows are appended, and a journal is ingested, against `sqlite3` with the same
rows.
"""

from __future__ import annotations

import gc
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import URL

from benchmarks import machine, traffic
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.commands.serving.ingester import collect_seldom
from recorder.ingest.ingester import Ingester
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.events import Event, Exchange, RequestEnd, Session
from recorder.store.bodies.rows import Ask, whole_events
from recorder.store.sqlite.connection import WRITER, apply
from recorder.store.sqlite.tables import stored_events
from recorder.store.sqlite.writer import WAL_BYTES, Numbers
from recorder.store.write.writer import Store

EXCHANGES = 100
ROWS_PER_COMMIT = 500
PAGE_BYTES = 4096

APPEND_COLUMNS = (
    Column("rows/s", "rows_s"),
    Column("x raw", "rows_s", "/", "raw"),
    Column("x raw, guarded", "rows_s", "/", "raw, guarded"),
    Column("CPU µs/row", "cpu_us"),
)
INGEST_COLUMNS = (
    Column("rows/s", "rows_s"),
    Column("x raw", "rows_s", "/", "raw"),
    Column("CPU µs/row", "cpu_us"),
)

When = Callable[[int], int]
# makes all ready; what it returns is measured
Appender = Callable[[Path, Sequence[Event]], Callable[[], None]]
Measure = Callable[[Path], Row]  # with a place for a database


class Rows(NamedTuple):
    """The rows of a log, events in the order in which they were written."""

    sessions: list[Session]
    exchanges: list[Exchange]
    events: list[Event]


def append_rounds(settings: Settings) -> list[Round]:
    """`Store.append` against raw `executemany` of the same rows, in commits of the same size."""
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        rows = interleaved(Path(folder), settings)
        return in_rounds(
            settings, {name: appending(rows, append) for name, append in _APPENDERS.items()}
        )


def ingest_rounds(settings: Settings) -> list[Round]:
    """`Ingester.drain` of a prepared journal, against raw `executemany` of the rows that come of
    it.
    """
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        prepared = prepare_journal(Path(folder) / "prepared", settings.rows // EXCHANGES)
        rows = ingested(Path(folder), prepared)
        alternatives = {
            "ingester": _ingesting(prepared, len(rows.events)),
            "raw": appending(rows, raw),
        }
        with garbage_as_in_the_ingester():
            return in_rounds(settings, alternatives)


def interleaved(folder: Path, settings: Settings) -> Rows:
    """Those of 100 exchanges at once, one event of each in turn."""
    rows = ingested(folder, prepare_journal(folder / "prepared", settings.rows // EXCHANGES))
    streams = [
        [event for event in rows.events if event.exchange_id == each.exchange_id]
        for each in rows.exchanges
    ]
    return rows._replace(events=list(traffic.interleaved(streams)))


def prepare_journal(
    root: Path, frames: int, exchanges: int = EXCHANGES, when: When = traffic.when
) -> Path:
    """The journal of a recorder of so many exchanges at once, where each chunk is an event of its
    stream.

    `when` gives the time of each event, by its number.
    """
    journal = Journal(root, "benchmark")
    tapes = [journal.exchange() for _ in range(exchanges)]
    encode = msgspec.json.encode
    for number, tape in enumerate(tapes):
        tape.write(Mark.REQUEST, 0, encode(traffic.request_head(number)))
        tape.write(Mark.REQUEST_BODY, 0, traffic.BODY)
        tape.write(Mark.REQUEST_END, 0, encode(RequestEnd(True)))
        tape.write(Mark.RESPONSE, traffic.TICK_NS, encode(traffic.RESPONSE_HEAD))
    for count in range(frames):
        for tape in tapes:
            tape.write(Mark.CHUNK, when(count), traffic.frame(count))
    for tape in tapes:
        tape.write(Mark.CHUNK, when(frames), traffic.COMPLETED % frames)
        tape.end(when(frames), encode(traffic.END))
    journal.close()
    return journal.directory


def in_rounds(settings: Settings, alternatives: dict[str, Measure]) -> list[Round]:
    """Each alternative with a database of its own, in each round in another order."""
    found: list[Round] = []
    with machine.on_core(machine.MEASURED_CORE):
        for _ in range(settings.rounds):
            order = random.sample(list(alternatives), len(alternatives))
            rows: dict[str, Row] = {}
            for name in order:
                with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
                    rows[name] = alternatives[name](Path(folder) / "recorder.db")
            found.append({name: rows[name] for name in alternatives})
    return found


def timed(work: Callable[[], None], rows: int) -> Row:
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    work()
    wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    return {"rows_s": rows / wall_s, "cpu_us": cpu_s / rows * 1e6}


# -- append


def appending(rows: Rows, prepare: Appender) -> Measure:
    def measure(path: Path) -> Row:
        with Store(path) as store, store.transaction():
            for session in rows.sessions:
                store.add_session(session)
            for exchange in rows.exchanges:
                store.add_exchange(exchange)
        return timed(prepare(path, rows.events), len(rows.events))

    return measure


def append_by_store(path: Path | URL, events: Sequence[Event]) -> None:
    with Store(path) as store:
        for commit in commits(events):
            with store.transaction():
                store.append(commit)


def by_store(path: Path, events: Sequence[Event]) -> Callable[[], None]:
    return lambda: append_by_store(path, events)


def raw(path: Path, events: Sequence[Event]) -> Callable[[], None]:
    with closing(_connect(path)) as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
    return _guarded(path, events)


def _guarded(path: Path, events: Sequence[Event]) -> Callable[[], None]:
    """The same compact rows as the store writes, without what makes them of events."""
    with closing(_connect(path)) as connection:
        numbers = Numbers(connection, path)
        batches = [
            [*numbers.stored(map(msgspec.structs.astuple, commit))] for commit in commits(events)
        ]
    return lambda: _insert(path, batches)


_APPENDERS: dict[str, Appender] = {"store": by_store, "raw": raw, "raw, guarded": _guarded}


def _connect(path: Path) -> sqlite3.Connection:
    """As the store opens it; with checkpoints by SQLite itself, as often as the store makes them."""
    connection = sqlite3.connect(path, isolation_level=None)
    apply(connection, {**WRITER, "wal_autocheckpoint": WAL_BYTES // PAGE_BYTES})
    return connection


def _insert(path: Path, batches: Sequence[Sequence[Sequence[Any]]]) -> None:
    statement = f"INSERT INTO stored_events VALUES ({', '.join('?' * len(stored_events.columns))})"
    with closing(_connect(path)) as connection:
        for rows in batches:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def commits(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    for start in range(0, len(events), ROWS_PER_COMMIT):
        yield events[start : start + ROWS_PER_COMMIT]


# -- ingest


@contextmanager
def garbage_as_in_the_ingester() -> Iterator[None]:
    """Collect garbage as the process of the ingester does, whatever is measured."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _ingesting(prepared: Path, rows: int) -> Measure:
    def measure(path: Path) -> Row:
        Store(path).close()
        directory = _copy(prepared, path)
        return timed(lambda: _ingest(path, directory), rows)

    return measure


def ingested(folder: Path, prepared: Path) -> Rows:
    """What the log has of a journal."""
    path = folder / "ingested.db"
    _ingest(path, _copy(prepared, path))
    with closing(sqlite3.connect(path)) as connection:
        return Rows(
            [Session(*row) for row in connection.execute("SELECT * FROM sessions ORDER BY rowid")],
            [
                Exchange(*row)
                for row in connection.execute("SELECT * FROM exchanges ORDER BY exchange_id")
            ],
            list(whole_events(connection.execute(_AS_WRITTEN), _asking(connection))),
        )


_AS_WRITTEN = """SELECT v.* FROM stored_events AS e JOIN stored_exchanges AS x ON x.number = e.exchange
JOIN events AS v ON v.session_id = x.session_id AND v.exchange_id = x.exchange_id AND v.pos = e.pos ORDER BY e.rowid"""


def _asking(connection: sqlite3.Connection) -> Ask:
    return lambda statement, values: connection.execute(statement.text("sqlite"), values)


def _copy(prepared: Path, path: Path) -> Path:
    """The journal beside the database at `path`: an ingester deletes what it has read."""
    return Path(shutil.copytree(prepared, Path(f"{path}.journal") / prepared.name))


def _ingest(path: Path, directory: Path) -> None:
    with Store(path) as store:
        Ingester(store, directory, lambda _: False).drain()
