"""The store: the one way in which rows enter the log.

Rules of this file:

* Synchronous, for one thread: the ingester is a separate process, and statements that are compiled
  once and run by the driver are as fast as the driver.
* Rows of the log are added, and nothing else is done to them but by a purge
  (`recorder.store.maintain.purge.delete`). Writing the same again changes nothing: a transaction
  whose commit may have failed is repeated.
* Differences between engines are behind `Writer`; no statement here depends on the engine.
"""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import msgspec
from sqlalchemy import URL, Connection, Table

from recorder.errors import StoreConflictError, StoreError
from recorder.model.attribution import OWNED, Attribution, labels_of, owner_of
from recorder.model.events import SHARED, Event, Exchange, Session
from recorder.store.bodies.dedup import BodyDeduplicator
from recorder.store.bodies.rows import events_as_they_are
from recorder.store.engine import BUSY_TIMEOUT_S, WRITER_ROLE, Writer, schema_of, writing_of
from recorder.store.location import database_name, database_path, database_url
from recorder.store.queries.resumed_response import (
    SESSION_OF_LAST_RESPONSE,
    SESSION_OF_RESPONSE,
    SESSIONS_OF_LINKS,
)
from recorder.store.schema import events, exchanges, sessions
from recorder.store.sql import (
    FORMS,
    OF_EXCHANGE,
    RELEASE,
    ROLLBACK_TO,
    SAVEPOINT,
    Statement,
    Step,
    columns_of,
)
from recorder.store.write.projector import Projector

OWNERS = 10_000  # exchanges whose owner is known: more than are open at once

_pos = attrgetter("pos")


class _Head(msgspec.Struct, frozen=True):
    """The field of a `request` event that is read here."""

    attribution: Attribution = Attribution()


_head = msgspec.json.Decoder(_Head).decode


def _in_order(events_: Iterable[Event]) -> list[Event]:
    """Return events in order of their keys.

    Those of one exchange mostly are already: to sort all takes five times as long.
    """
    of_exchanges = defaultdict[tuple[str, str], list[Event]](list)
    for event in events_:
        of_exchanges[event.session_id, event.exchange_id].append(event)
    in_order: list[Event] = []
    for key in sorted(of_exchanges):
        in_order += sorted(of_exchanges[key], key=_pos)
    return in_order


def _first_id(rows: Sequence[Sequence[Any]]) -> str | None:
    for session_id, *_ in rows:
        return str(session_id)
    return None


_NAMED = "SELECT session_id FROM sessions WHERE name = :name AND source = :source"
_NEWEST = "ORDER BY created_ns DESC, session_id DESC LIMIT 1"
_SESSION_NAMED = Statement(f"{_NAMED} AND substr(labels, 1, {len(OWNED)}) <> '{OWNED}' {_NEWEST}")
_SESSION_OF_OWNER = Statement(f"{_NAMED} AND labels = :labels {_NEWEST}")
_LABELS = Statement("SELECT labels FROM sessions WHERE session_id = :session_id")
_SESSION_OF_EXCHANGE = Statement(
    "SELECT session_id FROM exchanges WHERE exchange_id = :exchange_id"
)
_LAST_EVENT = Statement(
    f"SELECT {columns_of(events, 'e')} FROM events AS e WHERE {OF_EXCHANGE} ORDER BY pos DESC LIMIT 1"
)


def _set_offset(engine: str) -> str:
    """Return the statement that sets a place.

    One never goes back: a commit that was given up may be done late, after what was committed
    since.
    """
    return f"""INSERT INTO ingest_offsets (recorder_id, segment, "offset", seen_ns, host)
VALUES (:recorder_id, :segment, :offset, {FORMS[engine].clock_ns}, :host)
ON CONFLICT (recorder_id) DO UPDATE
SET segment = excluded.segment, "offset" = excluded."offset", seen_ns = excluded.seen_ns, host = excluded.host
WHERE (excluded.segment, excluded."offset") >= (ingest_offsets.segment, ingest_offsets."offset")"""


