"""Verification of a whole database: the rows around the events, and each session with its
projections.

Rules of this file:

* It only reads, and a transaction holds a page of events, or the fold of one session.
* Recorders may continue to record, and sessions may be purged meanwhile: neither is a finding.
* A row that belongs to nothing is found as well as one that is missing: sessions are looked for in
  every table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import permutations
from typing import Any, Literal, Self

import msgspec
from sqlalchemy import URL, Table

from recorder.errors import StoreBusyError, StoreError
from recorder.model.events import Event, Exchange, Session
from recorder.store.bodies.rows import events_as_they_are
from recorder.store.engine import address_named
from recorder.store.location import database_name
from recorder.store.maintain.declared import schema_differences
from recorder.store.maintain.purge.tombstone import ARCHIVED, Tombstone
from recorder.store.maintain.upkeep import VerifyConnection, opened, verifying_of
from recorder.store.maintain.verify.chain import ChainVerifier, RecordedGap
from recorder.store.maintain.verify.chain import LogFinding as LogFinding
from recorder.store.maintain.verify.manifest import Roots
from recorder.store.schema import (
    LOG,
    dead_letters,
    events,
    exchanges,
    rebuilds,
    sessions,
    tables_of,
    tombstones,
)
from recorder.store.sql import ENDED_EXCHANGES, FORMS, Statement
from recorder.store.write.projector import Projector

PAGE_ROWS = 2_000
PAGE_BYTES = 4 * 2**20
FIRST_POS = -(2**63)  # nothing is before 0, and if something is, it is read

Writer = Literal["alive", "left", "gone"]
"""The state of a recorder: it runs; it was killed and left a journal; nothing is left of it."""


COMPARED = (*tables_of.values(), dead_letters)
_SESSION_IDS = Statement(
    " UNION ".join(
        f"SELECT DISTINCT session_id FROM {table.name}"
        for table in (*LOG, *COMPARED)
        if table is not events
    )
)
# `DISTINCT` would read every key of the largest table there is: this seeks from one session to the
# next.
_SESSION_IDS_OF_EVENTS = Statement("""WITH RECURSIVE found(session_id) AS (
    SELECT (SELECT session_id FROM events ORDER BY session_id LIMIT 1)
    UNION ALL
    SELECT (SELECT session_id FROM events WHERE session_id > found.session_id ORDER BY session_id LIMIT 1) FROM found
    WHERE found.session_id IS NOT NULL
) SELECT session_id FROM found WHERE session_id IS NOT NULL""")

_HERE = (
    f"EXISTS (SELECT 1 FROM {table.name} WHERE session_id = :id)" for table in (*LOG, *COMPARED)
)
_HAS = Statement(f"SELECT {' OR '.join(_HERE)}")


def all_of(table: Table) -> str:
    return f"SELECT {', '.join(column.name for column in table.c)} FROM {table.name} WHERE session_id = :id"


def differing_keys(table: Table, schemas: Sequence[str], key: str, condition: str = "") -> str:
    """Return the select of the keys of rows that a table has in one schema and not in the other."""
    columns = ", ".join(f'"{column.name}"' for column in table.c)
    sides = [f"SELECT {columns} FROM {schema}.{table.name} {condition}" for schema in schemas]
    return " UNION ".join(
        f"SELECT {key} FROM ({one} EXCEPT {other}) AS rest" for one, other in permutations(sides)
    )


def _exchange_ids(tables: Iterable[Table]) -> str:
    return " UNION ".join(
        f"SELECT exchange_id FROM {table.name} WHERE session_id = :id" for table in tables
    )


_SESSION, _EXCHANGES = Statement(all_of(sessions)), Statement(all_of(exchanges))
_TOMBSTONE = Statement(all_of(tombstones))
_COUNTS = Statement(
    "SELECT exchange_id, count(*) FROM events WHERE session_id = :id GROUP BY exchange_id"
)
_PROJECTED_IDS = Statement(_exchange_ids(COMPARED))
_ENDED = Statement(_exchange_ids((tables_of["exchanges"], dead_letters)))


class SessionRows(msgspec.Struct):
    """The rows of one session in all tables at one moment, without its events."""

    session: Session | None
    tombstone: Tombstone | None
    exchanges: Mapping[str, Exchange]
    counts: Mapping[str, int]  # of events, by exchange
    projected: set[str]  # exchanges of which there are projections
    ended: set[str]  # exchanges that have ended, as the projections say


def _page(comparison: str) -> Statement:
    """Return the select of the next events of a session, which may be of several exchanges."""
    order = "ORDER BY session_id, exchange_id, pos"
    page = f"{all_of(events)} AND (exchange_id, pos) {comparison} (:exchange_id, :pos) {order} LIMIT {PAGE_ROWS}"
    names = ", ".join(column.name for column in events.c)
    window = (
        f"sum(length(raw)) OVER ({order} ROWS UNBOUNDED PRECEDING) - length(raw) AS bytes_before"
    )
    measured = page.replace("SELECT ", f"SELECT {window}, ", 1)
    bounded = f"SELECT {names} FROM ({measured}) AS page WHERE bytes_before < {PAGE_BYTES} {order}"
    return Statement(lambda engine: page if address_named(engine).is_local else bounded)


# A file gives one row after the other. A server gives a page in one round trip, so it counts the
# bytes.
_FIRST_PAGE, _NEXT_PAGE = _page(">="), _page(">")
_IS_DUE = Statement("SELECT EXISTS (SELECT 1 FROM rebuilds)")
_COUNT = Statement("SELECT count(*) FROM events")


class SessionReport(msgspec.Struct):
    """The result of verifying one session."""

    session_id: str
    name: str | None = None
    exchanges: int = 0
    events: int = 0
    open: list[str] = msgspec.field(default_factory=list)
    gaps: list[RecordedGap] = msgspec.field(default_factory=list)
    findings: list[LogFinding] = msgspec.field(default_factory=list)
    roots: Roots | None = None
    tombstone: Tombstone | None = None
    heads: dict[str, bytes] = msgspec.field(default_factory=dict)
    """The last hash of each exchange that has ended."""

    @property
    def purged(self) -> bool:
        return self.tombstone is not None

    @property
    def archived(self) -> str | None:
        """Return the archive that has the session, so it is purged here; empty if that has no name."""
        if self.tombstone is None or self.tombstone.reason != ARCHIVED:
            return None
        return self.tombstone.archive or ""

    def find(
        self, exchange_id: str | None, check: str, message: str, pos: int | None = None
    ) -> None:
        self.findings.append(LogFinding(exchange_id, pos, check, message))


MADE = (*COMPARED, rebuilds)
"""The tables that a scratch connection must have of its own."""


def _compared(table: Table, engine: str) -> str:
    schemas = FORMS[engine].scratch_schemas
    return differing_keys(table, schemas, "exchange_id", "WHERE session_id = :session_id")


_COMPARED = {table.name: Statement(partial(_compared, table)) for table in COMPARED}


class ProjectionVerifier:
    """The projections of a session, computed again in scratch tables, compared with those of the
    log, and thrown away.

    The projector itself writes them: the log's tables are only read, and those that it writes are
    the scratch ones, which have the same names. The full-text index is neither made nor compared:
    it is only a list of words that `recorder db rebuild` makes anew.
    """

    def __init__(self, scratch: VerifyConnection) -> None:
        self._scratch, self._projector = scratch, Projector(scratch)

    def differences(self, session_id: str) -> list[tuple[str, str]]:
        """Return the exchanges of a session, each with a table whose rows for it are not what its
        events give: at this moment, in one transaction as long as the fold.
        """
        key = {"session_id": session_id}
        with self._scratch.transaction():
            ended = [
                (session_id, str(exchange_id))
                for (exchange_id,) in self._scratch.ask(ENDED_EXCHANGES, key)
            ]
            self._projector.project_all(ended, in_order=True)
            answers = self._scratch.run_all([(statement, key) for statement in _COMPARED.values()])
        found = []
        for table, differing in zip(_COMPARED, answers, strict=True):
            found += [(exchange_id, table) for (exchange_id,) in differing]
        return sorted(found)


class LogVerifier:
    """A database, open to be verified; `with LogVerifier.open(url, writer) as verifier:`."""

    def __init__(
        self, url: URL, reader: VerifyConnection, writer: Callable[[str], Writer], rest: ExitStack
    ) -> None:
        self.name = database_name(url)
        self._url, self._reader, self._writer, self._rest = url, reader, writer, rest
        self._refolding: ProjectionVerifier | None = None

    @classmethod
    @contextmanager
    def open(cls, url: URL, writer: Callable[[str], Writer]) -> Iterator[Self]:
        """Open a database. `writer` returns the state of a recorder.

        Raises `NotFoundError` if nothing was recorded there, `StoreError` if it is not a log that
        can be read here.
        """
        with opened(url) as reader, ExitStack() as rest:
            yield cls(url, reader, writer, rest)

    def damage(self) -> list[str]:
        """Return the damage that the engine itself finds: in a file, pages and indexes that do not
        hold together.
        """
        return self._reader.damage()

    def whole_damage(self) -> list[str]:
        """Return what is wrong with the database as a whole: damage, or else a schema that is not
        as declared, and full-text indexes without the words of their rows.
        """
        found = self.damage()
        if found:  # of such a file nothing else can be said for certain
            return found
        try:
            found = self._reader.orphans()
            found += [
                f"{each}: the schema is not as recorder made it"
                for each in schema_differences(self._url)
            ]
            return found if self.rebuild_is_due() else found + self._reader.search_damage()
        except StoreBusyError:
            raise
        except StoreError as error:
            return [*found, str(error)]

    def rebuild_is_due(self) -> bool:
        """Return whether a rebuild of the projections is due: then they are not compared."""
        return bool(self._ask(_IS_DUE)[0][0])

    def count(self) -> int:
        """Return the number of events."""
        count: int = self._ask(_COUNT)[0][0]
        return count

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions that have a row in any table, in order."""
        rows = [*self._ask(_SESSION_IDS), *self._ask(_SESSION_IDS_OF_EVENTS)]
        return sorted({session_id for (session_id,) in rows})

    def has(self, session_id: str) -> bool:
        """Return whether a session has a row in any table."""
        return bool(self._ask(_HAS, {"id": session_id})[0][0])

    def verify(
        self, session_id: str, advance: Callable[[int], None], *, projections: bool = True
    ) -> SessionReport:
        """Read a session to its last event.

        `advance` is called after every page with its number of events.
        """
        verified = SessionReport(session_id)
        try:
            found = self._rows(session_id)
            verified.name = found.session.name if found.session else None
            verified.tombstone = found.tombstone
            self._check_rows(found, verified)
            self._check_exchanges(found, verified, advance)
            if projections and found.projected | found.exchanges.keys():
                self._check_projections(verified)
            if verified.findings and not verified.purged:
                now = self._rows(session_id)
                if now.tombstone is not None:  # it was purged while it was read
                    return SessionReport(session_id, verified.name, tombstone=now.tombstone)
        except StoreBusyError:
            raise  # which says nothing of what is recorded there
        except StoreError as error:
            verified.find(None, "file", f"the rest cannot be read: {error}")
        return verified

    def _rows(self, session_id: str) -> SessionRows:
        """Read the rows of a session, in one transaction: else a row that is recorded meanwhile
        would seem to belong to nothing.
        """
        key = {"id": session_id}
        with self._reader.transaction():
            begun = [Exchange(*row) for row in self._ask(_EXCHANGES, key)]
            return SessionRows(
                session=next((Session(*row) for row in self._ask(_SESSION, key)), None),
                tombstone=next((Tombstone(*row) for row in self._ask(_TOMBSTONE, key)), None),
                exchanges={exchange.exchange_id: exchange for exchange in begun},
                counts=dict(self._ask(_COUNTS, key)),
                projected={exchange_id for (exchange_id,) in self._ask(_PROJECTED_IDS, key)},
                ended={exchange_id for (exchange_id,) in self._ask(_ENDED, key)},
            )

    @staticmethod
    def _check_rows(found: SessionRows, verified: SessionReport) -> None:
        """Find rows that belong to nothing, and rows of a purged session."""
        exchanges = found.exchanges.keys()
        if verified.purged:
            if exchanges or found.counts or found.session or found.projected:
                verified.find(
                    None, "purge", "the session was purged, but rows of it are here again"
                )
            return
        if found.session is None:
            verified.find(
                None, "orphan", "there are rows of a session that has no row itself: it was removed"
            )
        for exchange_id in sorted(found.counts.keys() - exchanges):
            verified.find(
                exchange_id,
                "orphan",
                "there are events of an exchange that has no row: it was removed",
            )
        for exchange_id in sorted(found.projected - exchanges - found.counts.keys()):
            verified.find(
                exchange_id, "orphan", "there are projections of an exchange that was removed"
            )

    def _check_exchanges(
        self, found: SessionRows, verified: SessionReport, advance: Callable[[int], None]
    ) -> None:
        roots = verified.roots = Roots(found.session) if found.session is not None else None
        writers = {  # before their events are read
            id: self._writer(each.recorder_id)
            for id, each in found.exchanges.items()
            if id not in found.ended
        }
        for exchange_id, read in self._read(verified.session_id, found, advance):
            verified.exchanges += 1
            verified.events += read.events
            verified.gaps += read.gaps
            verified.findings += read.findings
            if read.events < found.counts.get(exchange_id, 0):
                verified.find(
                    exchange_id,
                    "position",
                    "some of its events cannot be reached: the index is damaged",
                )
            if read.end_pos is None:
                roots = None  # what a manifest is over ends here
                self._check_open(
                    verified,
                    exchange_id,
                    writers.get(exchange_id, "gone"),
                    exchange_id in found.ended,
                )
                continue
            verified.heads[exchange_id] = read.head
            if roots is not None and exchange_id in found.exchanges:
                roots.add(found.exchanges[exchange_id], read.end_pos + 1, read.head)

    def _read(
        self, session_id: str, found: SessionRows, advance: Callable[[int], None]
    ) -> Iterator[tuple[str, ChainVerifier]]:
        """Yield each exchange with its verifier, which has read it.

        An exchange that began since is left out.
        """
        exchange_ids = sorted(found.exchanges.keys() | found.counts.keys())
        reading = self._events(session_id, exchange_ids[0], advance) if exchange_ids else iter(())
        event = next(reading, None)
        for exchange_id in exchange_ids:
            verifier = ChainVerifier(session_id, exchange_id, found.exchanges.get(exchange_id))
            while event is not None and event.exchange_id <= exchange_id:
                if event.exchange_id == exchange_id:
                    verifier.feed(event)
                event = next(reading, None)
            verifier.close()
            yield exchange_id, verifier

    def _events(
        self, session_id: str, exchange_id: str, advance: Callable[[int], None]
    ) -> Iterator[Event]:
        """Yield the events of a session from an exchange on, in order of their exchanges."""
        place = exchange_id, FIRST_POS
        statement = _FIRST_PAGE
        while page := self._page(statement, session_id, place):
            for event in page:
                if event.exchange_id < exchange_id:
                    raise StoreError("the events are not in order, so the index is damaged")
                exchange_id = event.exchange_id
                yield event
            advance(len(page))
            last = page[-1].exchange_id, page[-1].pos
            if statement is _NEXT_PAGE and last <= place:
                raise StoreError("the events are not in order, so the index is damaged")
            place, statement = last, _NEXT_PAGE

    def _page(self, statement: Statement, session_id: str, place: tuple[str, int]) -> list[Event]:
        """Return the next events, read at once so that no transaction stays open; one may be longer
        than a page.
        """
        values = {"id": session_id, "exchange_id": place[0], "pos": place[1]}
        page: list[Event] = []
        size_bytes = 0
        with self._reader.transaction(), closing(self._reader.ask(statement, values)) as rows:
            for event in events_as_they_are(rows, self._reader.ask):
                page.append(event)
                size_bytes += len(event.raw)
                if size_bytes >= PAGE_BYTES:
                    break
        return page

    @staticmethod
    def _check_open(
        verified: SessionReport, exchange_id: str, writer: Writer, has_ended: bool
    ) -> None:
        if has_ended:
            message = "its end is missing, though its projections say that it has ended: its last events were cut off"
            verified.find(exchange_id, "end", message)
        elif writer == "alive":
            verified.open.append(exchange_id)
        else:
            verified.find(exchange_id, "end", _UNENDED[writer])

    def _check_projections(self, verified: SessionReport) -> None:
        if self._refolding is None:
            scratch = verifying_of(self._url).scratch_connection(self._url, MADE)
            self._refolding = ProjectionVerifier(self._rest.enter_context(scratch))
        for exchange_id, table in self._refolding.differences(verified.session_id):
            message = f"{table} differs from what its events give: run `recorder db rebuild`"
            verified.find(exchange_id, "projection", message)

    def _ask(self, statement: Statement, values: Mapping[str, Any] | None = None) -> list[Any]:
        return list(self._reader.ask(statement, values or {}))


_UNENDED: Mapping[Writer, str] = {
    "left": "it has no end, and its recorder is gone: run `recorder db recover`",
    "gone": "it has no end, nobody records it, and no journal has the rest: its last events were cut off",
}
