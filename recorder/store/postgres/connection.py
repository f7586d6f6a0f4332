"""Connections to PostgreSQL: how they are opened, the form of values, and the meaning of its
errors.

Rules of this file:

* One driver, psycopg 3, for the thread that writes and for the event loop that reads.
* Ids come and go as text, sums as numbers: a row is the same as that of SQLite.
* A connection that breaks is not an error of the statement: it is repeated on a new one.
* Each waits with `Patience`, which has a limit for who repeats what it asks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from functools import lru_cache
from itertools import count
from math import inf
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from recorder.errors import RecorderError, StoreBusyError, StoreConflictError, StoreError
from recorder.store.engine import nothing_in
from recorder.store.location import database_name
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.schema import VERSION_TABLE
from recorder.store.sql import Statement, Step

try:
    import psycopg
    from psycopg.adapt import Dumper, Loader
    from psycopg.conninfo import make_conninfo
    from psycopg.postgres import types
    from psycopg.pq import Format, TransactionStatus
    from psycopg.types.numeric import NumericBinaryLoader, NumericLoader

    from recorder.store.postgres.patience import Patience, PatientConnection
except ImportError as error:
    raise RecorderError(
        "PostgreSQL needs a driver that is not installed: pip install 'psycopg[binary]>=3.2.11'."
    ) from error

ENGINE = "postgresql"
ENCODING = "UTF8"
_NO_UTF8 = (
    "The database {name} has the encoding {encoding}, which does not keep every text: "
    "create one with ENCODING 'UTF8' TEMPLATE template0."
)
CONNECT_S = 10  # a server that does not answer is away: the journal keeps what passes
LOCK_POLL_S = 0.05  # each is a round trip
# the class of the locks of tasks: a number that no other program on the server is likely to lock
TASKS = 0x53534574
# that are kept as text, half a megabyte: rows of a session have its id, and neighbours are read
# again
IDS = 4096
PIECE = 64  # rows of a long answer that are read at once: of 256 KiB each, 16 MiB
# the names of those that are open
_CURSORS: WeakKeyDictionary[psycopg.Connection, set[str]] = WeakKeyDictionary()
# compiling takes longer than what we ask
_EVERYWHERE = {"search_path": SCHEMA, "jit": "off", "timezone": "UTC"}

# A connection through a router that forgot it is given up before clients notice: in 30 s, not in 15
# minutes.
CONNECTION: Mapping[str, Any] = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "recorder",
}


class _FlagDumper(Dumper):
    """Dumps a flag as 0 or 1, which it is in a table."""

    oid = types["int8"].oid

    def dump(self, obj: Any) -> bytes:
        return b"1" if obj else b"0"


class _IdLoader(Loader):
    """Loads a uuid as its text."""

    def load(self, data: Any) -> str:
        return bytes(data).decode()


class _IdBinaryLoader(Loader):
    """Loads a uuid as its text, from its sixteen bytes."""

    format = Format.BINARY

    def load(self, data: Any) -> str:
        return _id(bytes(data))


@lru_cache(IDS)
def _id(data: bytes) -> str:
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class _NumberLoader(NumericLoader):
    """Loads a numeric, which sums and shares are, as an int if it is whole, else as a float."""

    def load(self, data: Any) -> Any:
        return _plain(super().load(data))


class _NumberBinaryLoader(NumericBinaryLoader):
    """Loads a numeric in the binary format."""

    def load(self, data: Any) -> Any:
        return _plain(super().load(data))


def _plain(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() else float(number)


def conninfo(url: URL) -> str:
    """Return the connection string of libpq for a URL, with the password."""
    given, options = url.get_dialect()().create_connect_args(url)
    return make_conninfo(*given, **{**CONNECTION, **options})


def writer_engine(url: URL, busy_timeout_s: float, patience: Patience | None = None) -> Engine:
    """Return an engine that writes. All of its connections have one patience."""
    engine = create_engine(url, poolclass=NullPool, connect_args=CONNECTION)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, given: Any, options: Any) -> PatientConnection:
        return _connected(patience or Patience(), *given, **options)

    settings = {
        "lock_timeout": f"{max(1, round(busy_timeout_s * 1000))}ms",
        "synchronous_commit": "on",
        # who waited sees what was committed while he did
        "default_transaction_isolation": "read committed",
    }
    prepare(engine, settings)
    return engine


def _connected(patience: Patience, *given: Any, **options: Any) -> PatientConnection:
    connection = PatientConnection.connect(*given, **options)
    connection.patience = patience
    return connection


@contextmanager
def open_reader(
    url: URL, settings: Mapping[str, str], **options: Any
) -> Iterator[psycopg.Connection]:
    """Open a connection of the driver that only reads, for one thread; it begins its transactions
    itself.

    `settings` are of the session, in SQL; `options` are those of `connect_reader`.
    """
    with translated(url):
        connection = connect_reader(url, settings, **options)
    with connection:
        yield connection


@contextmanager
def task_lock(url: URL, task: str, timeout_s: float, refusal: str) -> Iterator[None]:
    """Hold the lock of a task, on a connection of its own."""
    until_s = time.monotonic() + timeout_s
    with open_reader(url, {}) as connection:
        while not _try_lock(connection, url, task):
            if time.monotonic() >= until_s:
                raise StoreBusyError(refusal)
            time.sleep(LOCK_POLL_S)
        yield


def _try_lock(connection: psycopg.Connection, url: URL, task: str) -> bool:
    with translated(url):
        row = connection.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(%s))", [TASKS, task]
        ).fetchone()
    return row is not None and row[0] is True


def connect_reader(
    url: URL, settings: Mapping[str, str], answer_timeout_s: float = inf, **options: Any
) -> psycopg.Connection:
    """Return such a connection to a caller that keeps it, closes it and translates what it raises.

    `options` are those of a connection that differ from the usual.
    """
    conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = _connected(
        Patience(answer_timeout_s), conninfo, autocommit=True, **{**CONNECTION, **options}
    )
    with _closed_on_error(connection):
        adapt(connection)
        for name, value in {
            **_EVERYWHERE,
            "default_transaction_read_only": "on",
            **settings,
        }.items():
            connection.execute(f"SET {name} = {value}".encode())
    return connection


@contextmanager
def _closed_on_error(connection: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def rows(
    connection: psycopg.Connection, statement: Statement, values: Any
) -> Generator[Sequence[Any]]:
    """Yield the rows of a statement.

    A long one is read in pieces: the driver would take all before it gives one.
    """
    with connection.cursor(binary=True) as cursor:
        if statement.is_long:
            yield from _in_pieces(connection, cursor, statement.text(ENGINE), values)
        else:
            yield from cursor.execute(statement.text(ENGINE).encode(), values or None)


def _in_pieces(
    connection: psycopg.Connection, cursor: psycopg.Cursor, sql: str, values: Any
) -> Iterator[Any]:
    """Yield rows by a cursor of the server, whose first rows are asked for with it: most answers
    are short.
    """
    with _free_name(connection) as name:
        fetch = f"FETCH FORWARD {PIECE} FROM {name}".encode()
        with connection.pipeline():
            cursor.execute(
                f"DECLARE {name} NO SCROLL CURSOR FOR {sql}".encode(), values or None, prepare=False
            )
            cursor.execute(fetch, prepare=False)
        cursor.nextset()  # after the answer to DECLARE
        try:
            while piece := cursor.fetchall():
                yield from piece
                if len(piece) < PIECE:
                    break
                cursor.execute(fetch, prepare=False)
        finally:
            # else it is gone already
            if connection.info.transaction_status == TransactionStatus.INTRANS:
                cursor.execute(f"CLOSE {name}".encode(), prepare=False)


class Sending(NamedTuple):
    """A statement for the server, and its values; a list of such values runs it for each.

    Each is right whatever the one before gave: they are sent at once.
    """

    sql: bytes
    values: Any = None
    prepare: bool | None = None  # None: when it comes often
    adds: int | None = None  # rows, none of which may be there


def sending(statement: Statement, values: Any) -> Sending:
    """Return a statement with values by name."""
    return Sending(statement.text(ENGINE).encode(), values or None)


def run_all(connection: psycopg.Connection, steps: Sequence[Step]) -> list[list[Any]]:
    """Run statements one after another, and return the rows of each."""
    return send_all(connection, [sending(*step) for step in steps])


def send_all(
    connection: psycopg.Connection,
    all_: Sequence[Sending],
    answered: Callable[[int], None] = lambda count: None,
) -> list[list[Any]]:
    """Run statements in one round trip, and return the rows of each.

    If one fails, `answered` gets the number of those before it.
    """
    if not all_:
        return []
    with ExitStack() as opened:
        cursors = [opened.enter_context(connection.cursor(binary=True)) for _ in all_]
        try:
            with connection.pipeline():
                for cursor, each in zip(cursors, all_, strict=True):
                    _send(cursor, each)
        except BaseException:
            answered(
                next(
                    (number for number, cursor in enumerate(cursors) if cursor.pgresult is None),
                    len(all_),
                )
            )
            raise
        answers: list[list[Any]] = []
        for cursor, each in zip(cursors, all_, strict=True):
            if each.adds not in (None, cursor.rowcount):
                raise psycopg.errors.UniqueViolation("a row was there already")
            answers.append(cursor.fetchall() if cursor.description else [])
        return answers


def _send(cursor: psycopg.Cursor, each: Sending) -> None:
    if isinstance(each.values, list):
        cursor.executemany(each.sql, each.values)
    else:
        cursor.execute(each.sql, each.values, prepare=each.prepare)


@contextmanager
def _free_name(connection: psycopg.Connection) -> Iterator[str]:
    """Give a cursor of the server the first name that is free in its connection: with a new name
    each time, `pg_stat_statements` would take each for another statement.
    """
    names = _CURSORS.setdefault(connection, set())
    name = next(f"ask_{number}" for number in count(1) if f"ask_{number}" not in names)
    names.add(name)
    try:
        yield name
    finally:
        names.discard(name)


def prepare(engine: Engine, settings: Mapping[str, str]) -> None:
    """Have each connection of an engine take settings."""

    # before SQLAlchemy asks for a version, in text
    @event.listens_for(engine, "connect", insert=True)
    def connect(connection: Any, _record: object) -> None:
        with _closed_on_error(connection):
            # the first is of an event loop
            adapt(getattr(connection, "driver_connection", connection))
        with connection.cursor() as cursor:
            for name, value in {**_EVERYWHERE, **settings}.items():
                cursor.execute(f"SET {name} = '{value}'")
        connection.commit()


def require_tables(url: URL, rows: Sequence[Sequence[Any]]) -> None:
    """Raise `NotFoundError` unless the rows of `READ_TABLES` name the tables of a log."""
    if VERSION_TABLE not in {row[0] for row in rows}:
        raise nothing_in(url)


_LOADERS: Mapping[str, tuple[type[Loader], ...]] = {
    "uuid": (_IdLoader, _IdBinaryLoader),
    "numeric": (_NumberLoader, _NumberBinaryLoader),
}


def adapt(connection: Any) -> None:
    """Have a connection of psycopg take and give values as recorder has them.

    Raise `StoreError` if its database does not keep every text: `initdb` with `LANG=C` makes such a
    server.
    """
    # said at every login, so asking costs nothing
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        raise StoreError(_NO_UTF8.format(name=connection.info.dbname, encoding=encoding))
    connection.adapters.register_dumper(bool, _FlagDumper)
    for type, loaders in _LOADERS.items():
        for loader in loaders:
            connection.adapters.register_loader(type, loader)


_AWAY = "The database {name} cannot be reached ({error}); try again when its server is there."
_CLOSED = "The database {name} does not let recorder in: {error}."
_NO_ROLES = (
    StoreError,
    "The user may not make roles in {name}: do this as one who has CREATEROLE, or a superuser.",
)
_MISSING = (
    StoreError,
    "There is no database {name}: create it with createdb, or give another URL.",
)
_REFUSED = (
    *("does not exist", "authentication failed", "no password supplied", "no pg_hba.conf entry"),
    *("not support SSL", "certificate", "SSL error", "channel binding"),
)
_NO_DATABASE = re.compile(r'database "[^"]*" does not exist')
_MEANING: Mapping[str, tuple[type[StoreError], str]] = {
    "22": (StoreError, "The database {name} does not take a value: {error}."),
    "23": (StoreConflictError, "The database {name} refused a row: {error}."),
    "08": (StoreBusyError, _AWAY),
    "57014": (StoreBusyError, "The database {name} did not answer in time."),
    "57": (StoreBusyError, _AWAY),  # it is shutting down, or somebody ended the connection
    "53": (StoreBusyError, "The database {name} has no room or no connection to spare: {error}."),
    "40": (StoreBusyError, "The database {name} could not do this beside something else: {error}."),
    "55": (StoreBusyError, "The database {name} is locked by another program; try again later."),
    "28": (StoreError, _CLOSED),
    "3D": _MISSING,
    "42501": (
        StoreError,
        "The user may not do this in {name} ({error}): see `recorder db upgrade --roles`.",
    ),
    "25006": (StoreError, "The database {name} is read-only: {error}."),
}


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn what psycopg and SQLAlchemy raise into the errors of recorder."""
    try:
        yield
    except DBAPIError as error:
        raise meaning(error.orig, url) from error
    except psycopg.Error as error:
        raise meaning(error, url) from error


