"""Export of a log to Parquet: one dataset for each view, partitioned by day, and one of the events
if they are wanted.

Rules of this file:

* A row belongs to the day of UTC on which its exchange began. A day is replaced whole, in all
  datasets. What is of no exchange (`session_summary` and the views that are sums) is one file over
  all days, replaced each time.
* Every dataset has a file for every day, if need be without rows: a program finds the columns,
  whatever was recorded.
* All is written to a hidden folder first, and renamed then, the manifest last: an export that
  breaks off leaves the earlier one, and the next export clears up.
* The log is read in one transaction: all datasets are of one moment.
* DuckDB computes the views and writes the files, one thread and a bounded number of rows at a time.
* The bodies of requests in an export of events are whole, although their rows may be recipes, which
  need other rows of their session (`recorder.model.shared_body`). All rows of request bodies are
  read once, to a temporary table that may be on disk, and put together from there, a few at a time.
* Bodies are in files of their own beside the other events of a day, each of a bounded size: a
  program that reads a column takes thousands of rows at once, and bodies are a thousand times as
  long as other events.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import URL

from recorder.archive.views import LAST_HASHES, open_views
from recorder.errors import RecorderError, UsageError
from recorder.exports.parquet.manifest import (
    NAME,
    SUFFIX,
    Digests,
    ExportedDay,
    ParquetManifest,
    digest_of,
    read_manifest,
    write_manifest,
)
from recorder.model.events import SHARED, Event
from recorder.projections.views.contract import VIEWS
from recorder.store.bodies.rows import Row, events_as_they_are
from recorder.store.duckdb.connection import quoted
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# -- bodies

FILE_BYTES = 16 * 2**20  # of bodies in one file, which a reader may hold all at once
PAGE_ROWS = 16  # read at once, of up to 1 MiB each

BODIES = "bodies-"  # the beginning of the names of files
LONG_BYTES = 16_384  # of a whole body: what is shorter is written with the other events

_BODIES = f"kind = 'request' AND coalesce(type, '') IN ('body', '{SHARED}')"
_APART = f"{_BODIES} AND (type = '{SHARED}' OR octet_length(raw) >= {LONG_BYTES})"
OTHERS = f"NOT ({_APART})"
"""The condition of all events that are not written apart: all but long bodies of requests, and
those of recipes.
"""


class BodyExport:
    """The request bodies of the exchanges in the table `days`, out of the view `events`."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        """Read the bodies out of the view, all of those that a recipe may need."""
        self._connection = connection
        self._connection.execute(
            f"CREATE TEMP TABLE bodies AS SELECT *, row_number() OVER () AS number FROM events WHERE {_BODIES}"
            " AND session_id IN (SELECT session_id FROM days)"
        )
        self._connection.execute(
            "CREATE TEMP TABLE chosen AS SELECT number FROM bodies SEMI JOIN days USING (session_id, exchange_id)"
            f" WHERE {_APART} ORDER BY number"
        )

    def write(self, folder: Path) -> int:
        """Write `bodies-N.parquet` to the folder of each day. Return the number of rows."""
        files = enumerate(_in_files(events_as_they_are(self._rows(), self._ask)))
        rows = sum(self._write_file(folder, number, events) for number, events in files)
        self._connection.execute("DROP TABLE bodies; DROP TABLE chosen")
        return rows

    def _rows(self) -> Iterator[Row]:
        """Yield the rows of the exchanges that are exported, of which a page is held."""
        numbers = [
            number for (number,) in self._connection.execute("SELECT number FROM chosen").fetchall()
        ]
        for start in range(0, len(numbers), PAGE_ROWS):
            page = ", ".join(map(str, numbers[start : start + PAGE_ROWS]))
            yield from self._connection.execute(
                f"SELECT * EXCLUDE number FROM bodies WHERE number IN ({page}) ORDER BY number"
            ).fetchall()

    def _ask(self, _statement: Statement, values: Any) -> Iterable[Row]:
        """Return the rows that a recipe needs: the temporary table has them, whatever the engine of
        the log.
        """
        places = [(place["x"], place["pos"]) for place in msgspec.json.decode(values["places"])]
        wanted = " OR ".join(
            f"(exchange_id = {quoted(exchange_id)} AND pos = {pos:d})"
            for exchange_id, pos in places
        )
        return self._connection.execute(
            f"SELECT exchange_id, pos, type, raw FROM bodies WHERE session_id = {quoted(values['session_id'])}"
            f" AND ({wanted or 'false'})"
        ).fetchall()

    def _write_file(self, folder: Path, number: int, events: Sequence[Event]) -> int:
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE whole AS SELECT * EXCLUDE number FROM bodies WHERE false"
        )
        places = f"({', '.join('?' * len(Event.__struct_fields__))})"
        for start in range(0, len(events), PAGE_ROWS):
            rows = [msgspec.structs.astuple(event) for event in events[start : start + PAGE_ROWS]]
            self._connection.execute(
                f"INSERT INTO whole VALUES {', '.join([places] * len(rows))}", [*chain(*rows)]
            )
        staged = folder / f"{number}"
        self._connection.execute(
            f"COPY (SELECT w.*, d.day FROM whole AS w JOIN days AS d USING (session_id, exchange_id)) TO "
            f"{quoted(str(staged))} (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day))"
        )
        self._connection.execute("DROP TABLE whole")
        for path in sorted(staged.rglob(f"*{SUFFIX}")):
            of_day = folder / path.parent.name
            of_day.mkdir(exist_ok=True)
            path.rename(of_day / f"{BODIES}{number}{SUFFIX}")
        shutil.rmtree(staged)
        return len(events)


def _in_files(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield events in groups of a bounded size."""
    held: list[Event] = []
    size_bytes = 0
    for event in events:
        held.append(event)
        size_bytes += len(event.raw)
        if size_bytes >= FILE_BYTES:
            yield held
            held, size_bytes = [], 0
    if held:
        yield held