_SET_OFFSET = Statement(_set_offset)
_OF_RECORDER = "WHERE recorder_id = :recorder_id"
_RENEW = Statement(
    lambda engine: f"UPDATE ingest_offsets SET seen_ns = {FORMS[engine].clock_ns} {_OF_RECORDER}"
)
_OFFSET = Statement(f'SELECT segment, "offset" FROM ingest_offsets {_OF_RECORDER}')
_FORGET = Statement(f"DELETE FROM ingest_offsets {_OF_RECORDER}")


class EventAppender:
    """A writer of events, in the transactions of its owner, all of which pass through `certain`.

    A body may be written as a recipe, which refers only to rows whose content is certain: those
    that this writer has inserted itself, in this transaction or a committed one. A row that was
    there before may be encoded otherwise, and it is unknown if a failed transaction is in the log:
    then everything is forgotten, and the next bodies are stored whole. And it refers only to rows
    of the same owner and team: who sees one sees the others.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._sharing = BodyDeduplicator()
        self._owners = dict[str, str]()  # of exchanges that have one, the last `OWNERS`

    @contextmanager
    def certain(self, transaction: AbstractContextManager[None]) -> Iterator[None]:
        """Run a transaction in which events are appended, and forget all bodies if it fails after
        it began.
        """
        has_begun = False
        try:
            with transaction:
                has_begun = True
                yield
        except BaseException:
            if has_begun:
                self._sharing.forget()
            raise

    def append(self, new: list[Event]) -> bool:
        """Add events, in order of their keys. Return whether none was there already."""
        if not new:
            return True
        stored = list(map(self._stored, new))
        has_recipes = stored != new
        if has_recipes:
            self._writer.run(SAVEPOINT, {})
        is_new = self._add(stored)
        if not is_new:  # others may refer to what they are not
            self._sharing.forget()
            if has_recipes:
                self._writer.run(ROLLBACK_TO, {})
                self._add(new)
        if has_recipes:
            self._writer.run(RELEASE, {})
        return is_new

    def _add(self, new: Sequence[Event]) -> bool:
        return self._writer.add(events, list(map(msgspec.structs.astuple, new))) == len(new)

    def _stored(self, event: Event) -> Event:
        """Return the event as it is written: in place of a request's body there may be a recipe."""
        if event.kind != "request":
            return event
        if event.type == SHARED:
            raise StoreConflictError(
                f"The database refused a row: no event has the type {SHARED!r}."
            )
        if event.type is None:
            self._learn_owner(event)
        if event.type != "body":
            return event
        group = event.session_id + self._owners.get(event.exchange_id, "")
        recipe = self._sharing.row(group, event.exchange_id, event.pos, event.raw)
        return event if recipe is None else msgspec.structs.replace(event, type=SHARED, raw=recipe)

    def _learn_owner(self, head: Event) -> None:
        """Note whose an exchange is, of the event that its bodies follow."""
        if b'"attribution"' not in head.raw:
            return
        try:
            whose = _head(head.raw).attribution
        except msgspec.MsgspecError:  # a copy may bring anything
            return
        self._owners[head.exchange_id] = f" {whose.owner!r} {whose.team!r}"
        if len(self._owners) > OWNERS:
            del self._owners[next(iter(self._owners))]


