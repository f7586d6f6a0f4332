"""The connections that prove an archive: the tables by DuckDB, and each session as a log.

The hashes of a session are computed when it is read, and the last one of an exchange is that which was recorded: a
change of any event is a difference there. What the files themselves have of damage, DuckDB says when it reads them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import URL, Table

from recorder.errors import StoreError
from recorder.store.ducklake.connection import LAKE, translated
from recorder.store.ducklake.schema import COPIED, require_revision
from recorder.store.ducklake.sessions import ArchiveSessions
from recorder.store.maintain.verify.connection import VerifyConnection, opened, scratch
from recorder.store.sql import Statement, Step

COMMAND = "verify"
ROWS = 1000  # fetched at once

_open: WeakValueDictionary[URL, ArchiveSessions] = WeakValueDictionary()
"""The archives that are being proved: a scratch connection reads the same sessions again."""


@contextmanager
def verify_connection(url: URL) -> Iterator[LakeVerifyConnection]:
    """Open an archive to prove it. Raise `NotFoundError` or `StoreError` if there is none that can be read here."""
    with ArchiveSessions(url, COMMAND, warns=False) as sessions:
        with translated(url):
            require_revision(url, sessions.connection)
        _open[url] = sessions
        yield LakeVerifyConnection(url, sessions)


@contextmanager
def scratch_connection(url: URL, tables: Sequence[Table]) -> Iterator[LakeScratchConnection]:
    """Open a scratch connection, which has one session of the archive in each transaction."""
    with ExitStack() as rest:
        sessions = _open.get(url) or rest.enter_context(ArchiveSessions(url, COMMAND, warns=False))
        yield LakeScratchConnection(sessions, tables)


class LakeVerifyConnection:
    """A `recorder.store.maintain.verify.connection.VerifyConnection`."""

    engine = "ducklake"

    def __init__(self, url: URL, sessions: ArchiveSessions) -> None:
        self._url, self._sessions = url, sessions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield  # a session that was read does not change

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        if (session_id := _session_of(values)) is not None:
            with opened(self._sessions.log(session_id).url) as log:
                yield from log.ask(statement, values)
            return
        with translated(self._url):
            cursor = self._sessions.connection.cursor()
            cursor.execute(f"USE {LAKE}")
            result = cursor.execute(statement.text(self.engine))
            while page := result.fetchmany(ROWS):
                yield from page

    def run(self, statement: Statement, values: Any) -> None:
        raise NotImplementedError("an archive is only read")

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        return [list(self.ask(statement, values)) for statement, values in steps]

    def damage(self) -> list[str]:
        """Return the tables of which a file is missing, or has a key that cannot be read. A count would read none."""
        found = []
        for table in COPIED:
            try:
                with translated(self._url):
                    self._sessions.connection.execute(
                        f"SELECT sum(length({table.key[0]})) FROM {table.name}"
                    ).fetchall()
            except StoreError as error:
                found.append(str(error))
        return found

    def orphans(self) -> list[str]:
        return []  # an event has the ids of its session and its exchange itself

    def search_damage(self) -> list[str]:
        return []  # an archive has no index of words


class LakeScratchConnection:
    """A `recorder.store.maintain.verify.connection.VerifyConnection` with scratch tables, of one session after the
    other.
    """

    engine = "sqlite"

    def __init__(self, sessions: ArchiveSessions, tables: Sequence[Table]) -> None:
        self._sessions, self._tables = sessions, tables
        self._rest = ExitStack()
        self._scratch: VerifyConnection | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._scratch = None
            self._rest.close()

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        return self._of(values).ask(statement, values)

    def run(self, statement: Statement, values: Any) -> None:
        self._of(values).run(statement, values)

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        return self._of(steps[0][1]).run_all(steps) if steps else []

    def damage(self) -> list[str]:
        return []

    def orphans(self) -> list[str]:
        return []  # an event has the ids of its session and its exchange itself

    def search_damage(self) -> list[str]:
        return []

    def _of(self, values: Any) -> VerifyConnection:
        """Return the scratch connection of the session that the first statement of a transaction names."""
        if self._scratch is None:
            log = self._sessions.log(str(_session_of(values)))
            self._scratch = self._rest.enter_context(scratch(log.url, self._tables))
            self._rest.enter_context(self._scratch.transaction())
        return self._scratch


def _session_of(values: Any) -> str | None:
    """Return the session that a statement is about: the values name it."""
    if not isinstance(values, Mapping):
        return None
    found = values.get("session_id", values.get("id"))
    return None if found is None else str(found)