# -- all datasets


COMMAND = "export --format parquet"
EVENTS = "events"
OF_EVENTS = ("event_gaps", "event_payloads")
BY_EXCHANGE = tuple(
    view.name for view in VIEWS if "exchange_id" in view.columns and view.name not in OF_EVENTS
)
SUMS = tuple(view.name for view in VIEWS if "exchange_id" not in view.columns)

# for DuckDB: its views and files take up to 100 MB besides, and all is to be below 300 MB
MEMORY = "160MB"
# before they are written: larger groups of rows are quicker to read and take more memory
HELD_ROWS = 16_384
_STAGED, _STAGED_FILE, _LOCK, _PART = ".export", ".staged", ".lock", f"part{SUFFIX}"
_KEYS = dict.fromkeys(("session_id", "exchange_id", "item", "step", "anomaly"))

_SETTINGS = {
    "memory_limit": MEMORY,
    "threads": "1",  # so that a day is one file
    "preserve_insertion_order": "true",  # or a second export would have other files
}
# a sum is a bigint elsewhere, and so is a flag
_NARROWED = {"HUGEINT": "BIGINT", "INTEGER": "BIGINT"}
_DAY_OF = "strftime(make_timestamp({} // 1000), '%Y-%m-%d')".format


LastHashes = dict[str, dict[str, str | None]]
"""The last hash of each exchange that began on a day, by session; None of one that has not ended.
"""


class Selection(NamedTuple):
    """The exchanges to export."""

    session_id: str | None = None
    since_ns: int | None = None  # from the beginning of the day of UTC that it is in
    events: bool = False

    def datasets(self) -> tuple[str, ...]:
        return (*BY_EXCHANGE, *self.of_events(), *SUMS)

    def of_events(self) -> tuple[str, ...]:
        """Return the datasets with a row for each event."""
        return (*OF_EVENTS, EVENTS) if self.events else OF_EVENTS


class Exported(NamedTuple):
    """The size of what was written."""

    datasets: int
    days: int
    rows: int
    open: int  # exchanges that had not ended


