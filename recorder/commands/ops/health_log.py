"""The checks of `recorder doctor` on the database: owner, schema, open tasks.

It is opened for reading only; without a WAL not even side files are made. All questions together take `LIMIT_S` at
most: a table that is too long for that is not counted, and the finding reports it.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from recorder.commands.ops.health import CheckResult
from recorder.commands.ops.last_verify import last_verify
from recorder.commands.ops.writers import writer_of
from recorder.errors import StoreError
from recorder.model.text import counted
from recorder.projections import TABLES
from recorder.store import migrate
from recorder.store.location import database_url, journal_root
from recorder.store.schema import REBUILD_IS_DUE
from recorder.store.sql import has_ended
from recorder.store.sqlite.connection import application_id, meaning, open_reader, translated
from recorder.store.verify.log import Writer

LIMIT_S = 2.0
STEPS = 100_000  # of SQLite's machine between two looks at the time
OLD_NS = 30 * 86_400 * 10**9  # a month
AHEAD_NS = 300 * 10**9  # clocks of machines differ, but not by five minutes
NOT_WHOLE = "select session_name, exchange_id, status from exchange_summary where lossless = 0"

Ask = Callable[[str], Any]
"""The first value of the first row."""


def log(database: Path) -> Iterator[CheckResult]:
    """Yield the checks of a database file, up to the first failure that prevents the others."""
    if database.is_dir():
        yield CheckResult("bad", "database", f"{database} is a directory: give the path of a file with --db.")
    elif not database.exists():
        yield CheckResult("ok", "database", f"There is no database {database} yet: the first recording makes it.")
    elif Path(f"{database}-journal").exists():
        message = "An upgrade of the database was interrupted: run `recorder db upgrade`, which undoes and repeats it."
        yield CheckResult("warn", "database", message)
    elif database.stat().st_size == 0:
        yield CheckResult("ok", "database", f"The database {database} is empty: the first recording fills it.")
    else:
        try:
            yield from _opened(database)
        except StoreError as error:
            yield CheckResult("bad", "database", str(error))


def _opened(database: Path) -> Iterator[CheckResult]:
    if application_id(database) != migrate.APPLICATION_ID:
        yield CheckResult("bad", "database", f"{database} belongs to another program: give another path with --db.")
        return
    with _connection(database) as ask:
        revision = ask(migrate.READ_REVISION)
        if wrong := of_schema(database, revision):
            yield wrong
            return
        size = database.stat().st_size
        yield CheckResult("ok", "database", f"{database} has {size / 2**20:.1f} MiB and schema {revision}.")
        for name, check in CHECKS.items():
            try:
                yield from check(ask)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise meaning(error, database) from error
                yield too_long(name)
        yield from _open(ask, writer_of(journal_root(database_url(database))))
        yield from _verified(database, ask("SELECT EXISTS (SELECT 1 FROM exchanges)"))


@contextmanager
def _connection(database: Path) -> Iterator[Ask]:
    """Open a read-only connection. A file without a WAL is complete, and opened as immutable."""
    wal = Path(f"{database}-wal")
    options = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    with translated(database):
        with open_reader(database, LIMIT_S, options) as connection:
            deadline = time.monotonic() + LIMIT_S
            connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
            yield lambda sql: (connection.execute(sql).fetchone() or (None,))[0]


def _projections(ask: Ask) -> Iterator[CheckResult]:
    if ask(REBUILD_IS_DUE):
        yield CheckResult("warn", "projections", "The projections are not up to date: run `recorder db rebuild`.")
    else:
        yield CheckResult("ok", "projections", "Messages, usage and all other projections are up to date.")


def _dead_letters(ask: Ask) -> Iterator[CheckResult]:
    count = ask("SELECT count(*) FROM dead_letters")
    if count:
        what = "one exchange" if count == 1 else f"{count:,} exchanges"
        message = f"Of {what} recorder can make no sense: run `recorder db rebuild`, and report what it says."
        yield CheckResult("bad", "projections", message)


def _gaps(ask: Ask) -> Iterator[CheckResult]:
    count = ask(f"SELECT count(*) FROM {TABLES['exchanges']} WHERE lossless = 0")
    if count:
        what = "1 exchange is" if count == 1 else f"{count:,} exchanges are"
        message = f'{what} not whole, which was noted when it happened: `recorder query "{NOT_WHOLE}"` lists them.'
        yield CheckResult("warn", "gaps", message)
    else:
        yield CheckResult("ok", "gaps", "Every exchange that has ended is complete.")


def _newest(ask: Ask) -> Iterator[CheckResult]:
    newest = ask(
        "SELECT CAST(exchange_id AS TEXT) FROM exchanges WHERE substr(CAST(exchange_id AS TEXT), 15, 1) = '7' "
        "ORDER BY exchange_id DESC LIMIT 1"
    )
    if newest is not None and int(newest[:13].replace("-", ""), 16) * 10**6 > time.time_ns() + AHEAD_NS:
        yield CheckResult(
            "warn", "clock", "The newest exchange is from the future: the clock was set back, here or where it was."
        )


def _open(ask: Ask, writer: Callable[[str], Writer]) -> Iterator[CheckResult]:
    """Count the exchanges without an end that `recorder verify` would list."""
    counts: Counter[Writer] = Counter()
    try:
        for recorder_id, exchanges in msgspec.json.decode(ask(_UNENDED), type=list[tuple[str, int]]):
            counts[writer(recorder_id)] += exchanges
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        yield too_long("open")
        return
    for state, remedy in _REMEDIES.items():
        if count := counts[state]:
            yield CheckResult("warn", "open", f"{counted(count, 'exchange')} without an end: {remedy}.")
    if count := counts["alive"]:
        yield CheckResult("ok", "open", f"{counted(count, 'exchange')} {'is' if count == 1 else 'are'} being recorded.")
    if not counts:
        yield CheckResult("ok", "open", "No exchange is open.")


_UNENDED = f"""SELECT json_group_array(json_array(CAST(recorder_id AS TEXT), exchanges)) FROM (
    SELECT recorder_id, count(*) AS exchanges FROM exchanges AS x WHERE NOT {has_ended("x")} GROUP BY recorder_id)"""
_REMEDIES: Mapping[Writer, str] = {
    "left": "their recorder is gone, run `recorder db recover`",
    "gone": "nobody records them, and no journal has the rest; `recorder verify` names them",
}

# On both engines.
CHECKS: Mapping[str, Callable[[Ask], Iterator[CheckResult]]] = {
    "projections": _projections,
    "dead_letters": _dead_letters,
    "gaps": _gaps,
    "newest": _newest,
}


def too_long(check: str) -> CheckResult:
    return CheckResult("ok", check, "The log is too long for a quick check: run `recorder verify`.")


def of_schema(name: object, revision: str | None) -> CheckResult | None:
    """Yield what is wrong with the schema."""
    try:
        migrate.require_head(name, revision)
    except StoreError as error:
        is_older = revision is None or str(revision) < migrate.HEAD
        return CheckResult("warn" if is_older else "bad", "schema", str(error))
    return None


def _verified(database: Path, has_exchanges: bool) -> Iterator[CheckResult]:
    try:
        last = last_verify(database)
    except (OSError, ValueError):
        yield CheckResult("warn", "verify", "The time of the last verification cannot be read: run `recorder verify`.")
        return
    if last is None:
        if has_exchanges:
            yield CheckResult("warn", "verify", "The log was never verified: run `recorder verify`.")
    elif last.findings:
        message = f"The last `recorder verify`, on {_day(last.ended_ns)}, had findings: run it again, and see."
        yield CheckResult("bad", "verify", message)
    elif time.time_ns() - last.ended_ns > OLD_NS:
        yield CheckResult(
            "warn", "verify", f"The log was last verified on {_day(last.ended_ns)}: run `recorder verify`."
        )
    else:
        yield CheckResult("ok", "verify", f"The log was last verified on {_day(last.ended_ns)}: all was as recorded.")


def _day(ns: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(ns / 1e9))
