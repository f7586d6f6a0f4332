"""Events → rows of `events`: a body may be written as a recipe, which refers to rows that are there.

A recipe refers only to rows whose content is certain: those that this writer has inserted itself, in this transaction
or a committed one. A row that was there before may be encoded otherwise, and it is unknown if a failed transaction is
in the log: then everything is forgotten, and the next bodies are stored whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec

from recorder.errors import StoreConflictError
from recorder.model.events import SHARED, Event
from recorder.store.bodies.dedup import BodyDeduplicator
from recorder.store.engine import Writer
from recorder.store.schema import events
from recorder.store.sql import RELEASE, ROLLBACK_TO, SAVEPOINT


class EventAppender:
    """A writer of events, in the transactions of its owner, all of which pass through `certain`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._sharing = BodyDeduplicator()

    @contextmanager
    def certain(self, transaction: AbstractContextManager[None]) -> Iterator[None]:
        """Run a transaction in which events are appended, and forget all bodies if it fails after it began."""
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
            raise StoreConflictError(f"The database refused a row: no event has the type {SHARED!r}.")
        if event.type != "body":
            return event
        recipe = self._sharing.row(event.session_id, event.exchange_id, event.pos, event.raw)
        return event if recipe is None else msgspec.structs.replace(event, type=SHARED, raw=recipe)
