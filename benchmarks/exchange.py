"""A short exchange: what the ingester takes from its journal to its rows, on both engines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
from sqlalchemy import URL

from benchmarks import log, servers, traffic
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.ingest.ingester import Ingester
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.events import RequestEnd
from recorder.store.location import database_url
from recorder.store.write.writer import Store

EVENTS = 20  # of its response
RAW = "sqlite3, executemany"

COLUMNS = (
    Column("CPU ms/exchange", "cpu_ms"),
    Column("of the server", "server_ms"),
    Column("together", "all_ms"),
    Column("x raw", "all_ms", "/", RAW),
    Column("wall ms/exchange", "wall_ms"),
)


def rounds(settings: Settings) -> list[Round]:
    """Many exchanges in one commit, and each in a commit of its own; against `executemany` of the
    same rows.
    """
    count = settings.short_exchanges
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recorder-bench-")))
        stack.enter_context(log.garbage_as_in_the_ingester())
        rows = log.ingested(folder, log.prepare_journal(folder / "prepared", EVENTS, count))
        append = log.appending(rows, log.raw)

        def raw(path: Path) -> Row:
            row = append(path)
            ms = row["cpu_us"] * len(rows.events) / count / 1e3
            return {
                "cpu_ms": ms,
                "all_ms": ms,
                "wall_ms": len(rows.events) / row["rows_s"] / count * 1e3,
            }

        alternatives: dict[str, log.Measure] = {RAW: raw}
        for engine, make in _engines(stack).items():
            alternatives[f"{engine}, {count} a commit"] = _measured(make, count, each=False)
            alternatives[f"{engine}, one a commit"] = _measured(make, count, each=True)
        return log.in_rounds(settings, alternatives)


def _engines(stack: ExitStack) -> dict[str, Callable[[Path], URL]]:
    """Return what makes a database, by the name of the engine."""
    makers: dict[str, Callable[[Path], URL]] = {"SQLite": database_url}
    server = stack.enter_context(servers.server())
    if server is not None:
        makers["PostgreSQL"] = lambda _: stack.enter_context(servers.database(server))
    return makers


def _measured(make: Callable[[Path], URL], count: int, *, each: bool) -> log.Measure:
    def measure(path: Path) -> Row:
        with Store(make(path)) as store:
            journal = Journal(path.parent / "journal", "recorder")
            ingester = Ingester(store, journal.directory, lambda _: False)
            _write(journal, 0)  # what is prepared once is not of an exchange
            ingester.drain()
            numbers = range(1, count + 1)
            spent = _spent(
                store, ingester, journal, [[n] for n in numbers] if each else [list(numbers)]
            )
            journal.close()
        return {name: value / count * 1e3 for name, value in spent.items()}

    return measure


def _spent(store: Store, ingester: Ingester, journal: Journal, commits: list[list[int]]) -> Row:
    """Return the seconds that the ingester takes for exchanges, whose journal is written before
    each commit.
    """
    cpu_s = wall_s = 0.0
    server_s = servers.backend_cpu_s(store)
    for numbers in commits:
        for number in numbers:
            _write(journal, number)
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        ingester.drain()
        wall_s, cpu_s = (
            wall_s + time.perf_counter() - begin_s,
            cpu_s + time.process_time() - begin_cpu_s,
        )
    server_s = servers.backend_cpu_s(store) - server_s
    return {"cpu_ms": cpu_s, "server_ms": server_s, "all_ms": cpu_s + server_s, "wall_ms": wall_s}


def _write(journal: Journal, number: int) -> None:
    """Write the records of an exchange."""
    writer = journal.exchange()
    for mark, payload in _records(number):
        writer.write(mark, traffic.when(EVENTS), payload)
    writer.end(traffic.when(EVENTS), msgspec.json.encode(traffic.END))


def _records(number: int) -> Iterator[tuple[Mark, bytes]]:
    encode = msgspec.json.encode
    yield Mark.REQUEST, encode(traffic.request_head(number))
    yield Mark.REQUEST_BODY, traffic.BODY
    yield Mark.REQUEST_END, encode(RequestEnd(True))
    yield Mark.RESPONSE, encode(traffic.RESPONSE_HEAD)
    for count in range(EVENTS):
        yield Mark.CHUNK, traffic.frame(count)
    yield Mark.CHUNK, traffic.COMPLETED % EVENTS