_TEMPORARY = (
    "08",
    "28",
    "3D",
    "40",
    "53",
    "55",
    "57",
    "58",
    "XX",
    "25006",
    "25P03",
    "25P04",
    "42501",
)
"""SQLSTATE classes and codes of the server's condition, which passes or is mended without us: no
connection, no login, no database, a rollback, no resources, a lock, an operator, the system,
damage; a standby, a transaction that was idle or open for too long, a missing right."""


def is_of_statement(error: BaseException) -> bool:
    code = getattr(error, "sqlstate", None)
    # libpq has none for a connection that breaks, psycopg none for what it refuses itself
    if code is None:
        return isinstance(
            error, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError
        )
    return not str(code).startswith(_TEMPORARY)


def meaning(error: BaseException | None, url: URL) -> StoreError:
    """Return the error of recorder for an error of the driver about a database."""
    code = getattr(error, "sqlstate", None)
    kind, sentence = StoreError, "The database {name} failed: {error}."
    if code is not None:
        kind, sentence = _MEANING.get(code) or _MEANING.get(code[:2]) or (kind, sentence)
        if "to create role" in str(error):
            kind, sentence = _NO_ROLES
    elif isinstance(error, psycopg.OperationalError):
        # libpq has no code for what happened before there was a session
        is_final = any(words in str(error) for words in _REFUSED)
        kind, sentence = (StoreError, _CLOSED) if is_final else (StoreBusyError, _AWAY)
        if _NO_DATABASE.search(str(error)):
            kind, sentence = _MISSING
    return kind(sentence.format(name=database_name(url), error=_first_line(error)))


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")
