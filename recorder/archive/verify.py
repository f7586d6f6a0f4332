"""The proof of an archive: its tables by DuckDB, and each session as a log.

The hashes of a session are computed when it is unpacked, and the last one of an exchange is that
which was recorded: a change of any event is a difference there. What the files themselves have of
damage, DuckDB says when it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from recorder.archive.lake import translated
from recorder.archive.place import is_archive
from recorder.archive.schema import COPIED
from recorder.errors import StoreBusyError, StoreError
from recorder.program import load
from recorder.store.maintain.verify.log import LogVerifier, SessionReport, Writer
from recorder.store.sql import Statement

if TYPE_CHECKING:
    from recorder.archive.unpack import Archive

COMMAND = "verify"


@contextmanager
def open_verifier(url: URL, writer: Callable[[str], Writer]) -> Iterator[LogVerifier]:
    """Open a log or an archive to prove it. `writer` returns the state of a recorder.

    Raise `NotFoundError` or `StoreError` if there is none that can be read here.
    """
    if not is_archive(url):
        with LogVerifier.open(url, writer) as verifier:
            yield verifier
        return
    with load("recorder.archive.unpack:open_archive")(url, COMMAND) as archive:
        yield ArchiveVerifier(archive, writer)


class ArchiveVerifier(LogVerifier):
    """A verifier of an archive, whose tables DuckDB reads."""

    def __init__(self, archive: Archive, writer: Callable[[str], Writer]) -> None:
        self.name = archive.name
        self._archive, self._writer = archive, writer

    def whole_damage(self) -> list[str]:
        """Return the tables of which a file is missing, or has a key that cannot be read.

        A count would read none.
        """
        found = []
        for table in COPIED:
            try:
                self._ask(Statement(f"SELECT sum(length({table.key[0]})) FROM {table.name}"))
            except StoreError as error:
                found.append(str(error))
        return found

    def session_ids(self) -> list[str]:
        every = " UNION ".join(f"SELECT session_id FROM {table.name}" for table in COPIED)
        return sorted(session_id for (session_id,) in self._ask(Statement(every)))

    def verify(
        self, session_id: str, advance: Callable[[int], None], *, projections: bool = True
    ) -> SessionReport:
        """Read a session to its last event.

        `advance` is called after every page with its number of events.
        """
        try:
            unpacked = self._archive.unpack(session_id)
        except StoreBusyError:
            raise
        except StoreError as error:
            report = SessionReport(session_id)
            report.find(None, "file", f"the rest cannot be read: {error}")
            return report
        with closing(unpacked), LogVerifier.open(unpacked.url, self._writer) as verifier:
            report = verifier.verify(session_id, advance, projections=projections)
        for exchange_id in unpacked.orphans:
            report.find(
                exchange_id,
                "orphan",
                "there are events of an exchange that has no row: it was removed",
            )
        return report

    def _ask(self, statement: Statement, values: Mapping[str, Any] | None = None) -> list[Any]:
        sql, names = statement.positional("sqlite")
        with translated(self._archive.url):
            return self._archive.connection.execute(
                sql, [(values or {})[name] for name in names]
            ).fetchall()
