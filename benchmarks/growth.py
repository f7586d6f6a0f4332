"""Logs of growing size: what they take on disk, and how long commands take on them.

    python -m benchmarks.growth --events 100000 --events 1000000
    python -m benchmarks.growth --events 10000000 --grow grown.db  # and leave it
    python -m benchmarks.growth --read grown.db  # how long commands take on it now

Each engine has one log, which grows from one size to the next. Rows are made as the recorder makes
them (`recorder.ingest.capture`), appended and folded as the ingester does, without a journal;
sessions are an hour apart. At the end of each size `recorder verify` looks at some sessions. A
command is run in this process: what an interpreter takes to start is not in its time.

Processor time shows whether appending stays as fast: at each size, after a `VACUUM ANALYZE` of a
server, some more sessions are appended, by the connection that has appended before, whose plans are
of the time before that.
"""

from __future__ import annotations

import itertools
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from sqlalchemy import URL

from benchmarks import log, machine, projections, servers, traffic
from recorder.commands import recorder
from recorder.ingest.capture import Capture
from recorder.ingest.ingester import Ingester
from recorder.model.chain import row_root
from recorder.model.events import Event, Exchange, Session
from recorder.model.ids import uuid7
from recorder.store.engine import address_of
from recorder.store.location import database_path, database_url
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.support.postgres import conninfo

API = "openai-responses"
EVENTS = 100  # of an exchange
EXCHANGES = 10  # of a session
# besides two of the request, the response head, a call, the usage, the reads and the end
FRAMES = EVENTS - 7
SESSIONS_A_COMMIT = 5
HOUR_NS = 3_600_000_000_000
INGESTED = 500  # frames of each of 100 exchanges, to see how fast an ingester is
TIMES = 3  # that a command is measured, after once that it is not
VERIFIED = 5  # sessions
APPENDED = 20  # sessions, to see what appending costs at a size
MONTHS = 24  # that have partitions: more than the largest log takes

COMMANDS = (
    "sessions",
    "show latest",
    "show latest 1",
    "usage",
    "usage --by tool",
    "query 'SELECT * FROM usage_by_day'",
    "query 'SELECT * FROM usage_by_model'",
    "query 'SELECT * FROM tool_stats'",
    "query 'SELECT * FROM session_summary ORDER BY total_tokens DESC LIMIT 10'",
    """query "SELECT text FROM messages WHERE session_name = 'run-7'" """,
)

Figures = dict[str, str]


def _id(at_ns: int, number: int) -> str:
    return uuid7(at_ns, number.to_bytes(10, "big"))