class Store:
    """The database, open for writing. Opening creates it, or brings it to the newest schema."""

    def __init__(
        self,
        url: str | Path | URL,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        answer_timeout_s: float = inf,
        host: str | None = None,
    ) -> None:
        """`busy_timeout_s` is how long a transaction waits for another writer before it raises
        `StoreBusyError`.

        `answer_timeout_s` is the same for a server that does not answer. It is for a caller that
        repeats what it asked: nobody knows whether the server still does it. `host` is where the
        recorders are whose places are set, if not on this machine.
        """
        self.url = database_url(url)
        self._host = host or platform.node()
        schema_of(self.url).upgrade(self.url, busy_timeout_s, answer_timeout_s)
        self._writer = writing_of(self.url).writer(self.url, busy_timeout_s, answer_timeout_s)
        self._appender = EventAppender(self._writer)
        self.projector = Projector(self)  # inside a transaction, as everything else
        self._is_inside = False  # a transaction, or a look
        self._failure: StoreError | None = None  # of a statement of this transaction
        self._failed_before: StoreError | None = None  # the same before the attempt

    @property
    def path(self) -> Path:
        """Return the file. Raise `UsageError` if the database is none."""
        return database_path(self.url)

    @property
    def engine(self) -> str:
        return self._writer.engine

    @property
    def _connection(self) -> Connection:
        return self._writer.connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @contextmanager
    def transaction(self, alone: bool = False) -> Iterator[None]:
        """Commit all that is written inside at its end, durably, or nothing if it raises.

        `alone` waits for other writers of a server, and makes later ones wait; in a file it is
        always so.

        Raises `StoreBusyError` when another program writes for too long or the disk is full:
        nothing is written then, and the same transaction may be repeated. Raises `StoreLostError`
        when the file was deleted or replaced: it may be repeated with a new store, once this one is
        closed.
        """
        with self._appender.certain(self._writer.transaction(alone)), self._inside():
            yield
            if self._failure is not None:
                raise self._failure

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Only read inside what was committed. Raises as `transaction` does."""
        with self._writer.looking(), self._inside():
            yield

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._is_inside, self._failure = True, None
        try:
            yield
        finally:
            self._is_inside = False

    def session_of_exchange(self, exchange_id: str) -> str | None:
        """Return the id of the session that an exchange is in, or None if the log does not have it
        yet.
        """
        return self.sessions_of(exchange_id)[0]

    def sessions_of(
        self,
        exchange_id: str,
        name: str = "",
        sources: Sequence[str] = (),
        owner: str | None = None,
    ) -> list[str | None]:
        """Return the id of the session that an exchange is in, and of the newest session of a name
        and an owner that each of some grouping rules (`sources`) gave; None where there is none.
        """
        statement = _SESSION_NAMED if owner is None else _SESSION_OF_OWNER
        values = {"name": name} if owner is None else {"name": name, "labels": labels_of(owner)}
        named = [(statement, {**values, "source": source}) for source in sources]
        answers = self.run_all([(_SESSION_OF_EXCHANGE, {"exchange_id": exchange_id}), *named])
        return [_first_id(rows) for rows in answers]

    def session_of_response(self, response_id: str) -> str | None:
        """Return the id of the session in which one of the last exchanges had a response id, or
        None.
        """
        quoted_id = msgspec.json.encode(response_id)
        rows = list(self.ask(SESSION_OF_RESPONSE, {"quoted_id": quoted_id}))
        if not rows:
            rows = list(self.ask(SESSION_OF_LAST_RESPONSE, {"response_id": response_id}))
        return _first_id(rows)

    def owner_of_session(self, session_id: str) -> str | None:
        """Return whose session it is; None if it is of no owner."""
        rows = self.ask(_LABELS, {"session_id": session_id})
        return next((owner_of(labels) for (labels,) in rows), None)

    def session_of_links(self, links: Sequence[str], source: str) -> str | None:
        """Return the id of the one session of a grouping rule whose last exchanges were given one
        of these ids, of calls or items. None if several have them: some servers give the same ids
        over and over.
        """
        self.run_all([])  # after all that was run before: this statement is not compiled beforehand
        with self._statement():
            rows = self._connection.execute(
                SESSIONS_OF_LINKS, {"links": list(links), "source": source}
            ).all()
        return _first_id(rows) if len(rows) == 1 else None

    def last_event(self, session_id: str, exchange_id: str) -> Event | None:
        """Return the last event that the log has of an exchange, or None."""
        rows = list(self.ask(_LAST_EVENT, {"session_id": session_id, "exchange_id": exchange_id}))
        return next(events_as_they_are(rows, self.ask), None)

    def add_session(self, session: Session) -> None:
        """Add a session. Raise `StoreConflictError` if its id has other content."""
        self.add_sessions([session])

    def add_sessions(self, added: Sequence[Session]) -> None:
        """Add sessions. Raise `StoreConflictError` if the id of one has other content."""
        self._add(sessions, added)

    def add_exchange(self, exchange: Exchange) -> None:
        """Add an exchange.

        Raise `StoreConflictError` if its id has other content, or its session is not there.
        """
        self.add_exchanges([exchange])

    def add_exchanges(self, added: Sequence[Exchange]) -> None:
        """Add exchanges.

        Raise `StoreConflictError` if the id of one has other content, or its session is not there.
        """
        self._add(exchanges, added)

    def append(self, events_: Sequence[Event]) -> bool:
        """Append events of any number of exchanges, in any order.

        Rows that are there already are skipped. Return whether none was there.

        Raise `StoreConflictError` if a position has other content, or would be skipped.
        """
        with self._statement():
            return self._appender.append(_in_order(events_))

    def delete_session(self, session_id: str) -> None:
        """Delete the rows of a purged session from the log.

        Its tombstone stands in this transaction already.
        """
        with self._statement():
            self._writer.delete_session(session_id)

    def set_offset(self, recorder_id: str, segment: int, offset: int) -> None:
        """Set how far the journal of a recorder is in the log, from the next commit on."""
        place = {"recorder_id": recorder_id, "segment": segment, "offset": offset}
        self.run(_SET_OFFSET, {**place, "host": self._host})

    def renew(self, recorder_id: str) -> None:
        """Write a recorder's sign of life to a server, as `set_offset` does too.

        For idle moments.
        """
        self.run(_RENEW, {"recorder_id": recorder_id})

    def offset(self, recorder_id: str) -> tuple[int, int] | None:
        """Return the segment and offset up to which the journal of a recorder is in the log, or
        None.
        """
        rows = self.ask(_OFFSET, {"recorder_id": recorder_id})
        return next(((segment, offset) for segment, offset in rows), None)

    def forget_offset(self, recorder_id: str) -> None:
        """Delete the offset of a recorder whose journal was deleted."""
        self.run(_FORGET, {"recorder_id": recorder_id})

    def checkpoint(self) -> None:
        """Move what was committed to where it stays, as far as no reader is in the way.

        For idle moments.
        """
        self._writer.checkpoint()

    def tidy(self) -> None:
        """Do the checkpoint that a reader was in the way of, if it is time.

        For idle moments, as often as one likes.
        """
        self._writer.tidy()

    def require_rights(self) -> None:
        """Raise `StoreError` if the user may read the log and not add to it."""
        asked = schema_of(self.url).may_add_sql
        if asked is None:
            return
        with self.transaction():
            if not all(may for (may,) in self.ask(Statement(asked), {})):
                raise StoreError(
                    f"The user of {database_name(self.url)} may only read it: record as a login that was granted "
                    f"{WRITER_ROLE}, which `recorder db upgrade --roles` makes."
                )

    def grant(self, statements: Iterable[str]) -> None:
        """Run statements of the schema's owner, about rights or partitions, in a separate
        transaction. They lock tables, one after another, so nobody writes meanwhile.
        """
        with self.transaction(alone=True), self._statement():
            self.run_all([])
            for statement in statements:
                self._connection.exec_driver_sql(statement)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def _add(self, table: Table, rows: Sequence[msgspec.Struct]) -> None:
        with self._statement():
            if rows:
                self._writer.add(table, [msgspec.structs.astuple(row) for row in rows])

    def run(self, statement: Statement, values: Any) -> None:
        with self._statement():
            self._writer.run(statement, values)
        if statement is SAVEPOINT:
            self._failed_before = self._failure
        elif statement is ROLLBACK_TO:
            self._failure = self._failed_before

    def ask(self, statement: Statement, values: Any) -> Generator[Sequence[Any]]:
        with self._statement():
            yield from self._writer.ask(statement, values)

    def run_all(self, steps: Sequence[Step]) -> list[list[Sequence[Any]]]:
        with self._statement():
            return self._writer.run_all(steps)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Prevent the commit of a transaction in which a statement failed, even if the caller
        continues.

        On a full disk SQLite undoes the statement or the whole transaction, and takes the next
        small row gladly.
        """
        # SQLAlchemy would begin a transaction: without the write lock, without an end
        if not self._is_inside:
            raise RuntimeError(
                "A store is read and written inside `with store.transaction():` only."
            )
        try:
            with self._writer.translated():
                yield
        except StoreError as error:
            self._failure = error
            raise
