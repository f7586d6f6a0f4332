"""The parts of an engine that prove, check and copy a log: what they must have, and how they are
asked for; and the checks of `recorder doctor` that every engine has.

An engine opens the log for reading only and runs these checks among its own (`Upkeep.checks`). All
questions together take some seconds at most: a table that is too long for that is not counted, and
that is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from sqlalchemy import URL, Table

from recorder.errors import StoreError
from recorder.model.events import TRANSCRIPT, EndRecord
from recorder.projections.rows import TABLES
from recorder.store.engine import Backup, Progress, engine_name, part
from recorder.store.maintain.migrate import require_known
from recorder.store.schema import REBUILD_IS_DUE, require_head
from recorder.store.sql import Statement, Step

State = Literal["ok", "warn", "bad"]


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check."""

    state: State
    "The result."
    check: str
    "What was checked."
    message: str
    "One sentence with the finding or the remedy."


class Ask:
    """The questions to a log that is open: one statement without values at a time."""

    def __init__(self, rows: Callable[[str], Sequence[Any]]) -> None:
        """`rows` returns the rows of a statement; it raises the driver's errors."""
        self.rows = rows

    def __call__(self, sql: str) -> Any:
        """Return the first value of the first row, or None."""
        return (self.rows(sql) or [(None,)])[0][0]


Check = Callable[[Ask], Iterator[CheckResult]]


def run_checks(
    checks: Mapping[str, Check], ask: Ask, is_timeout: Callable[[Exception], bool]
) -> Iterator[CheckResult]:
    """Yield the results of checks by name.

    `is_timeout` knows the error with which the driver gives up a statement.
    """
    for name, check in checks.items():
        try:
            yield from check(ask)
        except Exception as error:
            if not is_timeout(error):
                raise
            yield CheckResult(
                "ok", name, "The log is too long for a quick check: run `recorder verify`."
            )


# -- the checks that are the same on every engine

LIMIT_S = 2.0  # for what an engine is asked: `recorder doctor` is for people who wait
AHEAD_NS = 300 * 10**9  # clocks of machines differ, but not by five minutes
NOT_WHOLE = "select session_name, exchange_id, status from exchange_summary where lossless = 0"
_RECORDED = f"session_id NOT IN (SELECT session_id FROM sessions WHERE source = '{TRANSCRIPT}')"
"""What is derived from a transcript was never recorded, and is not whole by its nature."""


def _projections(ask: Ask) -> Iterator[CheckResult]:
    if ask(REBUILD_IS_DUE):
        yield CheckResult(
            "warn", "projections", "The projections are not up to date: run `recorder db rebuild`."
        )
    else:
        yield CheckResult(
            "ok", "projections", "Messages, usage and all other projections are up to date."
        )


def _dead_letters(ask: Ask) -> Iterator[CheckResult]:
    count = ask("SELECT count(*) FROM dead_letters")
    if count:
        what = "one exchange" if count == 1 else f"{count:,} exchanges"
        message = f"Of {what} recorder can make no sense: run `recorder db rebuild`, and report what it says."
        yield CheckResult("bad", "projections", message)


def _gaps(ask: Ask) -> Iterator[CheckResult]:
    count = ask(f"SELECT count(*) FROM {TABLES['exchanges']} WHERE lossless = 0 AND {_RECORDED}")
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
    if (
        newest is not None
        and int(newest[:13].replace("-", ""), 16) * 10**6 > time.time_ns() + AHEAD_NS
    ):
        yield CheckResult(
            "warn",
            "clock",
            "The newest exchange is from the future: the clock was set back, here or where it was.",
        )


CHECKS: Mapping[str, Check] = {
    "projections": _projections,
    "dead_letters": _dead_letters,
    "gaps": _gaps,
    "newest": _newest,
}


def of_schema(name: object, revision: str | None) -> CheckResult | None:
    """Return the result for a schema that is not the one of this program, else None."""
    state: State = "bad"  # of a newer recorder, or of one that nobody has any more
    try:
        require_known(name, revision)
        state = "warn"
        require_head(name, revision)
    except StoreError as error:
        return CheckResult(state, "schema", str(error))
    return None


PROBE_S = 1.0
ENOUGH_S = 0.3  # after which no more is asked: the rest is for the next probe
IDS = 50  # asked for at once: exchanges of a thousand events take some milliseconds

_BEGUN = "SELECT exchange_id FROM exchanges WHERE exchange_id "
_ENDED = """SELECT x.exchange_id, e.raw, (
    SELECT coalesce(sum(json_array_length({reads})), 0) FROM events AS r
    WHERE r.session_id = e.session_id AND r.exchange_id = e.exchange_id AND r.kind = 'reads' AND r.type IS NULL
) FROM exchanges AS x JOIN events AS e ON e.session_id = x.session_id AND e.exchange_id = x.exchange_id
AND e.kind = 'end' WHERE x.exchange_id """


