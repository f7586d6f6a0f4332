"""Sessions of an archive as a log: their rows in a temporary file, where the hashes of events are
computed.

Rules of this file:

* What is read of one session comes from here, so it is read by the same statements as in a log, and
  quickly: an archive has no index, and a question to it costs as much as a session.
* The rows are as they were in the log, recipes of shared bodies included. The hash of an event
  follows from the one before; that of the last event is the one that was recorded. So whoever
  verifies the chain finds every difference there.
* The log takes any rows, in whatever order: those of an archive that was changed are for
  `recorder verify`. Only a row that is in the archive twice, or that no log could have, makes its
  session `broken`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlalchemy import URL, Table, create_engine, insert

from recorder.archive.lake import LAKE, translated
from recorder.archive.place import database_name
from recorder.archive.schema import COPIED, MONTH, OF_CHAIN, OF_SESSIONS, month_of, of_sessions
from recorder.archive.views import open_views
from recorder.errors import StoreConflictError, StoreError
from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import SHARED, Event, Exchange
from recorder.store.bodies.rows import SharedRow, is_shared
from recorder.store.duckdb.connection import quoted
from recorder.store.engine import BUSY_TIMEOUT_S, schema_of, writing_of
from recorder.store.location import database_url
from recorder.store.schema import APPLICATION_ID, HEAD, LOG, VERSION_TABLE, events, exchanges
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from recorder.store.engine import Writer


RootKind = Literal["row", "ids"]
"""The root of a chain: it covers the row of the exchange, or in an older log its ids only."""

_ROOTS: Mapping[RootKind, Callable[[Exchange], bytes]] = {
    "row": row_root,
    "ids": lambda exchange: root(exchange.session_id, exchange.exchange_id),
}


def root_kind(exchange: Exchange, first: Event) -> RootKind | None:
    """Return the root that the first event of an exchange is chained to, `None` if it is neither."""
    return next(
        (
            kind
            for kind, root in _ROOTS.items()
            if hash_after(root(exchange), first, first.pos) == first.hash
        ),
        None,
    )


ROWS = 1000  # inserted at once
PIECE_BYTES = 8 * 2**20  # of events that are sorted at once: DuckDB holds them some ten times over

Row = tuple[Any, ...]

_STORED = [column.name for column in events.c if column is not events.c.hash]
_METADATA = f"__ducklake_metadata_{LAKE}"
_FILLED = f"""SELECT DISTINCT t.table_name FROM {_METADATA}.ducklake_data_file AS f
JOIN {_METADATA}.ducklake_table AS t USING (table_id) WHERE f.end_snapshot IS NULL"""
_SIZES = f"""SELECT session_id || exchange_id, CAST(coalesce(sum(octet_length(raw)), 0) AS BIGINT), min(pos), max(pos)
FROM {LAKE}.events WHERE {{}} GROUP BY 1 ORDER BY 1"""
_ORDER = "ORDER BY session_id, exchange_id, pos"
_IS_BODY = f"kind = 'request' AND type IN ('body', '{SHARED}')"


class UnpackedLog:
    """Sessions in a log of their own, until it is closed."""

    def __init__(self, url: URL, folder: Path) -> None:
        self.url, self._folder = url, folder
        self.broken: set[str] = set()  # sessions with a row that is there twice, or that no log has
        # exchanges of which there are events and no row, so the log has nothing
        self.orphans: list[str] = []
        # exchanges whose last hash does not follow from their events
        self.unchained: list[str] = []

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.iterdir())

    def close(self) -> None:
        shutil.rmtree(self._folder)


class Archive:
    """An archive, open for one thread. Its connection has the tables and views of a log."""

    def __init__(self, url: URL, connection: DuckDBPyConnection, folder: Path) -> None:
        self.url, self.name, self.connection, self._folder = (
            url,
            database_name(url),
            connection,
            folder,
        )

    def unpack(self, session_id: str) -> UnpackedLog:
        """Return a session as a log; an empty one if the archive does not have it.

        Raise `StoreError` if it cannot be read.
        """
        with translated(self.url):
            unpacked = unpack(self.connection, month_of(session_id), [session_id], self._folder)
        if unpacked.broken:
            unpacked.close()
            raise StoreError(
                f"The archive {self.name} has a row of session {session_id} twice, or one that no log has: its files "
                "were changed."
            )
        return unpacked


@contextmanager
def open_archive(url: URL, command: str, prices: Sequence[Sequence[Any]] = ()) -> Iterator[Archive]:
    """Open an archive, with the prices of a log.

    `command` is for the error if an extra is not installed.

    Raise `NotFoundError` or `StoreError` if there is none that can be read here.
    """
    with open_views(url, command, prices=prices) as connection:
        # it may stay open for long: each statement sees the archive as it is then
        connection.execute("COMMIT")
        with tempfile.TemporaryDirectory(prefix="recorder-archive-") as folder:
            yield Archive(url, connection, Path(folder))


def unpack(
    archive: DuckDBPyConnection, month: str, session_ids: Collection[str], folder: Path
) -> UnpackedLog:
    """Make a log of some sessions of a month in a folder.

    Raise the errors of DuckDB, and `StoreError`.
    """
    empty = folder / "empty.db"
    if not empty.exists():
        _create(empty)
    own = Path(tempfile.mkdtemp(dir=folder))
    log = UnpackedLog(database_url(shutil.copy(empty, own / "log.db")), own)
    try:
        writer = writing_of(log.url).writer(log.url, BUSY_TIMEOUT_S)
        with closing(writer), closing(archive.cursor()) as bodies:
            _set_free(writer)
            with writer.transaction(alone=True):
                _Unpacking(archive, bodies, writer, of_sessions(month, session_ids), log).run()
    except BaseException:
        log.close()
        raise
    return log


def _create(path: Path) -> None:
    """Make an empty log without guards."""
    url = database_url(path)
    engine = create_engine(url)
    with engine.connect() as connection:
        for pragma in (
            "journal_mode = OFF",
            "synchronous = OFF",
            f"application_id = {APPLICATION_ID}",
        ):
            connection.exec_driver_sql(f"PRAGMA {pragma}")
        for statement in schema_of(url).schema_statements():
            if not statement.startswith("CREATE TRIGGER"):
                connection.exec_driver_sql(statement)
        connection.exec_driver_sql(
            f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"
        )
        connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')")
        connection.commit()
    engine.dispose()


def _set_free(writer: Writer) -> None:
    """Let a file take any rows, in one go: nobody needs it after a crash."""
    driver: Any = writer.connection.connection.driver_connection
    for pragma in ("foreign_keys = OFF", "journal_mode = MEMORY", "synchronous = OFF"):
        driver.execute(f"PRAGMA {pragma}")


class _Chain(NamedTuple):
    """The hash that the first event of an exchange is chained to, and that of the last one as it
    was recorded.
    """

    root: bytes
    last: bytes | None


class _Unpacking:
    """The rows of some sessions, on their way from an archive to a log."""

    def __init__(
        self,
        archive: DuckDBPyConnection,
        bodies: DuckDBPyConnection,
        writer: Writer,
        which: str,
        log: UnpackedLog,
    ) -> None:
        """`bodies` is a cursor for nothing else. `which` is the condition on rows."""
        self._archive, self._bodies, self._writer, self._which, self._log = (
            archive,
            bodies,
            writer,
            which,
            log,
        )
        self._chains: dict[tuple[str, str], _Chain] = {}

    def run(self) -> None:
        # A table without files takes DuckLake longer than one with some.
        filled = {name for (name,) in self._archive.execute(_FILLED).fetchall()}
        for table in COPIED:
            if table.name in filled - {events.name, exchanges.name}:
                names = [name for name in table.columns if name != MONTH]
                self._add(OF_SESSIONS[table.name], self._rows(table.name, names))
        if exchanges.name in filled:
            self._add(exchanges, self._exchanges())
        if events.name in filled:
            self._add(events, self._events())
        for (_, exchange_id), chained in self._chains.items():  # those that have no events
            if chained.last is not None:
                self._log.unchained.append(exchange_id)

    def _exchanges(self) -> Iterator[Row]:
        for *row, last_hash, root_kind in self._rows(
            exchanges.name, [*exchanges.c.keys(), *OF_CHAIN]
        ):
            exchange = Exchange(*row)
            key = exchange.session_id, exchange.exchange_id
            root = _ROOTS.get(root_kind, row_root)(exchange)
            self._chains[key] = _Chain(root, last_hash)
            yield tuple(row)

    def _events(self) -> Iterator[Row]:
        """Yield all events with their hashes.

        A body may be put together from those of any other exchange.
        """
        bodies = f"SELECT session_id, exchange_id, pos, type, raw FROM {LAKE}.events WHERE {self._which} AND {_IS_BODY}"
        self._bodies.execute(f"CREATE TEMP TABLE bodies AS {bodies}")
        pieces = (
            self._rows(events.name, _STORED, f"AND {piece} {_ORDER}") for piece in self._pieces()
        )
        for key, rows in groupby(chain.from_iterable(pieces), key=itemgetter(0, 1)):
            chained = self._chains.pop(key, None)
            if chained is None:
                self._log.orphans.append(key[1])
            else:
                yield from self._hashed(key, chained, rows)

    def _pieces(self) -> Iterator[str]:
        """Yield conditions on neighbours whose events are sorted at once; those of a long exchange
        are in parts.
        """
        keys: list[str] = []
        total = 0
        for key, size_bytes, first, last in self._archive.execute(
            _SIZES.format(self._which)
        ).fetchall():
            if keys and total + size_bytes > PIECE_BYTES:
                yield _between(keys)
                keys, total = [], 0
            if size_bytes <= PIECE_BYTES:
                keys.append(key)
                total += size_bytes
                continue
            step = max(1, (last - first + 1) * PIECE_BYTES // size_bytes)
            for start in range(first, last + 1, step):
                yield f"{_between([key])} AND pos >= {start} AND pos < {start + step}"
        if keys:
            yield _between(keys)

    def _hashed(self, key: tuple[str, str], chained: _Chain, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the events of one exchange with their hashes: the last one is that of the exchange,
        if it has one.
        """
        head = chained.root
        for row, following in pairwise(chain(rows, [None])):
            assert row is not None
            event = self._event((*row, b""))
            head = hash_after(head, event, event.pos)
            if following is None and chained.last not in (None, head):
                self._log.unchained.append(key[1])
            is_last = following is None and chained.last is not None
            yield (*row, chained.last if is_last else head)

    def _event(self, row: Row) -> Event:
        """Return the event of a row; one that cannot be put together has its raw recipe, which no
        hash fits.
        """
        if not is_shared(row):
            return Event(*row)
        try:
            shared = SharedRow(row)
            places = ", ".join(
                f"({quoted(exchange_id)}, {pos})" for exchange_id, pos in shared.places
            )
            session_id = shared.parameters["session_id"]
            which = f"session_id = {quoted(session_id)} AND (exchange_id, pos) IN ({places})"
            sources = self._bodies.execute(
                f"SELECT exchange_id, pos, type, raw FROM bodies WHERE {which}"
            )
            return shared.event(sources.fetchall())
        except ValueError:
            return Event(*row)

    def _rows(self, table: str, names: Sequence[str], more: str = "") -> Iterator[Row]:
        columns = ", ".join(f'"{name}"' for name in names)
        result = self._archive.execute(
            f"SELECT {columns} FROM {LAKE}.{table} WHERE {self._which} {more}"
        )
        while page := result.fetchmany(ROWS):
            yield from page

    def _add(self, table: Table, rows: Iterable[Row]) -> None:
        for session_id, of_session in groupby(rows, key=itemgetter(0)):
            while page := list(islice(of_session, ROWS)):
                if not self._are_new(table, page):
                    self._log.broken.add(session_id)

    def _are_new(self, table: Table, page: list[Row]) -> bool:
        """Add rows. Return whether the log takes all of them."""
        try:
            with self._writer.translated():
                if table in LOG:
                    return self._writer.add(table, page) == len(page)
                names = table.c.keys()
                self._writer.run(
                    _insert(table), [dict(zip(names, row, strict=True)) for row in page]
                )
                return True
        except (StoreConflictError, TypeError, ValueError):
            return False


def _between(keys: Sequence[str]) -> str:
    # ids are of one length
    return f"session_id || exchange_id BETWEEN {quoted(keys[0])} AND {quoted(keys[-1])}"


@cache
def _insert(table: Table) -> Statement:
    return Statement(insert(table))