def export(
    url: URL, folder: Path, selection: Selection, now_ns: int, advance: Callable[[float], None]
) -> Exported:
    """Write the datasets of a log to a folder; `advance` is called with the number of those
    written, or a part of one.

    Raise `UsageError` if the folder has another export, or other files; `RecorderError` if it
    cannot be written.
    """
    try:
        folder = folder.absolute()
        views = open_views(url, COMMAND, session_id=selection.session_id, target=folder)
        with views as connection, _locked(folder):
            earlier = _earlier(folder, selection)
            return _Export(connection, folder, selection, now_ns).run(earlier, advance)
    except OSError as error:
        raise RecorderError(
            f"{error.filename or folder} cannot be written: {error.strerror}."
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Exclude other exports to a folder, which is made if it is not there.

    A link in it would lead out of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if link := next((path for path in folder.rglob("*") if path.is_symlink()), None):
        raise UsageError(
            f"{link} is a link, and an export has none: remove it, or give another folder."
        )
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(folder / _LOCK, flags, 0o666), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RecorderError(
                f"Another export is writing to {folder}: wait until it has ended."
            ) from error
        yield


def _earlier(folder: Path, selection: Selection) -> ParquetManifest:
    """Return the manifest of the export that is in a folder; in a new one, of an export that has
    nothing yet.
    """
    wanted = ParquetManifest(selection.session_id, selection.events)
    if (folder / NAME).exists():
        found = read_manifest(folder)
        if (found.session_id, found.events) != (wanted.session_id, wanted.events):
            raise UsageError(
                f"{folder} has an export of {_named(found)}: repeat that, or give another folder."
            )
        return found
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        raise UsageError(f"{folder} has other files in it: give a new or an empty folder.")
    write_manifest(folder, wanted)
    return wanted


def _named(manifest: ParquetManifest) -> str:
    sessions = "all sessions" if manifest.session_id is None else f"session {manifest.session_id}"
    return f"{sessions} {'with' if manifest.events else 'without'} --events"


class _Export:
    """One export, from the views to the files in their places."""

    def __init__(
        self, connection: DuckDBPyConnection, folder: Path, selection: Selection, now_ns: int
    ) -> None:
        self._connection, self._folder, self._selection, self._now_ns = (
            connection,
            folder,
            selection,
            now_ns,
        )
        self._staged = folder / _STAGED
        self._since, self._today = "", ""
        self._rows = 0

    def run(self, earlier: ParquetManifest, advance: Callable[[float], None]) -> Exported:
        """Write everything beside the earlier export, then put it into its place."""
        shutil.rmtree(self._staged, ignore_errors=True)
        self._staged.mkdir()
        for name, value in _SETTINGS.items():
            self._connection.execute(f"SET {name} = {quoted(value)}")
        days = self._prepare()
        for dataset in SUMS:
            (self._staged / dataset).mkdir()
            rows = f"SELECT {self._columns(dataset)} FROM {dataset} AS v"
            self._rows += self._copy(rows, self._staged / dataset / _PART)
            advance(1)
        for dataset in BY_EXCHANGE:
            self._write(dataset, days)
            advance(1)
        bodies = BodyExport(self._connection) if self._selection.events else None
        self._stage_events()
        exchanges = self._last_hashes(days)
        datasets = self._selection.of_events()
        for day in days:
            self._write_events(datasets, day)
            advance(len(datasets) / len(days))
        self._connection.execute("COMMIT")
        if bodies is not None:
            self._rows += bodies.write(self._staged / EVENTS)
        (self._staged / _STAGED_FILE).unlink()
        manifest = self._manifest(earlier, exchanges)
        _publish(self._folder, self._staged, earlier, manifest)
        unended = sum(map(_open, exchanges.values()))
        return Exported(len(self._selection.datasets()), len(days), self._rows, unended)

    def _prepare(self) -> list[str]:
        """Make a table with the day of each exchange; return the days."""
        since_ns = self._selection.since_ns
        self._today = self._day_of(self._now_ns)
        self._since = "" if since_ns is None else self._day_of(max(0, since_ns))
        self._connection.execute(
            f"CREATE TEMP TABLE days AS SELECT session_id, exchange_id, {_DAY_OF('started_ns')} AS day FROM exchanges"
            f" WHERE {_DAY_OF('started_ns')} >= {quoted(self._since)}"
        )
        return [
            day
            for (day,) in self._connection.execute(
                "SELECT DISTINCT day FROM days ORDER BY day"
            ).fetchall()
        ]

    def _day_of(self, time_ns: int) -> str:
        ((day,),) = self._connection.execute(f"SELECT {_DAY_OF(time_ns)}").fetchall()
        return str(day)

    def _columns(self, dataset: str) -> str:
        """Return the columns of a dataset for SELECT, each of the type that it has in a file."""
        types = _column_types(self._connection, dataset)
        return ", ".join(f'CAST(v."{name}" AS {kind}) AS "{name}"' for name, kind in types.items())

    def _write(self, dataset: str, days: Iterable[str]) -> None:
        """Compute a view once, into one file, and write each day from there: so the writer of one
        file is open.
        """
        columns, staged = _column_types(self._connection, dataset), self._staged / _STAGED_FILE
        self._stage(dataset, staged)
        selected = ", ".join(f'"{name}"' for name in columns)
        for day in days:
            of_day = f"FROM read_parquet({quoted(str(staged))}) WHERE day = {quoted(day)}"
            keys = ", ".join(name for name in _KEYS if name in columns)
            self._copy_day(f"SELECT {selected} {of_day} ORDER BY {keys}", dataset, day)
        staged.unlink()

    def _stage_events(self) -> None:
        """Copy the events as they come, with their days: each day is then read from there, not from
        the whole log.
        """
        path = self._staged / _STAGED_FILE
        self._stage(EVENTS, path)
        self._connection.execute(
            f"CREATE OR REPLACE VIEW {EVENTS} AS SELECT * EXCLUDE day FROM read_parquet({quoted(str(path))})"
        )

    def _write_events(self, datasets: Iterable[str], day: str) -> None:
        """Write one day of the views that are of events: of that day alone, or they would take
        memory for all.
        """
        path = quoted(str(self._staged / _STAGED_FILE))
        of_day = f"SELECT * EXCLUDE day FROM read_parquet({path}) WHERE day = {quoted(day)}"
        self._connection.execute(f"CREATE OR REPLACE VIEW {EVENTS} AS {of_day}")
        for dataset in datasets:
            where = f" WHERE {OTHERS}" if dataset == EVENTS else ""
            self._copy_day(
                f"SELECT {self._columns(dataset)} FROM {dataset} AS v{where}", dataset, day
            )

    def _stage(self, dataset: str, path: Path) -> None:
        """Copy a dataset, with the day of each row, to one file."""
        joined = f"{dataset} AS v JOIN days AS d USING (session_id, exchange_id)"
        self._copy(f"SELECT {self._columns(dataset)}, d.day FROM {joined}", path)

    def _copy_day(self, select: str, dataset: str, day: str) -> None:
        folder = self._staged / dataset / f"day={day}"
        folder.mkdir(parents=True)
        self._rows += self._copy(select, folder / _PART)

    def _copy(self, select: str, target: Path) -> int:
        """Copy rows to a file, and return their number."""
        options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {HELD_ROWS}"
        ((count,),) = self._connection.execute(
            f"COPY ({select}) TO {quoted(str(target))} ({options})"
        ).fetchall()
        return int(count)

    def _last_hashes(self, days: Iterable[str]) -> Mapping[str, LastHashes]:
        """Return for each day the last hash of its exchanges, by session; None of one that has not
        ended.
        """
        found: dict[str, LastHashes] = {day: {} for day in days}
        rows = self._connection.execute(
            "SELECT d.day, d.session_id, d.exchange_id, lower(hex(h.last_hash)) FROM days AS d "
            f"LEFT JOIN {LAST_HASHES} AS h USING (session_id, exchange_id) ORDER BY ALL"
        )
        while batch := rows.fetchmany(10_000):
            for day, session_id, exchange_id, last in batch:
                found[day].setdefault(session_id, {})[exchange_id] = last
        return found

    def _manifest(
        self, earlier: ParquetManifest, exchanges: Mapping[str, LastHashes]
    ) -> ParquetManifest:
        files: dict[str | None, Digests] = {None: {}, **{day: {} for day in exchanges}}
        for path in sorted(self._staged.rglob(f"*{SUFFIX}")):
            day = (
                path.parent.name.removeprefix("day=")
                if path.parent.name.startswith("day=")
                else None
            )
            files[day][str(path.relative_to(self._staged))] = digest_of(path)
        fresh = {
            day: ExportedDay(day < self._today and not _open(of_day), files[day], of_day)
            for day, of_day in exchanges.items()
        }
        before = {day: each for day, each in earlier.days.items() if day < self._since}
        return ParquetManifest(
            self._selection.session_id,
            self._selection.events,
            exported_ns=self._now_ns,
            files=files[None],
            days={**before, **fresh},
        )


def _column_types(connection: DuckDBPyConnection, table: str) -> Mapping[str, str]:
    """Return the columns of a view, and the types that they have in a file: text, bigint, double
    precision or blob.
    """
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    return {name: _NARROWED.get(kind, kind) for name, kind, *_ in described}


def _open(sessions: LastHashes) -> int:
    """Return how many exchanges of a day had not ended."""
    return sum(list(exchanges.values()).count(None) for exchanges in sessions.values())


def _publish(
    folder: Path, staged: Path, earlier: ParquetManifest, manifest: ParquetManifest
) -> None:
    """Put files into their places, and take away those that the export no longer has."""
    for path in sorted(staged.rglob(f"*{SUFFIX}")):
        target = folder / path.relative_to(staged)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, target)
    own = earlier.all_files.keys() | _written(folder, (*manifest.all_files, *earlier.all_files))
    # whatever a manifest names
    there = {str(path.relative_to(folder)) for path in folder.glob(f"[!.]*/**/*{SUFFIX}")}
    for path in (folder / name for name in (own & there) - manifest.all_files.keys()):
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    write_manifest(folder, manifest)
    shutil.rmtree(staged)


def _written(folder: Path, names: Iterable[str]) -> set[str]:
    """Return the files of days in the datasets of an export: also those of one that broke off
    before its manifest.
    """
    datasets = {name.partition("/")[0] for name in names} - {"", ".", ".."}
    found = chain.from_iterable((folder / each).glob(f"day=*/*{SUFFIX}") for each in datasets)
    return {
        str(path.relative_to(folder))
        for path in found
        if path.name == _PART or path.name.startswith(BODIES)
    }