class VerifyConnection:
    """A `recorder.store.engine.Database` that only reads, for one thread.

    Everything raises the errors of recorder.

    A transaction sees the log as it is at one moment, and is rolled back at its end. A scratch
    connection has empty tables with the names of some of the log's, in front of these: rows written
    there are deleted at the end of the transaction, and the log's own tables have the name of their
    schema.
    """

    driver: ModuleType
    """The `connection` module of the engine, which runs statements."""

    begin: str | bytes
    """Begins a transaction."""

    def __init__(self, place: Any, connection: Any) -> None:
        """`place` is where the log is, as the engine's `translated` takes it."""
        self._place, self._connection = place, connection

    @property
    def engine(self) -> str:
        return str(self.driver.ENGINE)

    def translated(self) -> AbstractContextManager[None]:
        translated: AbstractContextManager[None] = self.driver.translated(self._place)
        return translated

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Give all statements inside the same moment."""
        with self.translated():
            self._connection.execute(self.begin)
            try:
                yield
            finally:
                self._connection.rollback()

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        """Yield the rows of a statement as they are read; a long one inside a transaction, and
        closed by the caller.
        """
        with self.translated():
            yield from self.driver.rows(self._connection, statement, values)

    def run(self, statement: Statement, values: Any) -> None:
        self.run_all([(statement, values)])

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        with self.translated():
            answers: list[list[Sequence[Any]]] = self.driver.run_all(self._connection, steps)
            return answers

    def damage(self) -> list[str]:
        """Return the damage that the engine itself finds, a sentence each."""
        return []

    def orphans(self) -> list[str]:
        """Return the rows of the log that no view shows, because what they belong to was removed: a
        sentence each.
        """
        return []

    def search_damage(self) -> list[str]:
        """Return the full-text indexes that do not have the words of their rows, a sentence each."""
        raise NotImplementedError


class Verifying(Protocol):
    """Connections that prove a log."""

    def verify_connection(self, url: URL) -> AbstractContextManager[VerifyConnection]:
        """Open a connection that proves a log.

        Raise `NotFoundError` or `StoreError` if there is none to read.
        """

    def scratch_connection(
        self, url: URL, tables: Sequence[Table]
    ) -> AbstractContextManager[VerifyConnection]:
        """Open one that can also write to empty tables of these names, which are dropped at the
        end.

        What is written to the full-text indexes is dropped. Raise `RecorderError` if the tables
        cannot be made.
        """


class Ended(NamedTuple):
    """The sums of an exchange that has ended in the log."""

    exchange_id: str
    chunks: int
    size_bytes: int
    gap_chunks: int
    gap_bytes: int


class ProbeResult(NamedTuple):
    """The exchanges that the log has, among those in question."""

    begun: list[str]
    ended: list[Ended]
    database_bytes: int | None = None
    wal_bytes: int | None = None  # of a file
    error: str | None = None  # why the log could not be read, or not in time


NOTHING = ProbeResult([], [])

Fetch = Callable[[str, Any], list[Any]]
"""Returns the rows of a statement with one value."""


class LogProbe:
    """A probe of one recorder's log, for one thread: it reads the sums of ended exchanges, in a few
    short statements.

    It stays in no transaction, and is over in `PROBE_S` by the clock of the database. One that
    hangs has none: who waits for a look has a limit of his own, and may interrupt it. It asks for
    exchanges by their ids, and reads each once, when it has ended: what it costs does not grow with
    the log.
    """

    reads: str
    """The expression for the JSON of a row of `reads`."""

    is_asked_for: str
    """The condition that an id is one of those that are given."""

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        """Find the exchanges that have begun and those that have ended, as far as time allows."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """End a look that got no answer in time, if anything can. Called in another thread."""

    def close(self) -> None: ...

    def found(self, ask: Fetch, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        """Return the exchanges that one connection finds."""
        until_s = time.monotonic() + ENOUGH_S
        began = _rows(ask, _BEGUN + self.is_asked_for, begun, until_s)
        over = _rows(ask, _ENDED.format(reads=self.reads) + self.is_asked_for, ended, until_s)
        return ProbeResult(
            [exchange_id for (exchange_id,) in began], [_ended(*row) for row in over]
        )


def _rows(ask: Fetch, sql: str, ids: Sequence[str], until_s: float) -> Iterator[Any]:
    for start in range(0, len(ids), IDS):
        yield from ask(sql, ids[start : start + IDS])
        if time.monotonic() > until_s:
            return


def _ended(exchange_id: str, raw: bytes, chunks: int) -> Ended:
    end = msgspec.json.decode(raw, type=EndRecord)
    return Ended(exchange_id, chunks, end.wire_bytes, end.gap_chunks, end.gap_bytes)


class Upkeep(Protocol):
    """The checks and the copy of a log."""

    def log_probe(self, url: URL) -> LogProbe:
        """Return what reads the sums of ended exchanges for the metrics of a recorder."""

    def checks(self, url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
        """Yield the state of a log for `recorder doctor`, up to the first failure that prevents the
        others.

        It changes nothing. `more` are checks of the caller by name, which use the same connection.
        """

    def library_checks(self) -> Iterator[CheckResult]:
        """Yield the state of the library on this machine that the engine needs, if recorder depends
        on its version.
        """

    def file_checks(self, url: URL) -> Iterator[CheckResult]:
        """Yield the state of files that only this engine has beside a database."""

    def back_up(self, url: URL, target: Path, progress: Progress, *, force: bool) -> Backup:
        """Copy a database to a file.

        Raise `UsageError` where that is the task of another program.
        """


def verifying_of(url: URL) -> Verifying:
    verifying: Verifying = part(engine_name(url), "verify")
    return verifying


def upkeep_of(url: URL) -> Upkeep:
    upkeep: Upkeep = part(engine_name(url), "upkeep")
    return upkeep


def opened(url: URL) -> AbstractContextManager[VerifyConnection]:
    """Open a log to prove it.

    Raise `NotFoundError` if there is none, `StoreError` if it cannot be read here.
    """
    return verifying_of(url).verify_connection(url)