def grown(number: int, began_ns: int) -> tuple[Session, list[tuple[Exchange, list[Event]]]]:
    """The session of that number: its exchanges, a minute apart, each with its events."""
    started_ns = began_ns + number * HOUR_NS
    session = Session(_id(started_ns, number), started_ns, f"run-{number}", "header", "{}", "live")
    numbers = range(number * EXCHANGES, (number + 1) * EXCHANGES)
    return session, [
        _exchange(session, each, started_ns + each % EXCHANGES * HOUR_NS // 60) for each in numbers
    ]


def _exchange(session: Session, number: int, at_ns: int) -> tuple[Exchange, list[Event]]:
    head = traffic.request_head(number)
    ids = (session.session_id, _id(at_ns, number))
    exchange = Exchange(*ids, at_ns, "growth", "openai", API, "POST", head.target, "codex")
    capture = Capture(*ids, by_name(API), 0, row_root(exchange))
    body = b'{"model":"model-%d","input":"Count.","stream":true}' % (number % projections.MODELS)
    events = capture.request(head, body, wire=body) + capture.response(
        traffic.TICK_NS, traffic.RESPONSE_HEAD
    )
    frames = (*map(traffic.frame, range(FRAMES)), *projections.told(number))
    for count, frame in enumerate(frames):
        events += capture.chunk(traffic.when(count), frame)
    return exchange, events + capture.end(traffic.when(len(frames)), traffic.END)


Grown = list[tuple[Session, list[tuple[Exchange, list[Event]]]]]


def load(store: Store, numbers: range, began_ns: int) -> int:
    """Put these sessions into a log; returns how many bytes their events have."""
    size_bytes = 0
    for first in itertools.islice(numbers, 0, None, SESSIONS_A_COMMIT):
        told = [
            grown(each, began_ns)
            for each in range(first, min(first + SESSIONS_A_COMMIT, numbers.stop))
        ]
        size_bytes += sum(len(event.raw) for event in _append(store, told))
    return size_bytes


def _append(store: Store, told: Grown) -> list[Event]:
    """Put sessions into a log with one commit."""
    with store.transaction():
        for session, exchanges in told:
            store.add_session(session)
            for exchange, _ in exchanges:
                store.add_exchange(exchange)
        events = [event for _, exchanges in told for _, each in exchanges for event in each]
        store.append(events)
        for exchange in (exchange for _, exchanges in told for exchange, _ in exchanges):
            store.projector.project(exchange.session_id, exchange.exchange_id)
    return events


def appended(store: Store, numbers: range, began_ns: int) -> tuple[float, float]:
    """How many µs of processor time an event takes that is appended and folded: of this process, of
    the server's.
    """
    told = [grown(each, began_ns) for each in numbers]
    before_s, before_server_s = time.process_time(), servers.backend_cpu_s(store)
    for first in range(0, len(told), SESSIONS_A_COMMIT):
        _append(store, told[first : first + SESSIONS_A_COMMIT])
    events = len(told) * EVENTS * EXCHANGES
    return (
        (time.process_time() - before_s) / events * 1e6,
        (servers.backend_cpu_s(store) - before_server_s) / events * 1e6,
    )


def on_disk(url: URL) -> int:
    """How many bytes a log takes, once nothing of it waits to be tidied up."""
    if address_of(url).is_local:
        return database_path(url).stat().st_size
    with closing(_connected(url)) as connection:
        connection.execute("VACUUM ANALYZE")
        return int(connection.execute("SELECT pg_database_size(current_database())").fetchone()[0])


def of_events(url: URL) -> str:
    """What of it are events and their indexes, where that can be asked."""
    if address_of(url).is_local:
        return "–"
    sizes = "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = CAST(%s AS regclass)"
    with closing(_connected(url)) as connection:
        return f"{int(connection.execute(sizes, [f'{SCHEMA}.events']).fetchone()[0]):,}"


def _connected(url: URL) -> Any:
    import psycopg

    return psycopg.connect(conninfo(url), autocommit=True)


def run(url: URL, command: str) -> float:
    """How long a command takes, in seconds."""
    db = url.render_as_string(hide_password=False)
    began_s = time.perf_counter()
    ran = CliRunner().invoke(recorder, [*shlex.split(command), "--db", db])
    if ran.exit_code:
        raise RuntimeError(f"recorder {command} ended with {ran.exit_code}: {ran.output[-500:]}")
    return time.perf_counter() - began_s


def ingested(url: URL, folder: Path) -> float:
    """How many events an ingester brings from a journal into an empty log in a second."""
    directory = log.prepare_journal(folder, INGESTED)
    with Store(url) as store:
        began_s = time.perf_counter()
        Ingester(store, directory, lambda _: False).drain()
        return log.EXCHANGES * INGESTED / (time.perf_counter() - began_s)


def measured(url: URL, sizes: Sequence[int]) -> Iterator[tuple[int, Figures]]:
    """For each size: how fast it was reached, what it takes, and how long each command takes."""
    began_ns, sessions, loaded, raw_bytes = time.time_ns(), 0, 0, 0
    empty_bytes, first_us = _empty(url), 0.0
    with Store(url) as store:
        for size in sizes:
            numbers = range(sessions, size // (EVENTS * EXCHANGES))
            began_s = time.perf_counter()
            raw_bytes += load(store, numbers, began_ns)
            took_s, loaded = (
                time.perf_counter() - began_s,
                loaded + len(numbers) * EVENTS * EXCHANGES,
            )
            disk_bytes = on_disk(url) - empty_bytes
            more = range(numbers.stop, numbers.stop + APPENDED)
            sessions = more.stop
            client_us, server_us = appended(store, more, began_ns)
            first_us = first_us or client_us + server_us
            figures = {
                "loaded, events/s": f"{len(numbers) * EVENTS * EXCHANGES / took_s:,.0f}",
                "appended then, µs of CPU an event": f"{client_us:.1f} + {server_us:.1f}",
                "rate of it against the first size": f"{first_us / (client_us + server_us):.2f}",
                "bytes/event as received": f"{raw_bytes / loaded:,.0f}",
                "bytes/event on disk": f"{disk_bytes / size:,.0f}",
                "MB on disk": f"{disk_bytes / 1e6:,.0f}",
                "bytes of events and their indexes": of_events(url),
                **_commands(url, numbers.stop),
            }
            yield size, figures


def _commands(url: URL, sessions: int) -> Figures:
    """How long each command takes on a log of so many sessions."""
    figures = {}
    for command in COMMANDS:
        seconds = [run(url, command) for _ in range(1 + TIMES)]
        figures[command.strip()] = f"{statistics.median(seconds[1:]) * 1e3:,.0f} ms"
    step = max(1, sessions // VERIFIED)
    named = " ".join(f"run-{number}" for number in range(0, sessions, step))
    return {
        **figures,
        f"verify, {len(named.split())} sessions": f"{run(url, f'verify {named}') * 1e3:,.0f} ms",
    }


def _empty(url: URL) -> int:
    """Make an empty log, with the partitions that one has when it has grown for long.

    Return its size.
    """
    Store(url).close()
    if not address_of(url).is_local:
        with closing(_connected(url)) as connection:
            connection.execute(f"SELECT {SCHEMA}.add_partitions({MONTHS})")
    return on_disk(url)


def print_table(found: Sequence[tuple[str, Figures]]) -> None:
    names = list(dict.fromkeys(name for _, figures in found for name in figures))
    cells = [["", *(title for title, _ in found)]]
    cells += [[name, *(figures.get(name, "–") for _, figures in found)] for name in names]
    for line in cells:
        print("| " + " | ".join(line) + " |")
    print(flush=True)


def _sessions(url: URL) -> int:
    """How many sessions a log has."""
    with Store(url) as store, store.transaction():
        [(sessions,)] = store.ask(Statement("SELECT count(*) FROM sessions"), {})
    return int(sessions)


@click.command()
@click.option(
    "--events",
    "sizes",
    type=click.IntRange(min=EVENTS * EXCHANGES),
    multiple=True,
    default=[100_000],
)
@click.option("--engine", "engines", type=click.Choice(["sqlite", "postgresql"]), multiple=True)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where files are.  [default: /tmp]",
)
@click.option(
    "--grow",
    help="Grow this empty log and leave it: a file that is not there, or a database of a server.",
)
@click.option("--read", help="Only run the commands, on a log that was left.")
def main(
    sizes: tuple[int, ...],
    engines: tuple[str, ...],
    folder: Path | None,
    grow: str | None,
    read: str | None,
) -> None:
    """Grow a log, and measure it at each size."""
    print(
        *(f"{name}: {value}" for name, value in machine.description().items()), sep="\n", flush=True
    )
    if read:
        print_table([(read, _commands(database_url(read), _sessions(database_url(read))))])
    elif grow:
        print_table(_grown(database_url(grow), sizes))
    for engine in () if grow or read else engines or ("sqlite", "postgresql"):
        with (
            ExitStack() as stack,
            tempfile.TemporaryDirectory(prefix="recorder-growth-", dir=folder) as directory,
        ):
            make = _maker(engine, Path(directory), stack)
            if make is not None:
                rate, found = ingested(make(), Path(directory) / "journal"), _grown(make(), sizes)
                print(f"\n{engine}: an ingester {rate:,.0f} events/s")
                print_table(found)


def _grown(url: URL, sizes: Sequence[int]) -> list[tuple[str, Figures]]:
    found = []
    for size, figures in measured(url, sorted(sizes)):
        print(f"{url.get_backend_name()} {size:,}: {figures}", file=sys.stderr, flush=True)
        found.append((f"{size:,}", figures))
    return found


def _maker(engine: str, directory: Path, stack: ExitStack) -> Callable[[], URL] | None:
    """What makes empty databases."""
    if engine == "sqlite":
        numbers = itertools.count()
        return lambda: database_url(directory / f"{next(numbers)}.db")
    on = stack.enter_context(servers.server())
    return None if on is None else lambda: stack.enter_context(servers.database(on))


if __name__ == "__main__":
    main()
